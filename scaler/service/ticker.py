"""The tick loop: observe all pools, advance each through the law, publish its snapshot.

Ticks lie on multiples of the evaluation interval of Unix time, and reads are made as of the tick, so every replica of
this service decides on the same numbers. What happens off the straight path:

- A late or slow tick: the law counts each tick of the grid that was missed as one without data, so that windows keep
  meaning time. Missing data never lowers a target.
- The clock steps back by no more than an interval: the ticks that were evaluated already are not evaluated again.
- The clock steps back further: histories lie in the future. They start anew, but keep the last target and the age of
  the data under it, so that a pool whose data is missing just then is held where it was. Waiting until time has caught
  up would leave the fleet without a scaler for as long as the clock was wrong.
- A pool's first tick is evaluated as soon as it is asked for, together with all others that came at the same time. The
  pool is held until its past is read (``scaler.service.filling``): after a restart, and in a new replica of this
  service, it then decides as if it had been there all along.
- A slow or dead Prometheus keeps the pools that are read from it, and no others: each backend is read by itself.
- An error in one pool leaves that pool with its last decision; an error of everything leaves all of them so. Then the
  answers age, and are refused in the end.
"""

import asyncio
import time
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Final, Protocol

import structlog

from scaler.adapters.clock import Clock
from scaler.adapters.logs import OncePerKey
from scaler.adapters.record import decision_record, iso_time
from scaler.adapters.telemetry import Telemetry
from scaler.model import Decision, Observation, PoolKey, PoolLocator
from scaler.policy.decide import advance
from scaler.policy.history import Filling, History, retained_ticks
from scaler.service.answers import is_usable
from scaler.service.breather import Breather
from scaler.service.filling import Filler, PastReader
from scaler.service.lanes import Lanes, by_backend
from scaler.service.registry import PoolEntry, Registry
from scaler.units import format_duration, grid_floor

COALESCE_S: Final = 0.05
"""Pools first seen within 50 ms are read together: KEDA asks for all of them at once when it starts."""
MAX_SETTLE_S: Final = 1.0
"""Prometheus has appended a scrape's samples well within a second of the scrape."""
_SETTLE_SHARE: Final = 0.1
_READ_GRACE_S: Final = 5.0
"""A read has its own deadlines, of at most the interval; five seconds more means that they do not work."""

_LOG = structlog.stdlib.get_logger("scaler.ticker")


class Reader(PastReader, Protocol):
    """Where observations come from: ``scaler.adapters.reader.MetricsReader``, or a stand-in."""

    async def observe(self, pools: Mapping[PoolKey, PoolLocator], at: float) -> dict[PoolKey, Observation]:
        """Return an observation of every pool as of ``at`` (Unix seconds), whatever failed."""
        ...


class Ticker:
    """Keeps every pool's snapshot up to date.

    Args:
        registry: The pools.
        reader: Where observations come from.
        clock: The source of time.
        telemetry: Own metrics.
        interval_s: Seconds between ticks.
        max_hold_age_s: How long a decision may be answered after data went missing.
    """

    def __init__(
        self,
        registry: Registry,
        reader: Reader,
        clock: Clock,
        telemetry: Telemetry,
        *,
        interval_s: float,
        max_hold_age_s: float,
    ) -> None:
        self._registry = registry
        self._reader = reader
        self._clock = clock
        self._telemetry = telemetry
        self._interval_s = interval_s
        self._max_hold_age_s = max_hold_age_s
        self._settle_s = min(MAX_SETTLE_S, interval_s * _SETTLE_SHARE)
        self._filler = Filler(reader, clock, interval_s=interval_s, decide=self._decide, publish=self._publish)
        self._said = OncePerKey()
        self._newest: float | None = None

    async def run(self) -> None:
        """Evaluate ticks and newcomers until cancelled."""
        async with asyncio.TaskGroup() as group:
            cold = Lanes(group, self._fill)
            newcomers = Lanes(group, partial(self._evaluate_first, then=cold))
            group.create_task(self._run_ticks())
            while True:
                newcomers.add(await self._registry.newcomers(COALESCE_S))

    async def tick(self) -> None:
        """Evaluate the newest tick of the grid, unless that was done, and drop pools that nobody asks for."""
        at, newest = self.newest_tick(), self._newest
        if newest is not None and newest - self._interval_s <= at <= newest:
            return
        self._newest = at
        if newest is not None and at < newest:
            self._start_anew(at, newest)
        elif newest is not None:
            self._telemetry.ticks_skipped(round((at - newest) / self._interval_s) - 1)
        self._registry.evict_idle()
        started = time.perf_counter()
        await self.evaluate(self._registry.entries(), at)
        self._telemetry.tick_done(time.perf_counter() - started)

    async def evaluate(self, entries: Sequence[PoolEntry], at: float) -> None:
        """Observe pools as of a tick, and publish a decision for each that has none of this tick or a later one.

        Each backend's pools are published as soon as it has answered, however long another takes.

        Args:
            entries: The pools.
            at: The tick, Unix seconds.
        """
        due = [entry for entry in entries if entry.history.newest_at is None or entry.history.newest_at < at]
        async with asyncio.TaskGroup() as group:
            for pools in by_backend(due).values():
                group.create_task(self._evaluate(pools, at))

    async def fill(self, entries: Sequence[PoolEntry]) -> None:
        """Read the past of pools that were evaluated for the first time.

        Args:
            entries: The pools, all of one backend.
        """
        await self._filler.fill(entries)

    def newest_tick(self) -> float:
        """Return the newest tick whose samples are in Prometheus by now."""
        return grid_floor(self._clock.now() - self._settle_s, self._interval_s)

    async def _run_ticks(self) -> None:
        while True:
            try:
                await self.tick()
            except Exception as error:  # noqa: BLE001 - the loop survives every error; the fault is logged and counted
                self._report("tick", error)
            # The older of the two: after a slow tick the next is due at once, and a clock that was set back is obeyed.
            newest = self.newest_tick()
            last = newest if self._newest is None else min(self._newest, newest)
            await self._clock.sleep_until(last + self._interval_s + self._settle_s)

    async def _evaluate_first(self, newcomers: list[PoolEntry], then: Lanes) -> None:
        try:
            await self.evaluate(newcomers, self.newest_tick())
        except Exception as error:  # noqa: BLE001 - as above
            self._report("newcomers", error)
        then.add(newcomers)

    async def _fill(self, cold: list[PoolEntry]) -> None:
        try:
            await self.fill(cold)
        except Exception as error:  # noqa: BLE001 - as above
            self._report("fill", error)

    async def _evaluate(self, entries: Sequence[PoolEntry], at: float) -> None:
        """Take the pools of one backend through a tick."""
        observations = await self._observe(entries, at)
        breather = Breather()
        try:
            for entry in entries:
                await breather.breathe()
                self._advance(entry, observations[entry.key])
        except Exception as error:  # noqa: BLE001 - one backend's fault must not end the work on another's pools
            self._report("tick", error)

    async def _observe(self, entries: Iterable[PoolEntry], at: float) -> dict[PoolKey, Observation]:
        """Read pools; whatever happens, there is an observation of each."""
        locators = {entry.key: entry.policy.locator for entry in entries}
        unread = Observation(at=at, notes=("the read of Prometheus did not answer for this pool",))
        try:
            async with asyncio.timeout(self._interval_s + _READ_GRACE_S):
                observations = await self._reader.observe(locators, at)
        except Exception as error:  # noqa: BLE001 - without a read every pool is held, and the next tick tries again
            self._report("read", error)
            observations = {}
        return {key: observations.get(key, unread) for key in locators}

    def _advance(self, entry: PoolEntry, observation: Observation) -> None:
        """Take one pool through a tick, and publish."""
        newest = entry.history.newest_at
        if newest is not None and newest >= observation.at:
            return
        advanced = self._decide(entry, entry.history, observation, entry.filling)
        if advanced is None:
            return
        self._publish(entry, *advanced)
        if entry.filling is not None and entry.filling.given_up:
            windows = retained_ticks(entry.policy, entry.history.patience)
            entry.filling = None if len(entry.history.ticks) >= windows else entry.filling

    def _decide(
        self, entry: PoolEntry, history: History, observation: Observation, filling: Filling | None = None
    ) -> tuple[History, Decision] | None:
        """Return what the law makes of an observation; None where it fails, which is reported."""
        try:
            return advance(entry.policy, history, observation, filling)
        except Exception as error:  # noqa: BLE001 - one pool's fault is that pool's alone
            self._report("decide", error, pool=str(entry.key))
            return None

    def _publish(self, entry: PoolEntry, history: History, decision: Decision) -> None:
        before = entry.decision
        usable = is_usable(decision, self._clock.now(), self._max_hold_age_s)
        entry.publish(history, decision, signalled=usable and decision.active)
        self._record(entry, before, decision)

    def _start_anew(self, at: float, newest: float) -> None:
        _LOG.warning(
            "the clock was set back: windows start anew, and targets stay",
            by=format_duration(newest - at),
            tick=iso_time(at),
        )
        for entry in self._registry.entries():
            past = entry.history
            if past.newest_at is not None and past.newest_at > at:
                usable_at = None if past.usable_at is None else min(past.usable_at, at)
                entry.history = History(target=past.target, usable_at=usable_at)

    def _record(self, entry: PoolEntry, before: Decision | None, decision: Decision) -> None:
        """Write one record for each change of what is decided or why; a tick that changes nothing writes none."""
        if before is not None and _gist(before) == _gist(decision):
            return
        try:
            _LOG.info("decision", **decision_record(entry.key, entry.policy.locator, decision))
        except Exception as error:  # noqa: BLE001 - a record that cannot be written changes no decision
            self._report("record", error, pool=str(entry.key))

    def _report(self, where: str, error: Exception, **context: str) -> None:
        self._telemetry.fault(where)
        if self._said.first((where, type(error), str(error), *context.values())):
            _LOG.error("unexpected error; the last decisions stay", where=where, exc_info=error, **context)


def _gist(decision: Decision) -> tuple[object, ...]:
    diagnostics = tuple(reason.code for reason in decision.diagnostics)
    return decision.action, decision.target, decision.reason.code, decision.protection, diagnostics
