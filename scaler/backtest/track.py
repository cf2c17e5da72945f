"""A number over time, for a picture: however long the history, it keeps a bounded number of spans."""

import math
from dataclasses import dataclass, field
from typing import Final

MOST_SPANS: Final = 2_000
"""More than there are pixels across a page."""


@dataclass(slots=True)
class Track:
    """The lowest and highest value of each span of ticks; when there are too many spans, two become one.

    Worked, with two spans at most: 1, 4, 2 becomes (1 to 4), (2 to 2).
    """

    most: int = MOST_SPANS
    ticks_per_span: int = 1
    lows: list[float] = field(default_factory=list)
    """The lowest value of each span; NaN where there was none."""
    highs: list[float] = field(default_factory=list)
    _newest: int = 0
    """Ticks in the newest span."""

    def add(self, value: float | None) -> None:
        """Take the value of the next tick; None where there is none."""
        number = math.nan if value is None else float(value)
        if self.lows and self._newest < self.ticks_per_span:
            self.lows[-1] = _least(self.lows[-1], number)
            self.highs[-1] = _greatest(self.highs[-1], number)
            self._newest += 1
            return
        if len(self.lows) == self.most:
            self._halve()
            self.add(value)
            return
        self.lows.append(number)
        self.highs.append(number)
        self._newest = 1

    def _halve(self) -> None:
        # An odd span at the end becomes half of one, which the next ticks fill.
        self._newest = self.ticks_per_span * 2 if len(self.lows) % 2 == 0 else self.ticks_per_span
        self.lows = [_least(*self.lows[at : at + 2]) for at in range(0, len(self.lows), 2)]
        self.highs = [_greatest(*self.highs[at : at + 2]) for at in range(0, len(self.highs), 2)]
        self.ticks_per_span *= 2


def _least(*values: float) -> float:
    return min((value for value in values if not math.isnan(value)), default=math.nan)


def _greatest(*values: float) -> float:
    return max((value for value in values if not math.isnan(value)), default=math.nan)
