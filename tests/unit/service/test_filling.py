"""New pools: held until their past is read, then as if they had always been there; and what can go wrong on the way."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from typing import Any

import pytest
from structlog.testing import capture_logs

from scaler.adapters.telemetry import Telemetry
from scaler.model import Action, Decision, Observation, PoolKey, ReasonCode
from scaler.service.filling import FIRST_PAUSE_S, LONGEST_S, MOST_FAILURES, ticks_to_read
from scaler.service.registry import PoolEntry, Registry
from scaler.service.ticker import Ticker
from tests.builders import TICK_S, observation
from tests.fakes import START, FakeReader, ManualClock, eventually, trigger

MEMORY_TICKS = 561


@asynccontextmanager
async def running(ticker: Ticker) -> AsyncIterator[None]:
    task = asyncio.create_task(ticker.run())
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


def clock_at(ticks: int) -> ManualClock:
    return ManualClock(START + ticks * TICK_S + 1)


def started(clock: ManualClock, reader: FakeReader) -> tuple[Registry, Ticker]:
    registry = Registry(clock, max_pools=10, idle_timeout_s=600)
    return registry, Ticker(registry, reader, clock, Telemetry(), interval_s=TICK_S, max_hold_age_s=600)


def decided(entry: PoolEntry) -> Decision:
    assert entry.decision is not None
    return entry.decision


def reason(entry: PoolEntry) -> ReasonCode:
    return decided(entry).reason.code


def up_and_down(_key: PoolKey, at: float) -> Observation:
    """A fleet that follows a load which comes and goes within minutes, so that decreases are regretted."""
    number = round(at / TICK_S)
    return observation(number, 30.0 if number % 50 < 12 else 12.0, 8 if 5 <= number % 50 < 35 else 5)


def falling(_key: PoolKey, at: float) -> Observation:
    """A load that has long been small enough for fewer replicas."""
    return observation(round(at / TICK_S), 4.0, 6)


async def lived(reader: FakeReader, ticks: int) -> PoolEntry:
    """A pool of a process that has been there for so many ticks up to ``START``."""
    clock = clock_at(-ticks)
    registry, ticker = started(clock, reader)
    entry, _ = registry.ask(trigger())
    entry.filling, entry.streams = None, 1
    for _ in range(ticks):
        await ticker.tick()
        clock.advance(TICK_S)
    await ticker.tick()
    return entry


async def test_a_service_that_was_restarted_decides_and_remembers_as_one_that_never_stopped() -> None:
    reader = FakeReader(answer=up_and_down)
    old = await lived(reader, 800)
    assert old.history.patience == 8
    registry, ticker = started(clock_at(0), reader)
    new, _ = registry.ask(trigger())
    await ticker.tick()
    assert new.history != old.history
    await ticker.fill([new])
    assert new.filling is None
    assert new.history == old.history
    assert new.decision == old.decision


async def test_a_pool_is_held_and_says_so_until_its_past_is_read(
    ticker: Ticker, registry: Registry, clock: ManualClock, reader: FakeReader
) -> None:
    reader.answer, reader.past_gate = falling, asyncio.Event()
    entry, _ = registry.ask(trigger())
    clock.advance(1)
    async with running(ticker):
        await eventually(lambda: len(reader.past_reads) == 1)
        held = decided(entry)
        assert (held.action, held.target, held.reported_value, held.active) == (Action.HOLD, 6, 6, True)
        assert held.reason.code is ReasonCode.FILLING_HISTORY
        assert "its past is being read from Prometheus" in held.reason.text
        # The present goes on meanwhile, and is caught up with.
        clock.advance(TICK_S)
        await eventually(lambda: entry.history.newest_at == START + TICK_S)
        assert reason(entry) is ReasonCode.FILLING_HISTORY
        reader.past_gate.set()
        await eventually(lambda: reason(entry) is ReasonCode.NEED_BELOW)
    assert (decided(entry).at, decided(entry).target) == (START + TICK_S, 5)
    assert [tick.at for tick in entry.history.ticks] == [START + number * TICK_S for number in range(-19, 2)]


async def test_a_burst_is_answered_before_the_past_is_read(
    ticker: Ticker, registry: Registry, clock: ManualClock, reader: FakeReader
) -> None:
    reader.load = 80.0
    entry, _ = registry.ask(trigger())
    clock.advance(1)
    await ticker.tick()
    assert (decided(entry).action, decided(entry).target, reason(entry)) == (Action.SCALE_UP, 8, ReasonCode.BURST)
    await ticker.fill([entry])
    # As if it had asked all along, step by step: the load was there for hours and nobody followed.
    assert decided(entry).target == 20


@pytest.mark.parametrize(
    ("changes", "target"),
    [
        pytest.param({"max_replicas": 3}, 4, id="a maximum takes none away"),
        pytest.param({"min_replicas": 6}, 6, id="a minimum needs no past"),
    ],
)
async def test_bounds_while_the_past_is_read(
    ticker: Ticker, registry: Registry, clock: ManualClock, changes: dict[str, Any], target: int
) -> None:
    entry, _ = registry.ask(trigger(**changes))
    clock.advance(1)
    await ticker.tick()
    assert decided(entry).target == target


async def test_windows_that_fill_while_the_past_is_read_decide_nothing(
    ticker: Ticker, registry: Registry, clock: ManualClock, reader: FakeReader
) -> None:
    entry, _ = registry.ask(trigger())
    clock.advance(1)
    for load in [4.0] * 30 + [24.0] * 10:
        reader.load = load
        registry.ask(trigger())
        await ticker.tick()
        assert (decided(entry).target, reason(entry)) == (4, ReasonCode.FILLING_HISTORY)
        clock.advance(TICK_S)


async def test_a_pool_without_a_past_is_decided_on_at_once(
    ticker: Ticker, registry: Registry, clock: ManualClock, reader: FakeReader
) -> None:
    def new_here(_key: PoolKey, at: float) -> Observation:
        if at < START - 2 * TICK_S:
            return Observation(at, serving=0.0, notes=("no vllm: series",))
        return observation(round(at / TICK_S), 12.0, 4)

    reader.answer = new_here
    entry, _ = registry.ask(trigger())
    clock.advance(1)
    await ticker.tick()
    await ticker.fill([entry])
    assert reason(entry) is ReasonCode.DEAD_BAND
    assert [tick.at for tick in entry.history.ticks] == [START - 2 * TICK_S, START - TICK_S, START]


async def test_a_pool_of_which_nothing_is_known_waits_for_no_past(
    ticker: Ticker, registry: Registry, clock: ManualClock, reader: FakeReader
) -> None:
    reader.answer = lambda _key, at: Observation(at)
    entry, _ = registry.ask(trigger())
    clock.advance(1)
    await ticker.tick()
    await ticker.fill([entry])
    assert entry.filling is None
    assert (decided(entry).target, reason(entry)) == (None, ReasonCode.NO_DATA)


async def test_missing_data_while_the_past_is_read_holds_the_pool(
    ticker: Ticker, registry: Registry, clock: ManualClock, reader: FakeReader
) -> None:
    reader.answer = lambda _key, at: Observation(at, requested=4.0)
    entry, _ = registry.ask(trigger())
    clock.advance(1)
    await ticker.tick()
    codes = [each.code for each in decided(entry).reasons]
    assert (decided(entry).target, codes) == (4, [ReasonCode.NO_DATA, ReasonCode.FILLING_HISTORY])


async def test_the_present_counts_as_it_was_decided_on_though_prometheus_has_got_more_since(
    ticker: Ticker, registry: Registry, clock: ManualClock, reader: FakeReader
) -> None:
    entry, _ = registry.ask(trigger())
    clock.advance(1)
    await ticker.tick()
    seen = decided(entry).observation
    reader.load = 100.0
    await ticker.fill([entry])
    assert decided(entry).observation == seen


async def test_a_read_that_fails_is_made_again_with_half_the_ticks_after_a_pause(
    ticker: Ticker, registry: Registry, clock: ManualClock, reader: FakeReader
) -> None:
    reader.past_failures = ["latency: too slow", "latency: too slow"]
    entry, _ = registry.ask(trigger())
    clock.advance(1)
    async with running(ticker):
        await eventually(lambda: len(reader.past_reads) == 1 and bool(entry.filling and entry.filling.problem))
        assert reason(entry) is ReasonCode.FILLING_HISTORY
        for pause_s in (FIRST_PAUSE_S, 2 * FIRST_PAUSE_S):
            reads = len(reader.past_reads)
            clock.advance(pause_s)
            await eventually(lambda reads=reads: len(reader.past_reads) > reads)  # type: ignore[misc]
        await eventually(lambda: entry.filling is None)
    lengths = [len(ticks) for _, ticks in reader.past_reads]
    assert lengths[:3] == [MEMORY_TICKS, 500, 250]
    assert reason(entry) is not ReasonCode.FILLING_HISTORY
    assert len(entry.history.ticks) == 21


async def test_after_a_few_failures_windows_fill_by_themselves_and_the_record_says_so(
    ticker: Ticker, registry: Registry, clock: ManualClock, reader: FakeReader
) -> None:
    reader.answer, reader.past_failures = falling, ["latency: no answer in 10 s"] * MOST_FAILURES
    entry, _ = registry.ask(trigger())
    clock.advance(1)
    await ticker.tick()
    with capture_logs() as logs:
        filling = asyncio.create_task(ticker.fill([entry]))
        for failures in range(1, MOST_FAILURES):
            await eventually(lambda failures=failures: len(reader.past_reads) == failures)  # type: ignore[misc]
            await asyncio.sleep(0)
            clock.advance(FIRST_PAUSE_S * 2 ** (failures - 1))
        await filling
    assert [(log["pools"], log["why"]) for log in logs if log["log_level"] == "warning"] == [
        (1, "latency: no answer in 10 s")
    ]
    clock.advance(TICK_S - 7)
    reasons = []
    for _ in range(21):
        await ticker.tick()
        reasons.append((reason(entry), ReasonCode.PAST_UNKNOWN in {each.code for each in decided(entry).diagnostics}))
        clock.advance(TICK_S)
        registry.ask(trigger())
    assert reasons[0] == (ReasonCode.WINDOW_DOWN, True)
    assert (ReasonCode.NEED_BELOW, True) in reasons
    assert reasons[-1][1] is False


async def test_a_past_that_takes_too_long_is_given_up(
    ticker: Ticker, registry: Registry, clock: ManualClock, reader: FakeReader
) -> None:
    reader.past_gate = asyncio.Event()
    entry, _ = registry.ask(trigger())
    clock.advance(1)
    await ticker.tick()
    filling = asyncio.create_task(ticker.fill([entry]))
    await eventually(lambda: len(reader.past_reads) == 1)
    clock.advance(LONGEST_S + 1)
    reader.past_gate.set()
    await filling
    assert entry.filling is not None
    assert entry.filling.given_up
    assert "longer than 2 min" in entry.filling.problem


async def test_pools_go_through_their_past_together_and_a_faulty_one_stops_none(
    ticker: Ticker, registry: Registry, clock: ManualClock
) -> None:
    broken, _ = registry.ask(trigger("broken"))
    sound = [registry.ask(trigger(f"pool-{number}"))[0] for number in range(3)]
    clock.advance(1)
    await ticker.tick()
    broken.policy = replace(broken.policy, slots_per_replica=0)
    with capture_logs():
        await ticker.fill([broken, *sound])
    assert all(entry.filling is None for entry in (broken, *sound))
    assert all(reason(entry) is not ReasonCode.FILLING_HISTORY for entry in sound)


async def test_an_error_of_the_reader_leaves_no_pool_waiting(
    ticker: Ticker, registry: Registry, clock: ManualClock, reader: FakeReader, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def broken(*_: object) -> None:
        raise RuntimeError("broken reader")

    monkeypatch.setattr(reader, "observe_range", broken)
    reader.answer = falling
    entry, _ = registry.ask(trigger())
    clock.advance(1)
    with capture_logs() as logs:
        async with running(ticker):
            await eventually(lambda: entry.filling is None)
            clock.advance(TICK_S)
            await eventually(lambda: reason(entry) is ReasonCode.WINDOW_DOWN)
    assert [log["where"] for log in logs if log["log_level"] == "error"] == ["fill"]


async def test_a_clock_that_is_set_back_meanwhile_gets_no_history_from_the_future(
    ticker: Ticker, registry: Registry, clock: ManualClock, reader: FakeReader
) -> None:
    reader.past_gate = asyncio.Event()
    entry, _ = registry.ask(trigger())
    clock.advance(1)
    async with running(ticker):
        await eventually(lambda: len(reader.past_reads) == 1)
        clock.step(-10_000)
        clock.advance(TICK_S)
        await eventually(lambda: reader.at_ticks()[-1] < START - 9_000)
        reader.past_gate.set()
        await eventually(lambda: entry.filling is None)
        for _ in range(2):
            newest = entry.history.newest_at
            clock.advance(TICK_S)
            await eventually(lambda newest=newest: entry.history.newest_at != newest)  # type: ignore[misc]
    assert entry.history.newest_at is not None
    assert entry.history.newest_at < START - 9_000


async def test_calls_get_their_turn_while_the_past_is_gone_through(
    ticker: Ticker, registry: Registry, clock: ManualClock
) -> None:
    entry, _ = registry.ask(trigger())
    clock.advance(1)
    await ticker.tick()
    turns = 0

    async def call() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    caller = asyncio.create_task(call())
    await ticker.fill([entry])
    caller.cancel()
    # 561 decisions take far longer than one slice of 2 ms.
    assert turns > 10


@pytest.mark.parametrize(("pools", "ticks"), [(1, 561), (17, 561), (100, 100), (455, 21), (20_000, 21)])
def test_the_more_pools_are_new_at_once_the_less_of_the_past_is_read(
    registry: Registry, pools: int, ticks: int
) -> None:
    entry, _ = registry.ask(trigger())
    assert ticks_to_read([entry] * pools) == ticks
