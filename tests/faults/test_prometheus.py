"""Prometheus goes away, comes back without its memory, or loses sight of replicas that serve all the same."""

import asyncio
import time
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from scaler.model import ReasonCode
from tests.fakes import eventually
from tests.faults.fleet import Fleet, Watching, watching
from tests.faults.keda import PATIENCE_S, Heard, Keda
from tests.faults.service import Scaled, scaled

BLIND_TICKS = 4
"""One more than the window within which fewer replicas would do."""


@dataclass(frozen=True)
class Seen:
    """What happened to a pool of 4 replicas: all that KEDA heard, what it heard in the fault, and why."""

    keda: Keda
    during: list[Heard]
    notes: str
    reasons: set[ReasonCode]


async def blind(pool: Scaled, words: str, began: float) -> Seen:
    await pool.is_blind_for(BLIND_TICKS, words)
    return Seen(pool.keda, pool.keda.since(began), pool.notes, reasons(pool))


def reasons(pool: Scaled) -> set[ReasonCode]:
    return {reason.code for reason in pool.decision.reasons} if pool.decision else set()


async def stopped(pool: Scaled, prometheus: Watching) -> Seen:
    await asyncio.to_thread(prometheus.server.kill)
    seen = await blind(pool, "connection refused", time.monotonic())
    await asyncio.to_thread(prometheus.server.start)
    return seen


async def emptied(pool: Scaled, prometheus: Watching) -> Seen:
    await asyncio.to_thread(prometheus.server.stop)
    prometheus.forget()
    # Longer than a scrape takes to come, so that the time without any series can be looked at.
    pool.fleet.is_out_of_reach = True
    await asyncio.to_thread(prometheus.server.start)
    seen = await blind(pool, "no vllm: series in namespace", time.monotonic())
    pool.fleet.is_out_of_reach = False
    return seen


async def all_targets_gone(pool: Scaled, _: Watching) -> Seen:
    pool.fleet.unscraped = 4
    seen = await blind(pool, "no vllm: series in namespace", time.monotonic())
    pool.fleet.unscraped = 0
    return seen


async def some_targets_gone(pool: Scaled, _: Watching) -> Seen:
    """What is left looks like a quarter of the load on a quarter of the replicas."""
    pool.fleet.unscraped = 3
    began = time.monotonic()
    await eventually(lambda: ReasonCode.REPLICAS_UNREPORTED in reasons(pool), PATIENCE_S)
    await eventually(lambda: time.monotonic() - began > BLIND_TICKS + 1, PATIENCE_S)
    seen = Seen(pool.keda, pool.keda.since(began), pool.notes, reasons(pool))
    pool.fleet.unscraped = 0
    return seen


Fault = Callable[[Scaled, Watching], Coroutine[Any, Any, Seen]]
FAULTS: tuple[Fault, ...] = (stopped, emptied, all_targets_gone, some_targets_gone)


async def suffer(fault: Fault, folder: Path) -> Seen:
    """Take a pool through a fault: 4 replicas before; afterwards a load that needs 6."""
    fleet = Fleet("serving")
    with watching([fleet], folder) as prometheus:
        async with scaled(prometheus.url, fleet) as pool:
            await pool.settles(4)
            pool.keda.heard.clear()
            seen = await fault(pool, prometheus)
            fleet.load = 22.0
            await pool.settles(6)
            return seen


async def suffer_all(folder: Path) -> dict[Fault, Seen]:
    seen = await asyncio.gather(*(suffer(fault, folder / fault.__name__) for fault in FAULTS))
    return dict(zip(FAULTS, seen, strict=True))


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory, prometheus_bin: Path) -> dict[Fault, Seen]:
    assert prometheus_bin
    return asyncio.run(suffer_all(tmp_path_factory.mktemp("prometheus")))


def check(seen: Seen) -> None:
    """4 replicas all through the fault, no lower answer at any time, and 6 in the end."""
    assert len(seen.during) > BLIND_TICKS
    assert {one.value for one in seen.during} == {4.0}
    assert seen.keda.lowered() == []
    assert seen.keda.value == 6.0


def test_prometheus_is_stopped_and_comes_back(seen: dict[Fault, Seen]) -> None:
    check(seen[stopped])
    assert ReasonCode.NO_DATA in seen[stopped].reasons


def test_prometheus_comes_back_with_an_empty_database(seen: dict[Fault, Seen]) -> None:
    check(seen[emptied])
    assert ReasonCode.NO_DATA in seen[emptied].reasons


def test_no_replica_is_scraped_though_all_serve(seen: dict[Fault, Seen]) -> None:
    check(seen[all_targets_gone])
    assert ReasonCode.NO_DATA in seen[all_targets_gone].reasons


def test_some_replicas_are_not_scraped_though_all_serve(seen: dict[Fault, Seen]) -> None:
    check(seen[some_targets_gone])


async def test_without_a_fault_a_load_that_falls_lowers_the_replicas(prometheus_url: str, fleet: Fleet) -> None:
    async with scaled(prometheus_url, fleet) as pool:
        await pool.settles(4)
        fleet.load = 1.0
        await pool.keda.hears(3.0)
        assert pool.keda.lowered() == [(4.0, 3.0)]
