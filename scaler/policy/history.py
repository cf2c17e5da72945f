"""What the law remembers of one pool between ticks. Everything in it follows from the pool's observations.

What may live here: the ticks of the longest window, instants of changes, and running minima. Nothing here knows a
clock, and all of it is frozen: ``decide.advance`` returns the next history, so that folding recorded observations
gives the same decisions as having lived through them.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, fields
from operator import attrgetter
from typing import Any, Final

from scaler.model import Absent, Decision, PoolPolicy, Reading, SignalPolicy
from scaler.policy.latencies import LatencyMemory
from scaler.policy.needs import LatencyFloor, Need
from scaler.policy.wedges import WedgeWatch

REGRET_AFTER_S: Final = 900.0
"""An increase so soon after a decrease says that the decrease was a mistake: 15 min."""
REGRET_SPAN_S: Final = 7200.0
"""A mistake is remembered for 2 h."""
REGRET_MOST: Final = 8
"""The scale-down window grows to eight times its length at most: by default from 5 to 40 min."""
NOISE_WINDOWS: Final = 5
"""For how many rate windows it is looked how much the requests in flight change anyway: 5 min by default."""
# Ticks and intervals are floats: a window of 4 x 0.1 s must not lose its oldest tick to rounding.
ROUNDING_S: Final = 1e-6


@dataclass(frozen=True, slots=True)
class Tick:
    """What one past tick leaves behind.

    ``requested`` is n, ``serving`` m, ``waiting`` all that waits; ``needs`` follows the order of
    ``PoolPolicy.signals``.
    """

    at: float
    requested: int | None
    serving: Reading
    waiting: Reading
    preempted: bool
    needs: tuple[Need, ...]
    running: Reading = Absent.MISSING


@dataclass(frozen=True, slots=True)
class Filling:
    """How far the past of a pool that is new to this process has been read.

    Args:
        done: Ticks that are read.
        total: Ticks that are to be read; 0 before it has begun.
        problem: Why it is not going on; "" while it is.
        given_up: The past is not read any more: windows fill by themselves.
    """

    done: int = 0
    total: int = 0
    problem: str = ""
    given_up: bool = False


@dataclass(frozen=True, slots=True)
class History:
    """A pool's past, oldest tick first; ``History()`` is a pool that was never seen."""

    ticks: tuple[Tick, ...] = ()
    target: int | None = None
    """What was published last."""
    changed_at: float | None = None
    """When the target was last scaled up or down to; None since a hold has followed n."""
    increased_at: float | None = None
    """When the pool was last scaled up."""
    grown_at: float | None = None
    """When the requested replicas last went up, by whomever."""
    fell_at: float | None = None
    """When the requested replicas last went down, by whomever."""
    decreased_at: float | None = None
    """When the pool was last scaled down, or the requested replicas went down by whomever."""
    usable_at: float | None = None
    """The newest tick with data to decide on."""
    over_since: float | None = None
    """Since when some signal has asked for more than is requested, without a break."""
    starting_since: float | None = None
    """Since when replicas have been starting without any progress: none more requested, none more serving."""
    rollout_at: float | None = None
    """When the number of outdated replicas last changed, or was first above zero."""
    outdated: float = 0.0
    """Outdated replicas when they were last known."""
    regrets: tuple[float, ...] = ()
    """When the requested replicas went up soon after they had gone down, of the last two hours. This is seen and not
    decided, so that whoever has seen the same knows the same."""
    latencies: tuple[LatencyMemory, ...] = ()
    """What is remembered of each latency of the policy."""
    latency_floor: LatencyFloor | None = None
    """What the last increase for latency went to."""
    wedges: tuple[WedgeWatch, ...] = ()
    """What is remembered of each replica's pace."""
    decision: Decision | None = None
    """What was decided at the newest tick: the answer to an observation that is no newer."""

    @property
    def newest_at(self) -> float | None:
        """The newest tick's time, or None before the first."""
        return self.ticks[-1].at if self.ticks else None

    @property
    def patience(self) -> int:
        """How many times its length the scale-down window is now: each regret doubles it."""
        return min(REGRET_MOST, 1 << len(self.regrets)) if len(self.regrets) < REGRET_MOST else REGRET_MOST

    def holds(self, at: float, tick_s: float) -> bool:
        """Tell whether an observation belongs to a tick that is in here, or to an earlier one: it is no new window."""
        newest = self.newest_at
        return newest is not None and at - newest < tick_s / 2

    def within(self, now: float, span_s: float) -> Iterator[Tick]:
        """Yield the ticks in (now - span_s, now], newest first."""
        oldest = now - span_s + ROUNDING_S
        for tick in reversed(self.ticks):
            if tick.at <= oldest:
                return
            yield tick

    def last_requested(self) -> int | None:
        """Return n of the newest tick."""
        return self.ticks[-1].requested if self.ticks else None


_FIELDS: Final = tuple(one.name for one in fields(History))
_values: Final = attrgetter(*_FIELDS)


def changed(history: History, **changes: Any) -> History:  # noqa: ANN401 - as of dataclasses.replace
    """Do as ``dataclasses.replace``, in a third of its time: each pool needs it several times a tick."""
    return History(**{**dict(zip(_FIELDS, _values(history), strict=True)), **changes})


def down_window(signal: SignalPolicy, patience: int) -> int:
    """Return a signal's scale-down window in ticks."""
    return signal.windows.scale_down * patience


def retained_ticks(policy: PoolPolicy, patience: int = 1) -> int:
    """Return how many past ticks the law can look at: the longest window, or some rate windows for the noise."""
    longest = max(max(signal.windows.scale_up, down_window(signal, patience)) for signal in policy.signals)
    return max(longest, rate_windows_in_ticks(policy, NOISE_WINDOWS)) + 1


def rate_windows_in_ticks(policy: PoolPolicy, windows: float) -> int:
    """Return how many ticks so many rate windows have, one at least."""
    return max(1, round(windows * policy.locator.rate_window_s / policy.tick_s))


def memory_ticks(policy: PoolPolicy) -> int:
    """Return how many ticks back decisions depend on: mistakes of two hours, and what made each of them one.

    Worked, at 15 s and with default windows: (7200 + 900) / 15 + 21 = 561.
    """
    return math.ceil((REGRET_SPAN_S + REGRET_AFTER_S) / policy.tick_s) + retained_ticks(policy)
