"""Ray Serve's replica autoscaler: ongoing requests for each replica, with a delay each way."""

import math
from typing import Final

from scaler.sim.hpa import HpaSpec
from scaler.sim.law import Answer, Seen
from scaler.sim.rivals.windows import Window

# Defaults of AutoscalingConfig.
_LOOK_BACK_S: Final = 30.0
_UP_DELAY_S: Final = 30.0
_DOWN_DELAY_S: Final = 600.0
# Replicas and handles report so often, and nothing is decided in between.
_REPORT_S: Final = 10.0
# max_ongoing_requests, here the slots, is to be 20 to 50 % above the target: the middle of that.
_SLOTS_ABOVE_TARGET: Final = 1.35


class RayServe:
    """The mean of ongoing requests over 30 s, queued ones at the handles included.

    Source: Ray Serve's advanced autoscaling guide. The total over the target is the count, so replicas that start are
    not asked for twice. It is gone to once the mean has asked for more all through 30 s, or for fewer all through
    600 s; in one step, to what is asked for at that moment. A full load is seen as it is. Without reports of replicas
    the requests at the handles remain.

    Args:
        slots: Slots of one replica, its ``max_ongoing_requests``.
        min_replicas: Fewest replicas.
        max_replicas: Most replicas.
    """

    tick_s: float | None = _REPORT_S
    hpa: HpaSpec | None = None

    def __init__(self, slots: int, *, min_replicas: int, max_replicas: int) -> None:
        self._target = slots / _SLOTS_ABOVE_TARGET
        self._bounds = (min_replicas, max_replicas)
        self._ongoing = Window(_LOOK_BACK_S)
        self._up_since: float | None = None
        self._down_since: float | None = None

    def answer(self, seen: Seen) -> Answer:
        """Divide, and wait until it has lasted."""
        self._ongoing.add(seen.at, seen.live.in_flight + seen.live.unrouted)
        least, most = self._bounds
        wanted = min(max(math.ceil(self._ongoing.mean / self._target), least), most)
        current = seen.status.spec_replicas
        self._up_since = _since(self._up_since, seen.at, holds=wanted > current)
        self._down_since = _since(self._down_since, seen.at, holds=wanted < current)
        if self._up_since is not None and seen.at - self._up_since >= _UP_DELAY_S:
            self._up_since = None
            return (wanted,)
        if self._down_since is not None and seen.at - self._down_since >= _DOWN_DELAY_S:
            self._down_since = None
            return (wanted,)
        return (current,)


def _since(before: float | None, now: float, *, holds: bool) -> float | None:
    if not holds:
        return None
    return now if before is None else before
