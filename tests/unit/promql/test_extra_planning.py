"""What extras cost: queries grow with the signals and shapes that pools ask for, not with the pools."""

import math
from collections import Counter
from dataclasses import replace

import promql_parser
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scaler.model import (
    GATEWAY_ACTIVATION,
    ROUTER_ACTIVATION,
    Absent,
    LabelMatcher,
    PoolKey,
    PoolLocator,
    SignalName,
    Workload,
    WorkloadKind,
)
from scaler.promql import Answer, LabelNames, Query, ReadPlan, Sample, plan
from scaler.promql.batches import MAX_EXPR_BYTES, MAX_POOLS
from tests.prometheus_rows import AT, NAMES, asking, observe
from tests.promql_text import selectors_of

QUERIES = {"depth": "sum by (namespace) (jobs)", "other": "sum by (namespace) (others)"}
ENGINES = ("e2e_p95", "itl_p95", "prompt_tokens", "queue_time_p95", "rejection_rate")
NAMED = ("activation:custom:depth", "custom:depth", "custom:other")
EVERY = (*ENGINES, *NAMED, "gpu", ROUTER_ACTIVATION, GATEWAY_ACTIVATION)
BASE = {"replicas", "freshness", "latency", "workload"}


def key(number: int) -> PoolKey:
    return PoolKey(f"team-{number}", "llama", "0badcafe")


def pool(number: int, *extras: str) -> PoolLocator:
    workload = Workload(WorkloadKind.DEPLOYMENT, f"vllm-{number}")
    return asking(*extras, locator=PoolLocator(f"team-{number}", f"org/model-{number}", workload))


def planned(*pools: PoolLocator, names: LabelNames = NAMES) -> ReadPlan:
    return plan({key(number): locator for number, locator in enumerate(pools)}, names, QUERIES)


def extra_queries(read_plan: ReadPlan) -> Counter[str]:
    return Counter(query.name for query in read_plan.queries if query.name not in BASE)


def test_a_pool_that_asks_for_no_extra_pays_for_none() -> None:
    assert extra_queries(planned(pool(1))) == {}


@pytest.mark.parametrize("name", [*ENGINES, "gpu", ROUTER_ACTIVATION, GATEWAY_ACTIVATION, "custom:depth"])
def test_a_hundred_pools_that_ask_for_the_same_share_a_query(name: str) -> None:
    assert extra_queries(planned(*(pool(n, name) for n in range(100)), pool(100))) == {name: 1}


def test_what_scales_and_what_wakes_by_the_same_named_query_is_asked_once() -> None:
    read_plan = planned(pool(0, *NAMED), pool(1, "activation:custom:depth"))
    assert extra_queries(read_plan) == {"custom:depth": 1, "custom:other": 1}


def test_a_named_query_runs_as_it_is_once_for_any_number_of_pools() -> None:
    read_plan = planned(*(pool(n, "custom:depth") for n in range(3 * MAX_POOLS)))
    assert [query.expr for query in read_plan.queries if query.name == "custom:depth"] == [QUERIES["depth"]]


def test_a_thousand_pools_with_every_extra_cost_some_dozen_queries() -> None:
    read_plan = planned(*(pool(n, *EVERY) for n in range(1000)))
    side_by_side = 4
    assert extra_queries(read_plan) == {
        **dict.fromkeys((*ENGINES, "gpu", ROUTER_ACTIVATION, "custom:depth", "custom:other"), 1),
        GATEWAY_ACTIVATION: 2,  # the expression is as long as two
        **dict.fromkeys(("itl_p95", "queue_time_p95", "e2e_p95"), side_by_side),
    }
    assert len(read_plan.queries) == 3 + side_by_side + 3 * side_by_side + 8
    assert max(len(query.expr) for query in read_plan.queries) <= MAX_EXPR_BYTES


def test_pools_that_differ_in_the_rate_window_share_only_what_has_none() -> None:
    read_plan = planned(pool(0, *EVERY), replace(pool(1, *EVERY), rate_window_s=120.0))
    assert extra_queries(read_plan) == {
        **dict.fromkeys((*ENGINES, ROUTER_ACTIVATION), 2),
        **dict.fromkeys(("gpu", GATEWAY_ACTIVATION, "custom:depth", "custom:other"), 1),
    }


def test_what_every_pool_needs_is_asked_before_the_extras() -> None:
    names = [query.name for query in planned(*(pool(n, *EVERY) for n in range(5))).queries]
    assert set(names[:4]) == BASE


def test_signals_that_every_observation_has_cost_nothing_and_are_no_extras() -> None:
    derived = ("generation_tokens", "kv_cache", "preemption_rate", "saturation", "ttft_p95", "waiting")
    assert {*derived, *ENGINES, "gpu"} == {signal.value for signal in SignalName}
    assert extra_queries(planned(pool(0, *derived))) == {}
    seen = observe(locator=asking(*derived))
    assert seen.extras == {}
    assert not any(name in note for note in seen.notes for name in ("kv_cache", "preemption_rate"))


def test_a_name_that_means_nothing_is_missing_and_said() -> None:
    seen = observe(locator=asking("throughput"))
    assert seen.extras["throughput"].value is Absent.MISSING
    assert "throughput is missing: there is no such reading" in seen.notes


def test_every_extra_is_promql() -> None:
    odd = 'a"\\\n|.*'
    pools = [
        pool(0, *EVERY),
        asking(*EVERY, locator=PoolLocator(odd, odd, Workload(WorkloadKind.DEPLOYMENT, odd * 20))),
        asking(*EVERY, locator=PoolLocator(odd, odd, Workload(WorkloadKind.STATEFUL_SET, odd))),
        asking(*EVERY, locator=PoolLocator("team", "llama", None, (LabelMatcher("job", "=", odd),))),
        asking(*EVERY, locator=PoolLocator("team", None, Workload(WorkloadKind.LEADER_WORKER_SET, odd))),
    ]
    for names in (NAMES, LabelNames("ns", "pod_name", "address")):
        for query in planned(*pools, names=names).queries:
            promql_parser.parse(query.expr)


def test_every_extra_but_the_operators_own_is_confined_to_the_pools_namespaces() -> None:
    for query in planned(pool(0, *EVERY), pool(1, *EVERY)).queries:
        if query.name.startswith("custom:") or query.name in BASE:
            continue
        selectors = selectors_of(query)
        assert selectors
        for matchers in selectors:
            confined = {("namespace", "=~", "team-0|team-1"), ("exported_namespace", "=~", "team-0|team-1")}
            assert confined & matchers
            if query.name in ENGINES:
                models = ("model_name", "=~", "org/model-0|org/model-1")
                assert {models, ("server", "=", ""), ("model_name", "!=", "")} <= matchers


def test_a_pools_own_matchers_narrow_what_its_engines_say() -> None:
    read_plan = planned(replace(pool(0, *EVERY), matchers=(LabelMatcher("cluster", "=", "eu"),)))
    for query in read_plan.queries:
        if query.name in ENGINES:
            assert all(("cluster", "=", "eu") in matchers for matchers in selectors_of(query))


def test_the_models_that_clients_may_invent_are_not_read_from_routers_and_gateways() -> None:
    read_plan = planned(pool(0, ROUTER_ACTIVATION, GATEWAY_ACTIVATION))
    by_model = [
        {label for label, _, value in matchers if value == "org/model-0"}
        for query in read_plan.queries
        if query.name in (ROUTER_ACTIVATION, GATEWAY_ACTIVATION)
        for matchers in selectors_of(query)
    ]
    assert {"model"} in by_model
    assert {"model_name"} in by_model
    assert {"target_model_name"} in by_model


def test_pools_read_each_their_own_rows() -> None:
    read_plan = planned(*(pool(n, "custom:depth", "e2e_p95", ROUTER_ACTIVATION) for n in range(2)))

    def rows(number: int) -> dict[str, Sample]:
        namespace, model, workload = f"team-{number}", f"org/model-{number}", f"vllm-{number}"
        common = {"namespace": namespace}
        return {
            "custom:depth": Sample({**common, "deployment": workload}, number + 10.0, AT),
            "e2e_p95": Sample(
                {**common, "model_name": model, "workload": workload, "signal": "value"}, number + 20.0, AT
            ),
            ROUTER_ACTIVATION: Sample({**common, "model": model, "signal": "requests"}, number + 30.0, AT),
        }

    answers: dict[Query, Answer] = {
        query: () if query.name in BASE else (rows(0)[query.name], rows(1)[query.name]) for query in read_plan.queries
    }
    for number, seen in enumerate(read_plan.observations(answers, AT).values()):
        values = [seen.extras[name].value for name in ("custom:depth", "e2e_p95", ROUTER_ACTIVATION)]
        assert values == [number + 10, number + 20, number + 30]


class TestWhateverComes:
    texts = st.one_of(
        st.text(max_size=4), st.sampled_from(["serving", "vllm", "llama", "value", "support", "requests", "queued_for"])
    )
    labels = st.dictionaries(
        st.sampled_from(
            ["namespace", "workload", "model_name", "model", "signal", "pod", "exported_pod", "gpu", "deployment"]
        ),
        texts,
    )
    metrics = st.sampled_from(["DCGM_FI_DEV_GPU_UTIL", "DCGM_FI_DEV_FB_USED", "DCGM_FI_DEV_FB_FREE", "x"])
    samples = st.builds(
        lambda labels, metric, value: Sample(
            {"namespace": "serving", "workload": "vllm", "model_name": "llama", "__name__": metric, **labels}, value, AT
        ),
        labels,
        metrics,
        st.floats(),
    )
    rows = st.lists(samples, max_size=8)
    names = st.one_of(st.sampled_from(EVERY), st.text(max_size=12), st.text(max_size=12).map("custom:".__add__))

    @given(st.lists(names, max_size=6), rows)
    def test_no_extra_and_no_answer_makes_anything_but_sound_readings(
        self, names: list[str], rows: list[Sample]
    ) -> None:
        locator = asking(*names, locator=PoolLocator("serving", "llama", Workload(WorkloadKind.DEPLOYMENT, "vllm")))
        every = dict.fromkeys((*EVERY, *names), rows)
        seen = observe(locator=locator, queries=QUERIES, extras=every)
        for extra in seen.extras.values():
            for reading in (extra.value, extra.support):
                assert isinstance(reading, Absent) or (math.isfinite(reading) and reading >= 0)
        mixed = (*rows[::-1], *rows)
        again = observe(locator=locator, queries=QUERIES, extras=dict.fromkeys(every, mixed))
        assert again.extras == seen.extras
