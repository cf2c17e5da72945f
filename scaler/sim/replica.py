"""One replica of the fleet: a pod that loads a model, serves, and drains before it goes."""

import enum
import math
from dataclasses import dataclass

from scaler.sim.engine import Engine


class Phase(enum.StrEnum):
    """Where a pod is in its life."""

    STARTING = "starting"
    """Waiting for a node, pulling the image, loading the model: it answers nothing."""
    SERVING = "serving"
    """Ready: it takes requests."""
    DRAINING = "draining"
    """Told to go: it takes no new requests and works off the ones it has."""


@dataclass(slots=True, eq=False)
class Replica:
    """A pod and the engine in it."""

    name: str
    created_at: float
    ready_at: float
    """When it serves; infinity while it has no node, and when its start never succeeds."""
    engine: Engine
    scheduled_at: float = math.inf
    fails_at: float = math.inf
    draining_since: float | None = None
    gone: bool = False
    last_routed: int = 0
    """Number of the newest request that it was given, over the whole fleet: idle replicas take turns by it."""
    noted: float = math.inf
    """When the fleet looks at its engine next, at the latest."""

    @property
    def scheduled(self) -> bool:
        """Whether it has a node."""
        return self.scheduled_at < math.inf

    def phase(self, at: float) -> Phase:
        """Tell the phase at ``at``."""
        if self.draining_since is not None:
            return Phase.DRAINING
        return Phase.SERVING if at >= self.ready_at else Phase.STARTING
