"""The clock of the service's node is stepped by an hour, and put right again."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

import pytest

from scaler.adapters.clock import SystemClock
from tests.faults.fleet import Fleet, Shared
from tests.faults.keda import Heard, Keda, side_by_side, until
from tests.faults.service import scaled

HOUR_S = 3600.0
TICKS = 3
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


async def step(by_s: float, fleet: Fleet, url: str) -> Seen:
    """Set the clock while 4 replicas are decided, and put it right; afterwards the load needs 6."""
    clock = SteppedClock()
    async with scaled(url, fleet, clock=clock) as pool:
        await pool.settles(4)
        pool.keda.heard.clear()
        began, ticks = time.monotonic(), pool.sample("vllm_scaler_ticks_total")
        clock.offset_s = by_s
        await until(lambda: pool.sample("vllm_scaler_ticks_total") >= ticks + TICKS)
        during = pool.keda.since(began)
        clock.offset_s = 0.0
        fleet.load = 22.0
        await pool.settles(6)
        return Seen(pool.keda, during)


Outcomes: TypeAlias = Mapping[str, Callable[[], Seen]]


@pytest.fixture(scope="module")
def seen(shared: Shared) -> Outcomes:
    ahead, behind = shared.take(2)
    return side_by_side({"ahead": step(HOUR_S, ahead, shared.url), "behind": step(-HOUR_S, behind, shared.url)})


def test_the_clock_is_an_hour_ahead(seen: Outcomes) -> None:
    ahead = seen["ahead"]()
    assert ahead.keda.lowered() == []
    assert {one.value for one in ahead.during} <= {4.0, None}
    refusals = [one.why for one in ahead.during if one.value is None]
    assert any("no data to decide on for 1 h" in why for why in refusals), "what is an hour old is not held"
    assert ahead.keda.value == 6.0


def test_the_clock_is_an_hour_behind(seen: Outcomes) -> None:
    behind = seen["behind"]()
    assert behind.keda.lowered() == []
    assert {one.value for one in behind.during} == {4.0}
    assert behind.keda.value == 6.0
