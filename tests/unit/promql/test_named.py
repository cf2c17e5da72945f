"""Queries that the operator names: what is refused, and which row is whose."""

import math
from dataclasses import replace

import pytest

from scaler.errors import ConfigError
from scaler.model import Absent, Extra, Observation, PoolLocator, Workload, WorkloadKind
from scaler.promql import LabelNames, Sample, check_named_queries
from scaler.promql.named import MAX_NAMED_QUERIES, MAX_QUERY_CHARS
from tests.prometheus_rows import AT, LOCATOR, asking, has_note, observe

MISSING, NO_TRAFFIC = Absent.MISSING, Absent.NO_TRAFFIC
QUERIES = {"depth": "sum by (namespace) (jobs)", "other": "sum by (namespace) (others)"}
POOL = replace(LOCATOR, model_name="llama")
KINDS = {
    WorkloadKind.DEPLOYMENT: "deployment",
    WorkloadKind.STATEFUL_SET: "statefulset",
    WorkloadKind.LEADER_WORKER_SET: "leaderworkerset",
}


def row(value: float = 7.0, **labels: str) -> Sample:
    return Sample({"namespace": "serving", **labels}, value, AT)


def read(*rows: Sample, locator: PoolLocator = POOL) -> Observation:
    return observe(locator=asking("custom:depth", locator=locator), queries=QUERIES, extras={"custom:depth": rows})


def value(*rows: Sample, locator: PoolLocator = POOL) -> float | Absent:
    return read(*rows, locator=locator).extras["custom:depth"].value


class TestRows:
    def test_a_pool_takes_the_row_of_its_namespace(self) -> None:
        assert read(row(), row(9, namespace="elsewhere")).extras == {"custom:depth": Extra(7)}

    def test_a_row_of_another_namespace_is_never_the_pools_whatever_else_it_says(self) -> None:
        other = {"namespace": "elsewhere", "model_name": "llama", "deployment": "vllm", "workload": "vllm"}
        assert value(row(9, **other)) is MISSING
        assert value(Sample({"model_name": "llama", "deployment": "vllm"}, 9, AT)) is MISSING

    @pytest.mark.parametrize(
        "labels",
        [
            {"model_name": "llama"},
            {"deployment": "vllm"},
            {"workload": "vllm"},
            {"model_name": "llama", "deployment": "vllm", "workload": "vllm", "team": "blue"},
        ],
    )
    def test_labels_that_are_the_pools_narrow(self, labels: dict[str, str]) -> None:
        rows = [row(7, **labels), row(9, **dict.fromkeys(labels, "another"))]
        assert value(*rows) == 7

    @pytest.mark.parametrize("label", ["model_name", "deployment", "statefulset", "leaderworkerset", "workload"])
    def test_one_label_that_is_anothers_is_enough_to_be_anothers(self, label: str) -> None:
        assert value(row(9, **{"model_name": "llama", "deployment": "vllm", label: "another"})) is MISSING

    @pytest.mark.parametrize("kind", list(WorkloadKind))
    def test_every_kind_of_workload_has_its_label(self, kind: WorkloadKind) -> None:
        pool = PoolLocator("serving", None, Workload(kind, "vllm"))
        rows = [row(float(n), **{label: "vllm"}) for n, label in enumerate(KINDS.values())]
        assert value(*rows, locator=pool) == list(KINDS).index(kind)

    def test_a_label_that_the_pool_does_not_speak_of_is_not_the_pools(self) -> None:
        assert value(row(model_name="llama"), locator=LOCATOR) is MISSING
        assert value(row(deployment="vllm"), locator=PoolLocator("serving", "llama", None)) is MISSING

    def test_no_row_is_missing_with_what_it_takes(self) -> None:
        seen = read(row(model_name="qwen"))
        assert seen.extras["custom:depth"] == Extra(MISSING)
        assert has_note(seen, "custom:depth is missing", "no row", "namespace serving", "model_name")

    def test_several_rows_are_ambiguous(self) -> None:
        seen = read(row(7, pod="a"), row(7, pod="b"))
        assert seen.extras["custom:depth"] == Extra(MISSING)
        assert has_note(seen, "custom:depth is missing", "ambiguous", "2 rows")

    def test_a_row_of_the_namespace_and_one_of_the_pool_are_ambiguous(self) -> None:
        assert value(row(7), row(9, model_name="llama")) is MISSING

    def test_one_row_twice_is_one_row(self) -> None:
        assert value(row(7), row(7)) == 7

    def test_nan_is_no_traffic(self) -> None:
        assert value(row(math.nan)) is NO_TRAFFIC

    @pytest.mark.parametrize("odd", [math.inf, -math.inf, -1.0])
    def test_a_value_that_is_no_amount_is_missing_and_said(self, odd: float) -> None:
        seen = read(row(odd))
        assert seen.extras["custom:depth"].value is MISSING
        assert has_note(seen, "custom:depth is missing", f"{odd:g}")

    def test_the_namespace_label_is_that_of_the_scrape_configuration(self) -> None:
        rows = [Sample({"ns": "serving"}, 7, AT), Sample({"ns": "elsewhere", "namespace": "serving"}, 9, AT)]
        seen = observe(
            locator=asking("custom:depth", locator=POOL),
            queries=QUERIES,
            extras={"custom:depth": rows},
            names=LabelNames(namespace="ns"),
        )
        assert seen.extras["custom:depth"] == Extra(7)

    @pytest.mark.parametrize("name", ["custom:nobody", "activation:custom:nobody"])
    def test_a_name_that_is_not_defined_is_missing_with_the_names_that_are(self, name: str) -> None:
        seen = observe(locator=asking(name), queries=QUERIES)
        assert seen.extras[name] == Extra(MISSING)
        assert has_note(seen, f"{name} is missing", "no query 'nobody'", "known: depth, other")

    def test_what_scales_can_also_wake(self) -> None:
        names = ("activation:custom:depth", "custom:depth")
        seen = observe(locator=asking(*names), queries=QUERIES, extras={"custom:depth": [row(7)]})
        assert seen.extras == dict.fromkeys(names, Extra(7))


class TestChecks:
    @pytest.mark.parametrize(
        "expr",
        [
            "jobs",
            "sum by (namespace) (rate(jobs_total[5m]))",
            "jobs > 1",
            "2 * -(jobs)",
            "vector(1)",
            "jobs # with a comment",
            "max_over_time(jobs[5m:1m])\nor\nothers",
            "(" * 1000 + "jobs" + ")" * 1000,
            "+".join(["1"] * 1000) + "+jobs",
        ],
    )
    def test_a_vector_is_allowed(self, expr: str) -> None:
        check_named_queries({"depth": expr})

    @pytest.mark.parametrize(
        ("expr", "problem"),
        [
            ("sum(", "is not PromQL: unclosed left parenthesis"),
            ("", "is not PromQL"),
            ("rate(jobs)", "is not PromQL: expected type matrix"),
            ('{namespace=~"("}', "is not PromQL"),
            ("jobs\ud800", "is not PromQL"),
            ("1", "not a scalar"),
            ("time()", "not a scalar"),
            ("-(scalar(jobs) + 1)", "not a scalar"),
            ('"text"', "not a string"),
            ("jobs[5m]", "not a range vector"),
            ("jobs[5m:1m]", "not a range vector"),
            ("a" * (MAX_QUERY_CHARS + 1), f"{MAX_QUERY_CHARS} are the most"),
        ],
    )
    def test_anything_else_is_refused_with_the_reason(self, expr: str, problem: str) -> None:
        with pytest.raises(ConfigError) as caught:
            check_named_queries({"depth": expr})
        (text,) = caught.value.problems
        assert "named query 'depth'" in text
        assert problem in text
        assert len(text) < 500

    @pytest.mark.parametrize("name", ["", "Depth", "1st", "_x", "a-b", "a" * 64, "depth\n", "é"])
    def test_a_name_that_cannot_be_part_of_a_signals_is_refused(self, name: str) -> None:
        with pytest.raises(ConfigError, match="a name is 1 to 63 of a-z"):
            check_named_queries({name: "jobs"})

    def test_all_problems_are_told_at_once(self) -> None:
        with pytest.raises(ConfigError) as caught:
            check_named_queries({"Depth": "sum(", "fine": "jobs", "other": "1"})
        assert len(caught.value.problems) == 3

    def test_their_number_is_bounded(self) -> None:
        check_named_queries({f"q{n}": "jobs" for n in range(MAX_NAMED_QUERIES)})
        with pytest.raises(ConfigError, match=f"{MAX_NAMED_QUERIES} are the most"):
            check_named_queries({f"q{n}": "jobs" for n in range(MAX_NAMED_QUERIES + 1)})
