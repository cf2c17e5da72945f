"""How long replicas took to start, as a history tells it: from an increase until as many serve as were asked for."""

from dataclasses import dataclass, field
from statistics import median
from typing import Final

from scaler.model import Absent, Observation

LONGEST_S: Final = 7200.0
"""A start that takes longer is not one: GPUs were missing, or an image. Two hours load any model."""


@dataclass(slots=True)
class ColdStarts:
    """Measures cold starts, tick by tick, to within a tick.

    An increase counts that begins with all replicas serving and ends with all serving, and during which nobody changes
    the count again: of others it is not known which replica took how long. Worked: 4 requested and serving; 6 requested
    at 15 s; 6 serve at 135 s: 120 s.
    """

    found_s: list[float] = field(default_factory=list)
    """One for each increase that could be measured."""
    _began: float | None = None
    _settled: int | None = None
    """The count at which all requested replicas were serving last, with nothing asked for since."""
    _goal: int = 0

    def see(self, observation: Observation) -> None:
        """Take the next tick."""
        requested, serving, now = observation.requested, observation.serving, observation.at
        if isinstance(requested, Absent) or isinstance(serving, Absent):
            return
        if self._began is not None:
            if requested != self._goal or now - self._began > LONGEST_S:
                self._began = None
            elif serving >= requested:
                self.found_s.append(now - self._began)
                self._began = None
        elif self._settled is not None and requested > self._settled and serving < requested:
            self._began, self._goal = now, int(requested)
        self._settled = int(requested) if serving >= requested else None

    @property
    def typical_s(self) -> float | None:
        """The median; None when nothing could be measured."""
        return median(self.found_s) if self.found_s else None
