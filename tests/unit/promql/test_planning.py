import random
from collections import Counter
from dataclasses import replace

import promql_parser
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scaler.errors import ConfigError, PrometheusRejectedError
from scaler.model import Absent, LabelMatcher, PoolKey, PoolLocator, Workload, WorkloadKind
from scaler.promql import Answer, LabelNames, Query, ReadPlan, plan
from scaler.promql.batches import MAX_EXPR_BYTES
from tests.prometheus_rows import AT, NAMES, engine, scraped
from tests.promql_text import selectors_of

VLLM = Workload(WorkloadKind.DEPLOYMENT, "vllm")


def key(number: int) -> PoolKey:
    return PoolKey(f"team-{number}", "llama", "0badcafe")


def names_of(read_plan: ReadPlan) -> Counter[str]:
    return Counter(query.name for query in read_plan.queries)


def kinds_of_pool(number: int) -> PoolLocator:
    namespace = f"team-{number}"
    return [
        PoolLocator(namespace, f"org/model-{number}", None),
        PoolLocator(namespace, None, replace(VLLM, name=f"vllm-{number}")),
        PoolLocator(namespace, f"org/model-{number}", Workload(WorkloadKind.STATEFUL_SET, "vllm")),
        PoolLocator(namespace, None, Workload(WorkloadKind.LEADER_WORKER_SET, "vllm")),
        PoolLocator(namespace, None, replace(VLLM, name="v" * 50)),
        PoolLocator(namespace, None, VLLM, (LabelMatcher("job", "=~", "a|b"),)),
        PoolLocator(namespace, None, VLLM, rate_window_s=120.0),
    ][number % 7]


def test_one_pool_costs_four_queries() -> None:
    assert names_of(plan({key(1): PoolLocator("team-1", "llama", VLLM)}, NAMES)) == {
        "replicas": 1,
        "freshness": 1,
        "latency": 1,
        "workload": 1,
    }


def test_a_hundred_pools_of_one_shape_cost_as_many_queries_as_one() -> None:
    pools = {key(n): PoolLocator(f"team-{n}", None, replace(VLLM, name=f"vllm-{n}")) for n in range(100)}
    assert names_of(plan(pools, NAMES)) == {"replicas": 1, "freshness": 1, "latency": 1, "workload": 1}


def test_pools_that_differ_in_the_rate_window_share_all_but_the_latency_query() -> None:
    pools = {key(n): PoolLocator(f"team-{n}", "llama", None, rate_window_s=60.0 * n) for n in (1, 2)}
    assert names_of(plan(pools, NAMES)) == {"replicas": 1, "freshness": 1, "latency": 2}


def test_a_pool_without_a_workload_asks_nothing_of_kube_state_metrics() -> None:
    assert "workload" not in names_of(plan({key(1): PoolLocator("team-1", "llama", None)}, NAMES))


def test_no_pools_ask_nothing() -> None:
    read_plan = plan({}, NAMES)
    assert read_plan.queries == ()
    assert read_plan.observations({}, AT) == {}


def test_many_pools_become_queries_of_bounded_length_which_together_cover_all() -> None:
    pools = {key(n): kinds_of_pool(n) for n in range(3000)}
    read_plan = plan(pools, NAMES)
    assert max(len(query.expr) for query in read_plan.queries) <= MAX_EXPR_BYTES
    for name in ("replicas", "freshness", "latency"):
        covered = [
            owner
            for batch in read_plan.batches
            if batch.query.name == name
            for batch_owners in batch.owners.values()
            for owner in batch_owners
        ]
        assert sorted(covered) == sorted(pools)


def test_ten_thousand_pools_of_one_shape_cost_at_most_a_dozen_queries_which_ask_for_namespaces_alone() -> None:
    pools = {
        PoolKey(f"team-{n // 20}", f"vllm-{n}", "0badcafe"): PoolLocator(
            f"team-{n // 20}", f"org/model-{n}", replace(VLLM, name=f"vllm-{n}")
        )
        for n in range(10_000)
    }
    read_plan = plan(pools, NAMES)
    assert len(read_plan.queries) <= 12
    assert not any("org/model" in query.expr or "vllm-" in query.expr for query in read_plan.queries)
    for name in ("replicas", "freshness", "latency", "workload"):
        of_name = [batch for batch in read_plan.batches if batch.query.name == name]
        namespaces = [{identity[0] for identity in batch.owners} for batch in of_name]
        assert sum(map(len, namespaces)) == len(set().union(*namespaces)) == 500


def test_the_dearest_query_is_spread_over_several_that_run_side_by_side() -> None:
    pools = {key(n): PoolLocator(f"team-{n}", "llama", None) for n in range(1000)}
    assert names_of(plan(pools, NAMES)) == {"replicas": 1, "freshness": 1, "latency": 4}


def test_every_planned_query_is_promql() -> None:
    odd = 'a"\\\n|.*'
    pools = {key(n): kinds_of_pool(n) for n in range(14)}
    pools[key(99)] = PoolLocator(odd, odd, Workload(WorkloadKind.DEPLOYMENT, odd), (LabelMatcher("job", "=", odd),))
    pools[key(98)] = PoolLocator("team", None, Workload(WorkloadKind.DEPLOYMENT, odd * 20))
    for query in plan(pools, NAMES).queries:
        promql_parser.parse(query.expr)


@given(st.randoms(use_true_random=False))
def test_the_order_of_pools_changes_no_query(shuffler: random.Random) -> None:
    pools = [(key(n), kinds_of_pool(n)) for n in range(30)]
    ordered = plan(dict(pools), NAMES)
    shuffler.shuffle(pools)
    assert plan(dict(pools), NAMES).queries == ordered.queries


def test_every_query_on_engines_is_confined_to_the_pools_namespaces_and_to_engines() -> None:
    read_plan = plan({key(n): PoolLocator(f"team-{n}", "llama", VLLM) for n in (1, 2)}, NAMES)
    for query in read_plan.queries:
        selectors = selectors_of(query)
        assert selectors
        for matchers in selectors:
            assert ("namespace", "=~", "team-1|team-2") in matchers
            if query.name != "workload":
                assert {("server", "=", ""), ("model_name", "=", "llama"), ("model_name", "!=", "")} <= matchers


def test_a_pools_own_matchers_are_in_all_its_queries_on_engines() -> None:
    locator = PoolLocator("team-1", "llama", None, (LabelMatcher("cluster", "=", "eu"),))
    for query in plan({key(1): locator}, NAMES).queries:
        assert all(("cluster", "=", "eu") in matchers for matchers in selectors_of(query))


def test_the_labels_of_the_scrape_configuration_are_used() -> None:
    names = LabelNames(namespace="kubernetes_namespace", pod="kubernetes_pod_name", instance="address")
    locator = PoolLocator("team-1", None, VLLM)
    rows = engine(running=3, kubernetes_namespace="team-1", kubernetes_pod_name="vllm-bcdfg-bcdfg", address="x:1")
    fresh = scraped(kubernetes_namespace="team-1", kubernetes_pod_name="vllm-bcdfg-bcdfg", address="x:1")
    read_plan = plan({key(1): locator}, names)
    answers: dict[Query, Answer] = dict.fromkeys(read_plan.queries, ())
    for query in read_plan.queries:
        if query.name in ("replicas", "freshness"):
            answers[query] = tuple(rows) if query.name == "replicas" else (fresh,)
    assert read_plan.observations(answers, AT)[key(1)].running == 3


@pytest.mark.parametrize("name", ["a-b", "", "1a", 'a"'])
def test_a_label_of_the_scrape_configuration_that_is_none_is_refused(name: str) -> None:
    with pytest.raises(ConfigError, match=r"pod label .* is not a label name"):
        LabelNames(pod=name)


def test_rows_of_other_pools_are_nobodys() -> None:
    ours, theirs = PoolLocator("team-1", "llama", None), PoolLocator("team-2", "qwen", None)
    read_plan = plan({key(1): ours, key(2): theirs}, NAMES)
    rows = [
        *engine(running=1, namespace="team-1", model_name="llama"),
        *engine(running=20, namespace="team-1", model_name="qwen"),
        *engine(running=300, namespace="team-2", model_name="llama"),
        *engine(running=4, namespace="team-2", model_name="qwen"),
        *engine(running=5000, namespace="team-3", model_name="llama"),
    ]
    fresh = tuple(
        {(row.labels["namespace"], row.labels["model_name"]): replace(row, value=AT) for row in rows}.values()
    )
    answers: dict[Query, Answer] = {
        query: {"replicas": tuple(rows), "freshness": fresh}.get(query.name, ()) for query in read_plan.queries
    }
    observations = read_plan.observations(answers, AT)
    assert [observations[key(n)].running for n in (1, 2)] == [1, 4]


def test_two_triggers_on_the_same_replicas_see_the_same() -> None:
    locator = PoolLocator("serving", None, VLLM)
    pools = {PoolKey("serving", "llama", "one"): locator, PoolKey("serving", "llama", "two"): locator}
    read_plan = plan(pools, NAMES)
    answers: dict[Query, Answer] = {
        query: {"replicas": tuple(engine(running=3)), "freshness": (scraped(),)}.get(query.name, ())
        for query in read_plan.queries
    }
    first, second = read_plan.observations(answers, AT).values()
    assert first == second
    assert first.running == 3


def test_a_refused_query_costs_only_the_pools_that_it_was_for() -> None:
    pools = {
        key(1): PoolLocator("team-1", "llama", None),
        key(2): PoolLocator("team-2", "llama", None, (LabelMatcher("job", "=~", "("),)),
    }
    read_plan = plan(pools, NAMES)
    refused = PrometheusRejectedError("bad_data: missing closing ): `(`")
    answers: dict[Query, Answer] = {query: refused if "job" in query.expr else () for query in read_plan.queries}
    observations = read_plan.observations(answers, AT)
    assert observations[key(1)].serving == 0
    assert observations[key(2)].serving is Absent.MISSING
    assert any("missing closing" in note for note in observations[key(2)].notes)


@pytest.mark.parametrize(
    ("locator", "note"),
    [
        (PoolLocator("team-1", None, None), "neither a model nor a workload"),
        (PoolLocator("team-1", "llama", None, (LabelMatcher("x}", "=", ""),)), "not a label name"),
        (PoolLocator("team-1", "llama", None, (LabelMatcher("job", "or", ""),)), "not a matcher's operator"),
        (PoolLocator("team-1", "llama", None, rate_window_s=0.0), "rate window"),
        (PoolLocator("team-1", "llama", None, rate_window_s=float("inf")), "rate window"),
    ],
)
def test_a_pool_that_cannot_be_asked_about_says_why_and_disturbs_no_other(locator: PoolLocator, note: str) -> None:
    read_plan = plan({key(1): locator, key(2): PoolLocator("team-2", "llama", None)}, NAMES)
    observations = read_plan.observations(dict.fromkeys(read_plan.queries, ()), AT)
    assert observations[key(1)].serving is Absent.MISSING
    assert note in observations[key(1)].notes[0]
    assert observations[key(2)].serving == 0


def test_a_query_that_was_not_answered_counts_as_failed() -> None:
    locator = PoolLocator("team-1", "llama", None)
    observation = plan({key(1): locator}, NAMES).observations({}, AT)[key(1)]
    assert observation.serving is Absent.MISSING
    assert any("was not asked" in note for note in observation.notes)
