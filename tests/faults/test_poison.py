"""One pool of several makes the queries fail that it shares with the others."""

import json
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import TypeAlias

import pytest

from scaler.model import Decision
from scaler.promql import parting
from tests.faults.fleet import Fleet, Shared
from tests.faults.keda import Keda, keda, side_by_side, until
from tests.faults.proxy import Proxy, Reply, proxied, refusal
from tests.faults.service import Scaled, scaled

POOLS = 4
PLANNED = 4
"""Queries of one tick while nothing is wrong."""
PAUSE_S = 3.0
"""For which a pool is held back, instead of a minute."""
TICKS = 3
"""One more than the window within which fewer replicas would do."""

Ask: TypeAlias = Callable[[], Reply]


def late(proxy: Proxy, ask: Ask) -> Reply:
    proxy.over.wait(5)
    return ask()


def too_long(_: Proxy, ask: Ask) -> Reply:
    return Reply(200, ask().body + b" " * (1 << 20))


def with_warning(_: Proxy, ask: Ask) -> Reply:
    return Reply(200, json.dumps({**json.loads(ask().body), "warnings": ["a store is gone"]}).encode())


FAULTS: Mapping[str, Callable[[Proxy, Ask], Reply]] = {
    "refused": lambda _proxy, _ask: refusal(422, "execution", "found duplicate series"),
    "oversize": too_long,
    "partial": with_warning,
    "slow": late,
}


@dataclass(frozen=True)
class Seen:
    """What happened to pools of 4 replicas, the last of which spoils queries.

    Args:
        kedas: What KEDA heard of each pool.
        values: The newest of it in the fault, once the others had needed 6.
        notes: What the decision for the pool that spoils said then.
        queries: How many there were in each tick of the fault, on the average.
    """

    kedas: tuple[Keda, ...]
    values: tuple[float | None, ...]
    notes: str
    queries: float


def decision(pool: Scaled, fleet: Fleet) -> Decision | None:
    return next((view.decision for view in pool.telemetry.pools() if view.key.namespace == fleet.namespace), None)


def has_data(pool: Scaled, fleet: Fleet) -> bool:
    found = decision(pool, fleet)
    return found is not None and found.usable_at == found.at


async def suffer(reply: Callable[[Proxy, Ask], Reply], fleets: list[Fleet], url: str) -> Seen:
    """Take pools through a fault of the last: 4 replicas before; in it a load that needs 6 in all of them."""
    *healthy, poison = fleets
    async with AsyncExitStack() as stack:
        proxy = stack.enter_context(proxied(url))
        pool = await stack.enter_async_context(scaled(proxy.url, fleets[0], query_concurrency=8))
        others = [await stack.enter_async_context(keda([pool.service.grpc_port], fleet)) for fleet in fleets[1:]]
        kedas = (pool.keda, *others)
        for client in kedas:
            await client.hears(4.0)
        await pool.settles(4)
        await until(lambda: all(has_data(pool, fleet) for fleet in fleets))

        began, asked = pool.sample("vllm_scaler_ticks_total"), len(proxy.asked)
        proxy.fault = lambda expr, ask: reply(proxy, ask) if poison.namespace in expr else ask()
        for fleet in fleets:
            fleet.load = 22.0
        for client in kedas[:-1]:
            await client.hears(6.0)
        await until(lambda: pool.sample("vllm_scaler_ticks_total") >= began + 2 * TICKS)
        await until(lambda: all(has_data(pool, fleet) for fleet in healthy))
        found = decision(pool, poison)
        assert found is not None
        values = tuple(client.value for client in kedas)
        queries = (len(proxy.asked) - asked) / (pool.sample("vllm_scaler_ticks_total") - began)
        proxy.fault = None
        proxy.over.set()
        await kedas[-1].hears(6.0)
        return Seen(kedas, values, "; ".join(found.observation.notes), queries)


Outcomes: TypeAlias = Mapping[str, Callable[[], Seen]]


@pytest.fixture(scope="module")
def seen(shared: Shared) -> Outcomes:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(parting, "FIRST_PAUSE_S", PAUSE_S)
        patch.setattr(parting, "LONGEST_PAUSE_S", PAUSE_S)
        return side_by_side({name: suffer(fault, shared.take(POOLS), shared.url) for name, fault in FAULTS.items()})


def check(seen: Seen, *, words: str) -> None:
    """The pool that spoils keeps 4, the others go to 6 meanwhile, and so does it when the fault is over."""
    assert [client.lowered() for client in seen.kedas] == [[]] * POOLS
    assert seen.values == (6.0,) * (POOLS - 1) + (4.0,)
    assert words in seen.notes
    assert seen.queries <= PLANNED + parting.MOST_FURTHER


def test_a_pool_whose_queries_are_refused(seen: Outcomes) -> None:
    check(seen["refused"](), words="found duplicate series")


def test_a_pool_that_has_too_many_series(seen: Outcomes) -> None:
    check(seen["oversize"](), words="is longer than 65536 bytes")


def test_a_pool_whose_store_is_away(seen: Outcomes) -> None:
    check(seen["partial"](), words="a store is gone")


def test_a_pool_whose_queries_are_slow(seen: Outcomes) -> None:
    check(seen["slow"](), words="did not answer in")
