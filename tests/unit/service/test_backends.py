"""Backends that are slow or broken: what of them reaches the pools of others, and the start."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from pathlib import Path

import pytest

from scaler.adapters.telemetry import Telemetry
from scaler.config.backends import Backend
from scaler.config.trigger import Trigger
from scaler.errors import StartError
from scaler.model import Observation, PoolKey, PoolLocator
from scaler.service.backends import connected
from scaler.service.registry import Registry
from scaler.service.ticker import Ticker
from tests.builders import TICK_S
from tests.fakes import START, FakeReader, ManualClock, eventually, trigger


class TwoBackends(FakeReader):
    """Reads of the backend ``slow`` hang until ``slow`` is set; those of others are answered at once."""

    def __init__(self) -> None:
        super().__init__()
        self.slow = asyncio.Event()

    async def observe(self, pools: dict[PoolKey, PoolLocator], at: float) -> dict[PoolKey, Observation]:  # type: ignore[override]
        if any(locator.backend == "slow" for locator in pools.values()):
            await self.slow.wait()
        return await super().observe(pools, at)


@pytest.fixture
def reader() -> TwoBackends:
    return TwoBackends()


@asynccontextmanager
async def running(ticker: Ticker) -> AsyncIterator[None]:
    task = asyncio.create_task(ticker.run())
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


def on(backend: str, name: str) -> Trigger:
    made = trigger(name)
    return replace(made, policy=replace(made.policy, locator=replace(made.policy.locator, backend=backend)))


async def test_a_slow_backend_delays_no_decision_about_the_pools_of_another(
    ticker: Ticker, registry: Registry, clock: ManualClock, reader: TwoBackends
) -> None:
    quick, slow = registry.ask(on("default", "quick"))[0], registry.ask(on("slow", "slow"))[0]
    clock.advance(1)
    tick = asyncio.create_task(ticker.tick())
    await eventually(lambda: quick.decision is not None)
    assert slow.decision is None
    reader.slow.set()
    await tick
    assert slow.decision is not None


async def test_newcomers_are_answered_and_warmed_up_while_those_of_a_dead_backend_wait(
    ticker: Ticker, registry: Registry, clock: ManualClock, reader: TwoBackends
) -> None:
    clock.advance(7)
    async with running(ticker):
        slow = registry.ask(on("slow", "slow"))[0]
        first = registry.ask(on("default", "first"))[0]
        await eventually(first.decided.is_set)
        later = registry.ask(on("default", "later"))[0]
        await eventually(lambda: later.decided.is_set() and len(later.history.ticks) > 10)
        assert len(first.history.ticks) > 10
        assert not slow.decided.is_set()
        reader.slow.set()
        await eventually(lambda: len(slow.history.ticks) > 10)


async def test_a_fault_in_publishing_the_pools_of_one_backend_leaves_the_others(
    ticker: Ticker,
    registry: Registry,
    clock: ManualClock,
    reader: TwoBackends,
    *,
    telemetry: Telemetry,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    reader.slow.set()
    broken, fine = registry.ask(on("slow", "broken"))[0], registry.ask(on("default", "fine"))[0]
    publish = ticker._publish

    def faulty(entry: object, *rest: object) -> None:
        if entry is broken:
            raise RuntimeError("what nobody thought of")
        publish(entry, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(ticker, "_publish", faulty)
    clock.advance(1)
    await ticker.tick()
    assert fine.history.newest_at == START
    assert 'vllm_scaler_internal_errors_total{where="tick"} 1.0' in telemetry.exposition()[0].decode()
    clock.advance(TICK_S)
    await ticker.tick()
    assert fine.history.newest_at == START + TICK_S


def backend(**keys: object) -> Backend:
    return Backend.model_validate({"url": "https://127.0.0.1:1", **keys})


async def test_files_that_cannot_be_used_are_all_said_at_the_start(tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.touch()
    settings = {
        "default": backend(bearer_token_file=str(tmp_path / "token")),
        "eu": backend(ca_file=str(empty)),
        "us": backend(),
    }
    with pytest.raises(StartError) as caught, connected(settings):
        pass
    assert str(caught.value) == (
        "Prometheus backends cannot be used: "
        f"default: the bearer token file {tmp_path}/token cannot be read: No such file or directory; "
        f"eu: {empty} holds no PEM certificates of authorities"
    )


async def test_backends_that_do_not_answer_are_no_reason_not_to_start() -> None:
    with connected({"default": backend(), "eu": backend(external_labels={"cluster": "eu"})}) as found:
        assert list(found) == ["default", "eu"]
        assert found["eu"].external == found["eu"].external != found["default"].external
