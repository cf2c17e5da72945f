"""The tick loop on its straight path and off it: late, stepped clocks, failing reads, failing pools."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress

import pytest
from structlog.testing import capture_logs

from scaler.adapters.telemetry import Telemetry
from scaler.model import Action, Observation, PoolKey, ReasonCode
from scaler.service.registry import PoolEntry, Registry
from scaler.service.ticker import Ticker
from tests.builders import TICK_S, observation
from tests.fakes import START, FakeReader, ManualClock, eventually, trigger


@asynccontextmanager
async def running(ticker: Ticker) -> AsyncIterator[asyncio.Task[None]]:
    task = asyncio.create_task(ticker.run())
    try:
        yield task
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


def sample(telemetry: Telemetry, line: str) -> float:
    """The value of a series, by its name and labels as they are written."""
    text = telemetry.exposition()[0].decode()
    return next(float(row.rsplit(" ", 1)[1]) for row in text.splitlines() if row.startswith(line))


def newest_is(entry: PoolEntry, at: float) -> Callable[[], bool]:
    return lambda: entry.history.newest_at == at


@pytest.mark.parametrize(
    ("past_tick_s", "expected"),
    [
        pytest.param(0.0, START - TICK_S, id="samples of the tick may not be in Prometheus yet"),
        pytest.param(0.9, START - TICK_S, id="still not"),
        pytest.param(1.0, START, id="a second after the tick"),
        pytest.param(15.9, START, id="until a second after the next"),
    ],
)
def test_a_tick_is_read_once_its_samples_have_settled(
    ticker: Ticker, clock: ManualClock, past_tick_s: float, expected: float
) -> None:
    clock.advance(past_tick_s)
    assert ticker.newest_tick() == expected


async def test_one_read_serves_all_pools_as_of_the_tick(
    ticker: Ticker, registry: Registry, clock: ManualClock, reader: FakeReader
) -> None:
    entries = [registry.ask(trigger(f"pool-{number}"))[0] for number in range(50)]
    clock.advance(1)
    await ticker.tick()
    assert reader.sizes_at(START) == [50]
    assert {entry.decision.target for entry in entries if entry.decision} == {4}
    assert {entry.decision.at for entry in entries if entry.decision} == {START}


async def test_pools_first_seen_together_are_read_together_and_at_once(
    ticker: Ticker, registry: Registry, clock: ManualClock, reader: FakeReader
) -> None:
    clock.advance(7)
    async with running(ticker):
        entries = [registry.ask(trigger(f"pool-{number}"))[0] for number in range(30)]
        async with asyncio.timeout(5):
            await asyncio.gather(*(entry.decided.wait() for entry in entries))
    # On a machine that is busy the newcomers are looked at again while the tick still decides: it costs one more read.
    assert reader.sizes_at(START)[0] == 30


async def test_every_tick_of_the_grid_is_evaluated_once(
    ticker: Ticker, registry: Registry, clock: ManualClock, reader: FakeReader
) -> None:
    entry, _ = registry.ask(trigger())
    clock.advance(1)
    async with running(ticker):
        for number in range(4):
            await eventually(newest_is(entry, START + number * TICK_S))
            clock.advance(TICK_S)
    assert reader.at_ticks()[:4] == [START + number * TICK_S for number in range(4)]


async def test_a_tick_that_was_evaluated_is_not_a_new_window(
    ticker: Ticker, registry: Registry, clock: ManualClock, reader: FakeReader
) -> None:
    entry, _ = registry.ask(trigger())
    clock.advance(1)
    await ticker.tick()
    await ticker.tick()
    await ticker.evaluate([entry], START)
    assert len(reader.reads) == 1
    assert len(entry.history.ticks) == 1


async def test_missed_ticks_count_as_windows_without_data(
    ticker: Ticker, registry: Registry, clock: ManualClock, telemetry: Telemetry
) -> None:
    entry, _ = registry.ask(trigger())
    clock.advance(1)
    await ticker.tick()
    clock.advance(4 * TICK_S)
    await ticker.tick()
    assert [tick.at for tick in entry.history.ticks] == [START + number * TICK_S for number in range(5)]
    assert [tick.needs[0].up is None for tick in entry.history.ticks] == [False, True, True, True, False]
    assert sample(telemetry, "vllm_scaler_skipped_ticks_total") == 3
    assert sample(telemetry, "vllm_scaler_ticks_total") == 2


async def test_a_process_that_stood_still_for_a_day_fills_no_more_than_the_windows(
    ticker: Ticker, registry: Registry, clock: ManualClock
) -> None:
    entry, _ = registry.ask(trigger())
    entry.streams += 1
    clock.advance(1)
    await ticker.tick()
    clock.advance(86_400)
    async with asyncio.timeout(5):
        await ticker.tick()
    assert len(entry.history.ticks) == 21
    assert entry.decision is not None
    assert entry.decision.target == 4


async def test_a_tick_that_takes_longer_than_the_interval_is_followed_by_the_newest_at_once(
    ticker: Ticker, registry: Registry, clock: ManualClock, reader: FakeReader
) -> None:
    registry.ask(trigger())
    clock.advance(1)
    reader.gate = asyncio.Event()
    async with running(ticker):
        await eventually(lambda: len(reader.reads) >= 1)
        clock.advance(2.5 * TICK_S)
        reader.gate.set()
        await eventually(lambda: reader.at_ticks()[-1] == START + 2 * TICK_S)


async def test_a_clock_set_back_by_less_than_an_interval_repeats_no_tick(
    ticker: Ticker, registry: Registry, clock: ManualClock, reader: FakeReader
) -> None:
    registry.ask(trigger())
    clock.advance(1)
    await ticker.tick()
    clock.step(-10)
    await ticker.tick()
    clock.advance(25)
    await ticker.tick()
    assert reader.at_ticks() == [START, START + TICK_S]


async def test_a_clock_set_back_by_an_hour_lowers_no_target_and_stops_no_ticks(
    ticker: Ticker, registry: Registry, clock: ManualClock, reader: FakeReader
) -> None:
    entry, _ = registry.ask(trigger())
    reader.load, reader.replicas = 24.0, 6
    clock.advance(1)
    await ticker.tick()
    # While the clock is set back kube-state-metrics is away and half of the replicas do not report.
    reader.answer = lambda _key, at: observation(0, 4, 3, at=at, requested=Observation(0).requested)
    clock.step(-3600)
    with capture_logs() as logs:
        for _ in range(3):
            await ticker.tick()
            clock.advance(TICK_S)
    assert reader.at_ticks() == [START, START - 3600, START - 3600 + TICK_S, START - 3600 + 2 * TICK_S]
    assert entry.decision is not None
    assert entry.decision.target == 6
    assert [record["event"] for record in logs if record["log_level"] == "warning"] == [
        "the clock was set back: windows start anew, and targets stay"
    ]


async def test_the_loop_goes_on_when_the_clock_is_set_back_during_a_read(
    ticker: Ticker, registry: Registry, clock: ManualClock, reader: FakeReader
) -> None:
    registry.ask(trigger())
    clock.advance(1)
    reader.gate = asyncio.Event()
    async with running(ticker):
        await eventually(lambda: len(reader.reads) >= 1)
        clock.step(-3600)
        reader.gate.set()
        await eventually(lambda: clock.sleepers == 1)
        clock.advance(TICK_S)
        await eventually(lambda: reader.at_ticks()[-1] == START - 3600 + TICK_S)


async def test_a_read_that_fails_holds_every_pool_and_the_next_tick_tries_again(
    ticker: Ticker, registry: Registry, clock: ManualClock, reader: FakeReader, telemetry: Telemetry
) -> None:
    entry, _ = registry.ask(trigger())
    clock.advance(1)
    with capture_logs() as logs:
        async with running(ticker):
            await eventually(lambda: entry.decision is not None)
            reader.failure = RuntimeError("broken reader")
            for number in (1, 2):
                clock.advance(TICK_S)
                await eventually(newest_is(entry, START + number * TICK_S))
            assert entry.decision is not None
            held = entry.decision
            reader.failure = None
            clock.advance(TICK_S)
            await eventually(lambda: entry.history.newest_at == START + 3 * TICK_S)
    assert (held.action, held.target, held.reason.code) == (Action.HOLD, 4, ReasonCode.NO_DATA)
    assert held.usable_at == START
    assert entry.decision.usable_at == START + 3 * TICK_S
    assert [record["where"] for record in logs if record["log_level"] == "error"] == ["read"]
    assert sample(telemetry, 'vllm_scaler_internal_errors_total{where="read"}') == 2


async def test_a_pool_without_an_answer_is_held_and_says_so(
    ticker: Ticker, registry: Registry, clock: ManualClock, reader: FakeReader, monkeypatch: pytest.MonkeyPatch
) -> None:
    entry, _ = registry.ask(trigger())
    clock.advance(1)

    async def nothing(*_: object) -> dict[PoolKey, Observation]:
        return {}

    monkeypatch.setattr(reader, "observe", nothing)
    await ticker.tick()
    assert entry.decision is not None
    assert entry.decision.target is None
    assert "did not answer for this pool" in entry.decision.observation.notes[0]


async def test_a_fault_in_one_pool_leaves_it_its_last_decision_and_the_others_alone(
    ticker: Ticker, registry: Registry, clock: ManualClock, telemetry: Telemetry
) -> None:
    broken, _ = registry.ask(trigger("broken", tick_s=0.0))
    sound, _ = registry.ask(trigger("sound"))
    clock.advance(1)
    with capture_logs() as logs:
        for _ in range(3):
            await ticker.tick()
            clock.advance(TICK_S)
    assert broken.decision is None
    assert sound.decision is not None
    assert sound.decision.at == START + 2 * TICK_S
    errors = [record for record in logs if record["log_level"] == "error"]
    assert [(record["where"], record["pool"]) for record in errors] == [("decide", "serving/broken#0a1b2c3d")]
    assert sample(telemetry, 'vllm_scaler_internal_errors_total{where="decide"}') == 3


async def test_a_record_is_written_when_a_decision_changes_and_not_for_each_tick(
    ticker: Ticker, registry: Registry, clock: ManualClock, reader: FakeReader
) -> None:
    entry, _ = registry.ask(trigger())
    entry.filling = None
    clock.advance(1)
    reader.load = 12.0
    with capture_logs() as logs:
        for _ in range(5):
            await ticker.tick()
            clock.advance(TICK_S)
        reader.load = 80.0
        await ticker.tick()
    records = [(record["action"], record["to"], record["reason"]) for record in logs if record["event"] == "decision"]
    assert records == [("hold", 4, "dead_band"), ("scale_up", 8, "burst")]


async def test_a_record_that_cannot_be_written_changes_no_decision(
    ticker: Ticker, registry: Registry, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unwritable(*_: object) -> dict[str, object]:
        raise OSError("disk full")

    monkeypatch.setattr("scaler.service.ticker.decision_record", unwritable)
    entry, _ = registry.ask(trigger())
    clock.advance(1)
    await ticker.tick()
    assert entry.decision is not None
    assert entry.decision.target == 4


async def test_calls_get_their_turn_while_many_pools_are_decided(
    ticker: Ticker, registry: Registry, clock: ManualClock
) -> None:
    for number in range(1000):
        registry.ask(trigger(f"pool-{number}"))
    clock.advance(1)
    turns = 0

    async def call() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    caller = asyncio.create_task(call())
    await ticker.tick()
    caller.cancel()
    # A thousand decisions take far longer than one slice of 5 ms.
    assert turns > 10


async def test_a_pool_that_nobody_asks_for_is_not_read_any_more(
    ticker: Ticker, registry: Registry, clock: ManualClock, reader: FakeReader
) -> None:
    registry.ask(trigger())
    clock.advance(1)
    await ticker.tick()
    clock.advance(601)
    await ticker.tick()
    assert len(reader.reads) == 1
    assert len(registry) == 0


def ask(registry: Registry, name: str) -> Callable[[], bool]:
    entry, _ = registry.ask(trigger(name))
    return entry.decided.is_set


async def test_newcomers_are_answered_while_a_tick_waits_for_prometheus(
    ticker: Ticker, registry: Registry, clock: ManualClock, reader: FakeReader
) -> None:
    is_old_decided = ask(registry, "old")
    clock.advance(1)
    async with running(ticker):
        await eventually(is_old_decided)
        reader.gate = asyncio.Event()
        clock.advance(TICK_S)
        await eventually(lambda: len(reader.reads) >= 2)
        hanging, reader.gate = reader.gate, None
        await eventually(ask(registry, "new"))
        hanging.set()
