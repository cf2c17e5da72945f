"""The clock of the service's node is stepped by an hour, and put right again."""

import asyncio
import time
from dataclasses import dataclass
from pathlib import Path

import pytest

from scaler.adapters.clock import SystemClock
from tests.fakes import eventually
from tests.faults.fleet import Fleet, watching
from tests.faults.keda import PATIENCE_S, Heard, Keda
from tests.faults.service import scaled

HOUR_S = 3600.0
TICKS = 4
"""One more than the window within which fewer replicas would do."""


class SteppedClock(SystemClock):
    """The machine's clock, which can be set."""

    offset_s = 0.0

    def now(self) -> float:
        return super().now() + self.offset_s

    async def sleep_until(self, at: float) -> None:
        await super().sleep_until(at - self.offset_s)


@dataclass(frozen=True)
class Seen:
    """All that KEDA heard, and what it heard while the clock was wrong."""

    keda: Keda
    during: list[Heard]


async def step(by_s: float, folder: Path) -> Seen:
    """Set the clock while 4 replicas are decided, and put it right; afterwards the load needs 6."""
    clock, fleet = SteppedClock(), Fleet("serving")
    with watching([fleet], folder) as prometheus:
        async with scaled(prometheus.url, fleet, clock=clock) as pool:
            await pool.settles(4)
            pool.keda.heard.clear()
            began, ticks = time.monotonic(), pool.sample("vllm_scaler_ticks_total")
            clock.offset_s = by_s
            await eventually(lambda: pool.sample("vllm_scaler_ticks_total") >= ticks + TICKS, PATIENCE_S)
            during = pool.keda.since(began)
            clock.offset_s = 0.0
            fleet.load = 22.0
            await pool.settles(6)
            return Seen(pool.keda, during)


async def step_both(folder: Path) -> tuple[Seen, Seen]:
    return await asyncio.gather(step(HOUR_S, folder / "forward"), step(-HOUR_S, folder / "back"))


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory, prometheus_bin: Path) -> tuple[Seen, Seen]:
    assert prometheus_bin
    return asyncio.run(step_both(tmp_path_factory.mktemp("clock")))


def test_the_clock_is_an_hour_ahead(seen: tuple[Seen, Seen]) -> None:
    ahead = seen[0]
    assert ahead.keda.lowered() == []
    assert {one.value for one in ahead.during} <= {4.0, None}
    refusals = [one.why for one in ahead.during if one.value is None]
    assert any("no data to decide on for 1 h" in why for why in refusals), "what is an hour old is not held"
    assert ahead.keda.value == 6.0


def test_the_clock_is_an_hour_behind(seen: tuple[Seen, Seen]) -> None:
    behind = seen[1]
    assert behind.keda.lowered() == []
    assert {one.value for one in behind.during} == {4.0}
    assert behind.keda.value == 6.0
