"""Prometheus goes away, comes back without its memory, or loses sight of replicas that serve all the same."""

import asyncio
import time
from collections.abc import Callable, Coroutine, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from scaler.model import ReasonCode
from tests.faults.fleet import Fleet, Shared, Watching, watching
from tests.faults.keda import Heard, Keda, side_by_side, until
from tests.faults.service import Scaled, scaled

BLIND_TICKS = 3
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


async def all_targets_gone(pool: Scaled) -> Seen:
    pool.fleet.unscraped = 4
    seen = await blind(pool, "no vllm: series in namespace", time.monotonic())
    pool.fleet.unscraped = 0
    return seen


async def some_targets_gone(pool: Scaled) -> Seen:
    """What is left looks like a quarter of the load on a quarter of the replicas."""
    pool.fleet.unscraped = 3
    began = time.monotonic()
    await until(lambda: ReasonCode.REPLICAS_UNREPORTED in reasons(pool))
    await until(lambda: time.monotonic() - began > BLIND_TICKS + 1)
    seen = Seen(pool.keda, pool.keda.since(began), pool.notes, reasons(pool))
    pool.fleet.unscraped = 0
    return seen


async def suffer(url: str, fleet: Fleet, fault: Callable[[Scaled], Coroutine[Any, Any, Seen]]) -> Seen:
    """Take a pool through a fault: 4 replicas before; afterwards a load that needs 6."""
    async with scaled(url, fleet) as pool:
        await pool.settles(4)
        pool.keda.heard.clear()
        seen = await fault(pool)
        fleet.load = 22.0
        await pool.settles(6)
        return seen


async def suffer_alone(
    folder: Path, fleet: Fleet, fault: Callable[[Scaled, Watching], Coroutine[Any, Any, Seen]]
) -> Seen:
    """Take a pool through a fault of a Prometheus that it has for itself."""
    with ExitStack() as stack:
        own = await asyncio.to_thread(stack.enter_context, watching([fleet], folder))
        return await suffer(own.url, fleet, lambda pool: fault(pool, own))


async def suffer_nothing(url: str, fleet: Fleet) -> Seen:
    """Let the load of 4 replicas fall to that of one."""
    async with scaled(url, fleet) as pool:
        await pool.settles(4)
        fleet.load = 1.0
        await pool.keda.hears(3.0)
        return Seen(pool.keda, [], pool.notes, reasons(pool))


Outcomes: TypeAlias = Mapping[str, Callable[[], Seen]]


@pytest.fixture(scope="module")
def seen(shared: Shared, tmp_path_factory: pytest.TempPathFactory) -> Outcomes:
    all_gone, some_gone, sound = shared.take(3)
    return side_by_side(
        {
            "stopped": suffer_alone(tmp_path_factory.mktemp("stopped"), Fleet("stopped"), stopped),
            "emptied": suffer_alone(tmp_path_factory.mktemp("emptied"), Fleet("emptied"), emptied),
            "all targets": suffer(shared.url, all_gone, all_targets_gone),
            "some targets": suffer(shared.url, some_gone, some_targets_gone),
            "nothing": suffer_nothing(shared.url, sound),
        }
    )


def check(seen: Seen) -> None:
    """4 replicas all through the fault, no lower answer at any time, and 6 in the end."""
    assert len(seen.during) > BLIND_TICKS
    assert {one.value for one in seen.during} == {4.0}
    assert seen.keda.lowered() == []
    assert seen.keda.value == 6.0


def test_prometheus_is_stopped_and_comes_back(seen: Outcomes) -> None:
    outcome = seen["stopped"]()
    check(outcome)
    assert ReasonCode.NO_DATA in outcome.reasons


def test_prometheus_comes_back_with_an_empty_database(seen: Outcomes) -> None:
    outcome = seen["emptied"]()
    check(outcome)
    assert ReasonCode.NO_DATA in outcome.reasons


def test_no_replica_is_scraped_though_all_serve(seen: Outcomes) -> None:
    outcome = seen["all targets"]()
    check(outcome)
    assert ReasonCode.NO_DATA in outcome.reasons


def test_some_replicas_are_not_scraped_though_all_serve(seen: Outcomes) -> None:
    check(seen["some targets"]())


def test_without_a_fault_a_load_that_falls_lowers_the_replicas(seen: Outcomes) -> None:
    assert seen["nothing"]().keda.lowered() == [(4.0, 3.0)]
