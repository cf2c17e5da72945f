"""External labels reach every selector of every query, and change nothing else."""

from dataclasses import replace

import pytest

from scaler.model import LabelMatcher, PoolKey, PoolLocator, Workload, WorkloadKind
from scaler.promql import LabelNames, plan
from scaler.promql.narrow import narrowed, narrowing_problem
from tests.promql_text import selectors_of

CLUSTER = (LabelMatcher("cluster", "=", 'eu"1'),)
C = 'cluster="eu\\"1"'
CASES = [
    ("up", f"up{{{C}}}"),
    ("up{}", f"up{{{C}}}"),
    ('up{job="a"}', f'up{{{C},job="a"}}'),
    ("up{job=\"}{\",pod=~'a',}", f"up{{{C},job=\"}}{{\",pod=~'a',}}"),
    ('{"dotted.name",job="a"}', f'{{{C},"dotted.name",job="a"}}'),
    ("rate(a:b_total[5m]) > bool 1e5", f"rate(a:b_total{{{C}}}[5m]) > bool 1e5"),
    ("max_over_time(up[1h:5m] offset 1d)", f"max_over_time(up{{{C}}}[1h:5m] offset 1d)"),
    ("sum by (job, up) (up)", f"sum by (job, up) (up{{{C}}})"),
    ("sum(up) without (job)", f"sum(up{{{C}}}) without (job)"),
    (
        "a / on (job) group_left (team) b unless ignoring (x) c",
        f"a{{{C}}} / on (job) group_left (team) b{{{C}}} unless ignoring (x) c{{{C}}}",
    ),
    ("topk(scalar(limit), up)", f"topk(scalar(limit{{{C}}}), up{{{C}}})"),
    ('label_replace(up,"a","$1 up","b","(up)")', f'label_replace(up{{{C}}},"a","$1 up","b","(up)")'),
    ("up # {not} a `selector\n + down", f"up{{{C}}} # {{not}} a `selector\n + down{{{C}}}"),
    ("vector(1) + NaN + Inf", "vector(1) + NaN + Inf"),
    ("up @ start() offset -5m", f"up{{{C}}} @ start() offset -5m"),
]


@pytest.mark.parametrize(("expr", "expected"), CASES)
def test_each_selector_gets_the_matchers_and_nothing_else_changes(expr: str, expected: str) -> None:
    assert narrowed(expr, CLUSTER) == expected
    assert narrowing_problem(expr, CLUSTER) is None


def test_without_external_labels_a_query_stays_as_it_is() -> None:
    assert narrowed("up # as written", ()) == "up # as written"


@pytest.mark.parametrize(
    "expr",
    [
        pytest.param('up{job="a" or job="b"}', id="the alternative would escape"),
        pytest.param("offset + 1", id="a metric called like a keyword"),
    ],
)
def test_a_query_that_would_not_be_narrowed_as_a_whole_is_refused(expr: str) -> None:
    problem = narrowing_problem(expr, CLUSTER)
    assert problem is not None
    assert "external labels cannot be added" in problem


EVERYTHING = (
    "activation:gateway",
    "activation:router",
    "custom:depth",
    "e2e_p95",
    "gpu",
    "itl_p95",
    "prompt_tokens",
    "queue_time_p95",
    "rejection_rate",
)


@pytest.mark.parametrize("kind", WorkloadKind)
def test_every_selector_of_every_planned_query_has_the_external_labels(kind: WorkloadKind) -> None:
    pool = PoolLocator("serving", "llama", Workload(kind, "vllm"), extras=EVERYTHING)
    pools = {
        PoolKey("serving", "a", "0"): pool,
        PoolKey("serving", "b", "0"): replace(pool, model_name=None, extras=()),
    }
    external = (*CLUSTER, LabelMatcher("tenant", "=", "ml"))
    queries = {"depth": 'sum by (namespace) (jobs) + sum by (namespace) (other{a="b"})'}
    narrow, wide = (plan(pools, LabelNames(), queries, labels).queries for labels in (external, ()))
    wanted = {("cluster", "=", 'eu"1'), ("tenant", "=", "ml")}
    assert len(narrow) == len(wide) == len({query.name for query in wide}) + 3
    for query, plain in zip(narrow, wide, strict=True):
        assert selectors_of(query) == [selector | wanted for selector in selectors_of(plain)]
        assert query.name == plain.name
