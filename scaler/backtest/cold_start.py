"""How long replicas took to start, as a history tells it: from being asked for until serving."""

from collections import deque
from dataclasses import dataclass, field
from statistics import median
from typing import Final

from scaler.model import Absent, Observation

LONGEST_S: Final = 7200.0
"""A start that takes longer is not one: GPUs were missing, or an image. Two hours load any model."""
MOST_STARTS: Final = 10_000
"""More than that do not make the median any better."""


@dataclass(slots=True)
class ColdStarts:
    """Measures cold starts, tick by tick, to within a tick.

    Which replica began to serve is not seen, so the one that was asked for first is taken to be the first to serve, and
    the one that was asked for last to be the first to be given up. Where the counts do not add up (a replica has died,
    or drains), nothing is measured until as many serve as are requested. Worked: 4 requested and serving; 6 requested
    at 15 s; 5 serve at 120 s and 6 at 135 s: 105 s and 120 s.
    """

    found: deque[float] = field(default_factory=lambda: deque(maxlen=MOST_STARTS))
    """Seconds, one for each start."""
    _asked_at: deque[float] = field(default_factory=deque)
    """When each replica that has not served yet was asked for."""
    _before: tuple[int, int] | None = None
    """Requested and serving at the tick before; None while the counts do not add up."""

    def see(self, observation: Observation) -> None:
        """Take the next tick."""
        requested, serving, now = observation.requested, observation.serving, observation.at
        if isinstance(requested, Absent) or isinstance(serving, Absent):
            return
        n, m = int(requested), int(serving)
        if self._before is not None:
            asked, begun = n - self._before[0], m - self._before[1]
            self._asked_at.extend([now] * asked)
            for _ in range(min(-asked, len(self._asked_at))):
                self._asked_at.pop()
            for _ in range(min(begun, len(self._asked_at))):
                took_s = now - self._asked_at.popleft()
                if took_s <= LONGEST_S:
                    self.found.append(took_s)
        if len(self._asked_at) == max(0, n - m) and (self._before is not None or n == m):
            self._before = n, m
        else:
            self._asked_at.clear()
            self._before = (n, m) if n == m else None

    @property
    def typical_s(self) -> float | None:
        """The median; None when nothing could be measured."""
        return median(self.found) if self.found else None
