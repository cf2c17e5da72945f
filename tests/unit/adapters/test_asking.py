"""A backend on which some pools spoil the queries that they are in: who keeps their data, and what it costs."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from structlog.testing import capture_logs

from scaler.adapters.asking import Asker
from scaler.errors import (
    PrometheusDecodeError,
    PrometheusError,
    PrometheusOversizeError,
    PrometheusPartialError,
    PrometheusRejectedError,
    PrometheusTimeoutError,
    PrometheusUnavailableError,
)
from scaler.model import PoolKey, PoolLocator
from scaler.promql import Answer, LabelNames, Query, ReadPlan, plan
from scaler.promql.parting import FIRST_PAUSE_S, HOPELESS_PARTS, LONGEST_PAUSE_S, MOST_FURTHER

TICK_S = 15.0
TIMEOUT_S = 10.0
OVERSIZE = PrometheusOversizeError("longer than 64 MiB")
LATE = PrometheusTimeoutError("no answer in 10 s")
NAMESPACES = re.compile(r'\bnamespace=~?"([^"]+)"')


def fleet(size: int) -> dict[PoolKey, PoolLocator]:
    """Pools of one shape, each in a namespace of its own; without a workload, so there are three kinds of query."""
    return {
        PoolKey(f"team-{number:04d}", "llama", "0badcafe"): PoolLocator(f"team-{number:04d}", "llama", None)
        for number in range(size)
    }


@dataclass
class Spoilt:
    """A backend that fails a query by whom it is about.

    Args:
        failure: Why a query of this name about these namespaces fails; None where it is answered.
    """

    failure: Callable[[str, frozenset[str]], PrometheusError | None]
    now: float = 1000.0
    asked: list[tuple[str, frozenset[str]]] = field(default_factory=list)

    def monotonic(self) -> float:
        return self.now

    async def answer(self, query: Query) -> Answer:
        namespaces = frozenset(NAMESPACES.findall(query.expr)[0].split("|"))
        self.asked.append((query.name, namespaces))
        return self.failure(query.name, namespaces) or ()

    async def tick(self, asker: Asker, read_plan: ReadPlan) -> Mapping[str, frozenset[str]]:
        """Ask, and return by the kind of query for which namespaces there is no answer."""
        self.asked.clear()
        self.now += TICK_S
        began = self.now
        answers = await asker.ask(read_plan, self._in_time, began + TIMEOUT_S)
        self.now = began
        assert len(self.asked) <= len(read_plan.batches) + MOST_FURTHER
        for name in {batch.query.name for batch in read_plan.batches}:
            told = [
                key
                for batch in answers.batches
                if batch.query.name == name
                for keys in batch.owners.values()
                for key in keys
            ]
            assert sorted(told) == sorted(read_plan.pools), f"each pool is told once what {name} says"
        blind: dict[str, set[str]] = {}
        for batch in answers.batches:
            if isinstance(answers.by_query[batch.query], PrometheusError):
                blind.setdefault(batch.query.name, set()).update(identity[0] for identity in batch.owners)
        return {name: frozenset(namespaces) for name, namespaces in blind.items()}

    async def _in_time(self, query: Query) -> Answer:
        answer = await self.answer(query)
        if isinstance(answer, PrometheusTimeoutError):
            self.now += TIMEOUT_S
        return answer


def poisoned_by(*poison: str, error: PrometheusError = OVERSIZE, kind: str = "replicas") -> Spoilt:
    def failure(name: str, namespaces: frozenset[str]) -> PrometheusError | None:
        return error if name == kind and not namespaces.isdisjoint(poison) else None

    return Spoilt(failure)


async def test_a_pool_that_makes_a_query_fail_at_once_is_alone_without_data_in_the_same_tick() -> None:
    backend, read_plan = poisoned_by("team-0007"), plan(fleet(100), LabelNames())
    assert await backend.tick(Asker("default", backend.monotonic), read_plan) == {"replicas": {"team-0007"}}


@pytest.mark.parametrize(
    "error",
    [
        OVERSIZE,
        PrometheusRejectedError("HTTP 422: multiple matches for labels"),
        PrometheusPartialError("store gone"),
    ],
)
async def test_of_thousands_of_pools_all_but_one_have_data_within_a_few_ticks(error: PrometheusError) -> None:
    backend, read_plan = poisoned_by("team-1234", error=error), plan(fleet(2500), LabelNames())
    asker = Asker("default", backend.monotonic)
    assert len((await backend.tick(asker, read_plan))["replicas"]) < 4
    assert await backend.tick(asker, read_plan) == {"replicas": {"team-1234"}}


async def test_a_pool_that_spoils_all_queries_is_found_in_all_of_them() -> None:
    def failure(_: str, namespaces: frozenset[str]) -> PrometheusError | None:
        return OVERSIZE if "team-1234" in namespaces else None

    backend, read_plan = Spoilt(failure), plan(fleet(2500), LabelNames())
    asker = Asker("default", backend.monotonic)
    seen = [await backend.tick(asker, read_plan) for _ in range(4)]
    assert max(map(len, seen[0].values())) <= 625
    assert seen[-1] == {name: {"team-1234"} for name in ("replicas", "freshness", "latency")}


async def test_a_pool_once_found_costs_no_query_and_later_one_in_a_quarter_of_an_hour() -> None:
    backend, read_plan = poisoned_by("team-0007"), plan(fleet(100), LabelNames())
    asker = Asker("default", backend.monotonic)
    await backend.tick(asker, read_plan)
    costs = []
    for _ in range(4 * 60):
        assert await backend.tick(asker, read_plan) == {"replicas": {"team-0007"}}
        costs.append(len(backend.asked))
    assert set(costs) == {3, 4}
    assert costs[: round(FIRST_PAUSE_S / TICK_S) - 1] == [3]
    tried = [number * TICK_S for number, cost in enumerate(costs) if cost == 4]
    pauses = [later - earlier for earlier, later in pairwise(tried)]
    assert pauses == [
        2 * FIRST_PAUSE_S,
        4 * FIRST_PAUSE_S,
        8 * FIRST_PAUSE_S,
        16 * FIRST_PAUSE_S,
        LONGEST_PAUSE_S,
        LONGEST_PAUSE_S,
    ]


async def test_a_pool_that_spoils_no_longer_has_data_again_after_its_pause() -> None:
    poison = ["team-0007"]
    backend = Spoilt(lambda name, spaces: OVERSIZE if name == "replicas" and not spaces.isdisjoint(poison) else None)
    read_plan, asker = plan(fleet(100), LabelNames()), Asker("default", backend.monotonic)
    await backend.tick(asker, read_plan)
    poison.clear()
    seen = [await backend.tick(asker, read_plan) for _ in range(round(FIRST_PAUSE_S / TICK_S))]
    assert seen == [{"replicas": {"team-0007"}}] * (len(seen) - 1) + [{}]
    await backend.tick(asker, read_plan)
    assert len(backend.asked) == 3


async def test_a_slow_pool_is_found_over_several_ticks_since_each_takes_all_the_time_there_is() -> None:
    backend, read_plan = poisoned_by("team-0007", error=LATE), plan(fleet(100), LabelNames())
    asker = Asker("default", backend.monotonic)
    blind = [len((await backend.tick(asker, read_plan))["replicas"]) for _ in range(9)]
    assert blind[0] == 100
    assert all(later <= -(-earlier // 2) for earlier, later in pairwise(blind))
    assert blind[-1] == 1


async def test_many_pools_that_spoil_are_all_found() -> None:
    poison = {f"team-{number:04d}" for number in range(3, 400, 20)}
    backend, read_plan = poisoned_by(*poison), plan(fleet(400), LabelNames())
    asker = Asker("default", backend.monotonic)
    seen = [await backend.tick(asker, read_plan) for _ in range(40)]
    assert seen[-1] == {"replicas": poison}
    assert len(backend.asked) <= 3 + len(poison)


@given(st.integers(2, 40), st.data())
@settings(max_examples=25, deadline=None)
async def test_whichever_pools_spoil_all_others_have_data_within_minutes(size: int, data: st.DataObject) -> None:
    names = [key.namespace for key in fleet(size)]
    poison = data.draw(st.sets(st.sampled_from(names), max_size=min(HOPELESS_PARTS, size) - 1))
    error = data.draw(st.sampled_from((OVERSIZE, LATE)))
    backend, read_plan = poisoned_by(*poison, error=error), plan(fleet(size), LabelNames())
    asker = Asker("default", backend.monotonic)
    blind: Mapping[str, frozenset[str]] = {}
    for _ in range(20):
        blind = await backend.tick(asker, read_plan)
        if blind.get("replicas", frozenset()) == poison:
            return
    raise AssertionError(f"without data: {sorted(blind['replicas'] - poison)}")


async def test_what_is_only_too_much_at_once_is_asked_in_parts_and_nobody_is_held_back() -> None:
    backend = Spoilt(lambda name, spaces: OVERSIZE if name == "replicas" and len(spaces) > 30 else None)
    read_plan, asker = plan(fleet(100), LabelNames()), Asker("default", backend.monotonic)
    for _ in range(4 * 60):
        assert await backend.tick(asker, read_plan) == {}
    steady = []
    for _ in range(8):
        await backend.tick(asker, read_plan)
        steady.append(len(backend.asked))
    assert min(steady) == 3 + 3


async def test_what_is_too_slow_together_loses_few_ticks() -> None:
    backend = Spoilt(lambda name, spaces: LATE if name == "latency" and len(spaces) > 30 else None)
    read_plan, asker = plan(fleet(100), LabelNames()), Asker("default", backend.monotonic)
    blind = [bool(await backend.tick(asker, read_plan)) for _ in range(4 * 60)]
    assert blind[:3] == [True, True, False]
    # It is tried as one again after half a minute and after 1, 2, 4, 8, 16 and 16 min.
    assert sum(blind) == 2 * 8


@pytest.mark.parametrize("error", [PrometheusUnavailableError("connection refused"), PrometheusDecodeError("HTML")])
async def test_a_fault_that_no_pool_can_be_the_cause_of_costs_no_further_query(error: PrometheusError) -> None:
    backend, read_plan = Spoilt(lambda _name, _spaces: error), plan(fleet(100), LabelNames())
    asker = Asker("default", backend.monotonic)
    for _ in range(3):
        assert len((await backend.tick(asker, read_plan))["replicas"]) == 100
        assert len(backend.asked) == 3


@pytest.mark.parametrize("error", [LATE, PrometheusRejectedError("HTTP 401: who are you?")])
@pytest.mark.parametrize("size", [3, 100])
async def test_a_backend_that_fails_everything_is_asked_little_and_all_have_data_in_the_first_tick_that_works(
    error: PrometheusError, size: int
) -> None:
    failing = True
    backend = Spoilt(lambda _name, _spaces: error if failing else None)
    read_plan, asker = plan(fleet(size), LabelNames()), Asker("default", backend.monotonic)
    costs = []
    for _ in range(4 * 60):
        assert {len(namespaces) for namespaces in (await backend.tick(asker, read_plan)).values()} == {size}
        costs.append(len(backend.asked))
    quarter_hour = costs[-round(LONGEST_PAUSE_S / TICK_S) :]
    assert sum(quarter_hour) / len(quarter_hour) < (3 * size if size < 8 else 3) + 2
    failing = False
    assert await backend.tick(asker, read_plan) == {}
    assert await backend.tick(asker, read_plan) == {}
    assert len(backend.asked) == 3


async def test_a_pool_is_not_blamed_for_a_backend_that_goes_away_in_the_middle_of_the_search() -> None:
    error: list[PrometheusError] = [OVERSIZE]
    asked = 0

    def failure(name: str, namespaces: frozenset[str]) -> PrometheusError | None:
        nonlocal asked
        asked += name == "replicas"
        if asked > 3:
            return PrometheusUnavailableError("connection refused")
        return error[0] if name == "replicas" and "team-0007" in namespaces else None

    backend, read_plan = Spoilt(failure), plan(fleet(100), LabelNames())
    asker = Asker("default", backend.monotonic)
    assert len((await backend.tick(asker, read_plan))["replicas"]) == 50
    asked = -1000
    assert await backend.tick(asker, read_plan) == {"replicas": {"team-0007"}}


async def test_it_is_logged_once_that_pools_are_asked_for_apart_and_once_that_they_are_not() -> None:
    poison = ["team-0007"]
    backend = Spoilt(lambda name, spaces: OVERSIZE if name == "replicas" and not spaces.isdisjoint(poison) else None)
    read_plan, asker = plan(fleet(100), LabelNames()), Asker("default", backend.monotonic)
    with capture_logs() as logs:
        for _ in range(20):
            await backend.tick(asker, read_plan)
        poison.clear()
        for _ in range(round(LONGEST_PAUSE_S / TICK_S)):
            await backend.tick(asker, read_plan)
    named = {"backend": "default", "query": "replicas", "pools": ["team-0007/llama#0badcafe"], "count": 1}
    assert [{key: log[key] for key in named} for log in logs] == [named, named]
    assert [(log["event"], log.get("why")) for log in logs] == [
        ("pools spoil a query that they share, and are asked for apart", str(OVERSIZE)),
        ("pools are asked for together with others again", None),
    ]


async def test_pools_that_come_and_go_do_not_set_a_pool_free_that_spoils() -> None:
    backend = poisoned_by("team-0007")
    asker = Asker("default", backend.monotonic)
    await backend.tick(asker, plan(fleet(100), LabelNames()))
    # Half a minute is over when the last plan comes: one query is to try it.
    for size, cost in ((101, 3), (5, 3), (99, 4)):
        expected = {"replicas": {"team-0007"}} if size > 7 else {}
        assert await backend.tick(asker, plan(fleet(size), LabelNames())) == expected
        assert len(backend.asked) == cost


async def test_a_pool_that_is_gone_is_forgotten_and_one_of_its_name_is_asked_anew() -> None:
    backend = poisoned_by("team-0007")
    asker = Asker("default", backend.monotonic)
    await backend.tick(asker, plan(fleet(10), LabelNames()))
    backend.now += 2 * LONGEST_PAUSE_S
    await backend.tick(asker, plan(fleet(5), LabelNames()))
    assert asker._held == {}


async def test_a_pool_whose_plan_changes_is_asked_anew() -> None:
    backend = poisoned_by("team-0007")
    asker, pools = Asker("default", backend.monotonic), fleet(100)
    await backend.tick(asker, plan(pools, LabelNames()))
    moved = {key: PoolLocator("elsewhere", "llama", None) if "0007" in str(key) else one for key, one in pools.items()}
    assert await backend.tick(asker, plan(moved, LabelNames())) == {}


async def test_pools_of_a_namespace_that_no_matcher_tells_apart_are_held_back_together() -> None:
    workloads = {
        PoolKey("team-0007", name, "0badcafe"): PoolLocator("team-0007", "llama", None) for name in ("one", "other")
    }
    backend, read_plan = poisoned_by("team-0007"), plan(fleet(10) | workloads, LabelNames())
    assert await backend.tick(Asker("default", backend.monotonic), read_plan) == {"replicas": {"team-0007"}}
