"""When a policy's replicas differ from those that were run, for how long, and why."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from scaler.model import Decision
from scaler.policy.narrate import narrate

PERIOD_LIMIT: Final = 2_000
"""Periods that are kept one by one; a week that differs more often is read by its totals."""


class Durations(defaultdict[str, float]):
    """Seconds by name."""

    def __init__(self) -> None:
        super().__init__(float)

    def add(self, names: Iterable[str], seconds: float) -> None:
        """Add the same time to each name."""
        for name in names:
            self[name] += seconds

    def longest_first(self) -> list[tuple[str, float]]:
        """Return names and seconds, the longest time first."""
        return sorted(self.items(), key=lambda item: (-item[1], item[0]))


@dataclass(slots=True)
class Period:
    """A stretch of ticks on all of which there are more replicas than recorded, or on all fewer.

    Args:
        start: Its first tick, Unix seconds.
        end: The end of its last tick.
        ours: The fewest and the most replicas of the policy.
        theirs: The fewest and the most that were recorded.
        replica_s: By how many replica-seconds the policy's are more; below zero they are fewer.
        reason: The code of the reason for which it began.
        story: Why it began, as the decision's record has it.
        reasons_s: For how long each reason decided.
    """

    start: float
    end: float
    ours: tuple[int, int]
    theirs: tuple[int, int]
    replica_s: float
    reason: str
    story: str
    reasons_s: Durations

    @property
    def seconds(self) -> float:
        """Its length."""
        return self.end - self.start


@dataclass(slots=True)
class Differences:
    """Groups the ticks of differing counts into periods.

    Args:
        tick_s: Seconds between two ticks.
        most: Periods that are kept; further ones are only counted.
    """

    tick_s: float
    most: int = PERIOD_LIMIT
    periods: list[Period] = field(default_factory=list)
    more_s: float = 0.0
    """For how long there were more replicas than recorded."""
    fewer_s: float = 0.0
    ours_s: float = 0.0
    """The policy's replica-seconds while both counts are known."""
    theirs_s: float = 0.0
    """The recorded replica-seconds while both counts are known."""
    left_out: int = 0
    """Periods beyond ``most``."""
    _open: Period | None = None

    @property
    def ratio(self) -> float | None:
        """The policy's replica-hours for each one that was recorded, while both are known; None without any."""
        return self.ours_s / self.theirs_s if self.theirs_s else None

    def see(self, at: float, ours: int | None, theirs: int | None, *, cause: Decision, newest: Decision) -> None:
        """Take the next tick.

        Args:
            at: The tick, Unix seconds.
            ours: The policy's replicas; None where it has no answer.
            theirs: The recorded replicas; None where they are not known.
            cause: What the policy's count comes from, in case a period begins here.
            newest: The decision of this tick.
        """
        if ours is None or theirs is None:
            self._open = None
            return
        self.ours_s += ours * self.tick_s
        self.theirs_s += theirs * self.tick_s
        difference = ours - theirs
        if not difference:
            self._open = None
            return
        if difference > 0:
            self.more_s += self.tick_s
        else:
            self.fewer_s += self.tick_s
        period, end = self._open, at + self.tick_s
        if period is None or (period.replica_s > 0) != (difference > 0):
            period = self._open = Period(
                at, end, (ours, ours), (theirs, theirs), 0.0, cause.reason.code, narrate(cause), Durations()
            )
            if len(self.periods) < self.most:
                self.periods.append(period)
            else:
                self.left_out += 1
        period.end = end
        period.ours = min(period.ours[0], ours), max(period.ours[1], ours)
        period.theirs = min(period.theirs[0], theirs), max(period.theirs[1], theirs)
        period.replica_s += difference * self.tick_s
        period.reasons_s.add((newest.reason.code,), self.tick_s)
