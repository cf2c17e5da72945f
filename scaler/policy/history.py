"""What the law remembers of one pool between ticks. Everything in it follows from the pool's observations.

What may live here: the ticks of the longest window, instants of changes, and running minima. Nothing here knows a
clock, and all of it is frozen: ``decide.advance`` returns the next history, so that folding recorded observations
gives the same decisions as having lived through them.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import takewhile
from typing import Final

from scaler.model import Absent, Observation, PoolPolicy, Reading, SignalName
from scaler.policy.needs import LatencyFloor, Need

TTFT_BASE_SPAN_S: Final = 3600.0
"""How far back the smallest TTFT with an empty queue is looked for: one hour, so that a slow day passes."""
_TTFT_BASE_STEP_S: Final = 60.0
"""The base is kept as one minimum a minute: at most 61 of them, whatever the tick."""
# Ticks and intervals are floats: a window of 4 x 0.1 s must not lose its oldest tick to rounding.
_ROUNDING_S: Final = 1e-6


@dataclass(frozen=True, slots=True)
class Tick:
    """What one past tick leaves behind.

    ``requested`` is n, ``serving`` m; ``needs`` follows the order of ``SIGNALS``.
    """

    at: float
    requested: int | None
    serving: Reading
    waiting: Reading
    preempted: bool
    needs: tuple[Need, ...]


SIGNALS: Final = (SignalName.SATURATION, SignalName.KV_CACHE, SignalName.TTFT_P95)
"""The required signals, in the order in which they are shown."""


@dataclass(frozen=True, slots=True)
class History:
    """A pool's past, oldest tick first; ``History()`` is a pool that was never seen."""

    ticks: tuple[Tick, ...] = ()
    target: int | None = None
    """What was published last."""
    increased_at: float | None = None
    """When the published target last went up."""
    grown_at: float | None = None
    """When the requested replicas last went up, by whomever."""
    decreased_at: float | None = None
    """When the published target or the requested replicas last went down."""
    usable_at: float | None = None
    """The newest tick with data to decide on."""
    ttft_minima: tuple[tuple[float, float], ...] = ()
    """(minute's start, smallest P95 TTFT of a quiet pool in it) over the last hour, or the newest if that is older."""
    latency_floor: LatencyFloor | None = None
    """What the last increase for latency went to."""

    @property
    def newest_at(self) -> float | None:
        """The newest tick's time, or None before the first."""
        return self.ticks[-1].at if self.ticks else None

    def within(self, now: float, span_s: float) -> Iterator[Tick]:
        """Yield the ticks in (now - span_s, now], newest first."""
        return takewhile(lambda tick: tick.at > now - span_s + _ROUNDING_S, reversed(self.ticks))

    def last_requested(self) -> int | None:
        """Return n of the newest tick."""
        return self.ticks[-1].requested if self.ticks else None


def retained_ticks(policy: PoolPolicy) -> int:
    """Return how many past ticks the law can look at: the longest of its windows."""
    windows = (policy.saturation_windows, policy.kv_cache_windows, policy.ttft_p95_windows)
    longest = max(max(window.scale_up, window.scale_down) for window in windows)
    return max(longest, round(policy.locator.rate_window_s / policy.tick_s)) + 1


def ttft_base_s(minima: tuple[tuple[float, float], ...]) -> float:
    """Return the TTFT that more replicas cannot mend: the smallest of a quiet pool; 0 while none was seen."""
    return min((value for _, value in minima), default=0.0)


def updated_ttft_minima(
    policy: PoolPolicy, history: History, observation: Observation
) -> tuple[tuple[float, float], ...]:
    """Return the minima with this observation in and those older than an hour out.

    Only a quiet pool tells its base: nothing waits, and fewer run than ``latencyMinSaturation`` of the slots. The
    newest minimum stays however old it is: a pool that is busy for hours does not forget what cannot be mended.
    """
    minute = observation.at // _TTFT_BASE_STEP_S * _TTFT_BASE_STEP_S
    minima = history.ttft_minima
    kept = tuple(entry for entry in minima if minute - TTFT_BASE_SPAN_S <= entry[0] <= minute) or minima[-1:]
    ttft, running, serving = observation.ttft_p95_s, observation.running, observation.serving
    if isinstance(ttft, Absent) or isinstance(running, Absent) or isinstance(serving, Absent):
        return kept
    quiet_below = policy.latency_min_saturation * policy.slots_per_replica * serving
    if observation.waiting != 0.0 or running >= quiet_below:
        return kept
    if kept and kept[-1][0] == minute:
        return (*kept[:-1], (minute, min(kept[-1][1], ttft)))
    return (*kept, (minute, ttft))
