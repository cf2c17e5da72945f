"""The past of pools that are new to this process, read from Prometheus, so that they decide as if they had always been.

The rules:

- Range queries give, tick by tick, what the instant queries of a process that never stopped would have seen. The law is
  folded over them, oldest first, and the history that this leaves takes the place of the pool's short one as soon as it
  has caught up with it. Until then the pool is held (see ``advance``).
- As many ticks are read as decisions can depend on, but no more than ``BUDGET_POOL_TICKS`` for all pools together; the
  windows always are. So few pools remember all, and very many at once start with less.
- A read is as long as Prometheus answers quickly: it is halved when it fails or is slow, and doubled when it is fast.
- A read that fails is made again, after a pause that doubles. After a few failures, or after ``LONGEST_S``, the past is
  given up: the windows fill by themselves, and the record says so for as long as they do.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Final, Protocol

import structlog

from scaler.adapters.clock import Clock
from scaler.adapters.reader import Past
from scaler.model import Absent, Decision, Observation, PoolKey, PoolLocator
from scaler.policy.history import Filling, History, memory_ticks, retained_ticks
from scaler.service.breather import Breather
from scaler.service.registry import PoolEntry
from scaler.units import format_duration

BUDGET_POOL_TICKS: Final = 10_000
"""Ticks that are read for all new pools together. With 4 replicas a pool, one takes 1.2 ms of ours (0.4 of it the law)
and as much of Prometheus: some 12 s of a core each, during which the pools are held."""
LONGEST_S: Final = 120.0
"""After two minutes the windows that fill by themselves are worth more than those that are still being read."""
FIRST_PAUSE_S: Final = 1.0
"""Pause after the first failed read; it doubles with each that follows."""
MOST_FAILURES: Final = 4
"""Failed reads in a row until the past is given up: after 1 + 2 + 4 s of pauses."""
_FIRST_READ_POOL_TICKS: Final = 1_000
"""Ticks of all pools in the first read, before it is known how fast Prometheus answers: about 1 s."""
_READ_POOL_TICKS: Final = 5_000
"""Ticks of all pools in one read: some 100 MB of samples at most, where each pool has a dozen replicas."""
_MOST_READ_TICKS: Final = 1_000
_SLOW_S: Final = 2.0
"""A read that takes longer holds a thread, and a core of Prometheus, that the present may need."""

_LOG = structlog.stdlib.get_logger("scaler.filling")


class PastReader(Protocol):
    """Where the past comes from: ``scaler.adapters.reader.MetricsReader``, or a stand-in."""

    async def observe_range(self, pools: Mapping[PoolKey, PoolLocator], ticks: Sequence[float]) -> Past:
        """Return observations of every pool at past ticks, whatever failed."""
        ...


class Filler:
    """Fills the histories of new pools.

    Args:
        reader: Where the past comes from.
        clock: The source of time.
        interval_s: Seconds between ticks.
        decide: Takes a history through a tick; None where the law fails for this pool.
        publish: Puts a new snapshot in place.
    """

    def __init__(
        self,
        reader: PastReader,
        clock: Clock,
        *,
        interval_s: float,
        decide: Callable[[PoolEntry, History, Observation], tuple[History, Decision] | None],
        publish: Callable[[PoolEntry, History, Decision], None],
    ) -> None:
        self._reader = reader
        self._clock = clock
        self._interval_s = interval_s
        self._decide = decide
        self._publish = publish

    async def fill(self, entries: Sequence[PoolEntry]) -> None:
        """Read the past of pools that were evaluated for the first time, and publish what follows from it.

        All pools go through the past side by side, so that none waits for another. One that is evaluated further
        meanwhile is caught up with. Whatever happens, none of them is left waiting for its past.

        Args:
            entries: The pools.
        """
        cold = {entry: History() for entry in entries if entry.history.newest_at is not None}
        try:
            if cold:
                await self._fill(cold)
        finally:
            for entry in entries:
                if entry.filling is not None and not entry.filling.given_up:
                    entry.filling = None

    async def _fill(self, cold: dict[PoolEntry, History]) -> None:
        began = self._clock.monotonic()
        span = ticks_to_read(list(cold))
        number = self._newest_common(cold) - span + 1
        first, failures = number, 0
        most = max(1, min(_MOST_READ_TICKS, _FIRST_READ_POOL_TICKS // len(cold)))
        while cold:
            last = min(number + most - 1, self._newest_common(cold))
            ticks = [each * self._interval_s for each in range(number, last + 1)]
            started = time.perf_counter()
            past = await self._reader.observe_range({entry.key: entry.policy.locator for entry in cold}, ticks)
            took_s = time.perf_counter() - started
            problem = past.failures[0] if past.failures else ""
            is_late = self._clock.monotonic() - began > LONGEST_S
            failures = failures + 1 if problem else 0
            if is_late or failures >= MOST_FAILURES:
                _give_up(cold, problem or f"it takes longer than {format_duration(LONGEST_S)}")
                return
            if problem or took_s > _SLOW_S:
                most = max(1, most // 2)
            elif took_s < _SLOW_S / 2:
                most = min(most * 2, _MOST_READ_TICKS, max(1, _READ_POOL_TICKS // len(cold)))
            if not problem:
                await self._fold(cold, ticks, past)
                number = last + 1
            for entry in cold:
                entry.filling = Filling(number - first, span, problem)
            if problem:
                await self._clock.sleep_until(self._clock.now() + FIRST_PAUSE_S * 2 ** (failures - 1))
            # One that is behind by now is of a clock that was set back: there is nothing to catch up with.
            for entry in [each for each in cold if self._newest_number(each) < number]:
                del cold[entry]
                entry.filling = None

    async def _fold(self, cold: dict[PoolEntry, History], ticks: Sequence[float], past: Past) -> None:
        """Take the pools through some ticks, and publish those that have caught up."""
        breather = Breather()
        for at, observations in zip(ticks, past.observations, strict=True):
            for entry in tuple(cold):
                await breather.breathe()
                observation = observations[entry.key]
                if entry.decision is not None and entry.decision.at == at:
                    # What the present was decided on, though Prometheus may have got more since.
                    observation = entry.decision.observation
                elif cold[entry].newest_at is None and _tells_nothing(observation):
                    continue
                advanced = self._decide(entry, cold[entry], observation)
                if advanced is None:
                    del cold[entry]
                    entry.filling = None
                elif entry.history.newest_at == at:
                    del cold[entry]
                    entry.filling = None
                    self._publish(entry, *advanced)
                else:
                    cold[entry] = advanced[0]

    def _newest_common(self, cold: Mapping[PoolEntry, History]) -> int:
        """Return the number of the newest tick that every pool has been evaluated at."""
        return min(self._newest_number(entry) for entry in cold)

    def _newest_number(self, entry: PoolEntry) -> int:
        newest = entry.history.newest_at
        return -1 if newest is None else round(newest / self._interval_s)


def ticks_to_read(entries: Sequence[PoolEntry]) -> int:
    """Return how many ticks of the past are read for pools that are new together.

    Worked, with default settings: 561 for up to 17 pools, 100 for 100, 21 (the windows) from 455 on.
    """
    windows = max(retained_ticks(entry.policy) for entry in entries)
    memory = max(memory_ticks(entry.policy) for entry in entries)
    return min(memory, max(windows, BUDGET_POOL_TICKS // len(entries)))


def _give_up(cold: Mapping[PoolEntry, History], problem: str) -> None:
    _LOG.warning("the past cannot be read: windows fill by themselves", pools=len(cold), why=problem)
    for entry in cold:
        entry.filling = Filling(problem=problem, given_up=True)


def _tells_nothing(observation: Observation) -> bool:
    """Tell whether a pool was not there yet, as far as an observation goes."""
    return isinstance(observation.requested, Absent) and (
        isinstance(observation.serving, Absent) or observation.serving == 0
    )
