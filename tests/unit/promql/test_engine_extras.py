"""Extras that engines export: what their rows mean."""

import math

import pytest

from scaler.errors import PrometheusTimeoutError
from scaler.model import Absent, Extra, Observation
from scaler.promql import Sample
from tests.prometheus_rows import asking, engine, has_note, observe, scraped, signal

MISSING, NO_TRAFFIC = Absent.MISSING, Absent.NO_TRAFFIC
LATENCIES = pytest.mark.parametrize("name", ["itl_p95", "queue_time_p95", "e2e_p95"])
RATES = pytest.mark.parametrize("name", ["rejection_rate", "prompt_tokens"])
EVERY = pytest.mark.parametrize("name", ["itl_p95", "queue_time_p95", "e2e_p95", "rejection_rate", "prompt_tokens"])


def read(name: str, *rows: Sample) -> Observation:
    """What one serving replica's pool sees where the query of an extra answers with these rows."""
    return observe(locator=asking(name), replicas=engine(), freshness=[scraped()], extras={name: rows})


@LATENCIES
def test_a_latency_is_a_quantile_and_the_samples_behind_it(name: str) -> None:
    assert read(name, signal("value", 0.285), signal("support", 120.0)).extras == {name: Extra(0.285, 120)}


@LATENCIES
def test_nan_without_samples_is_no_traffic(name: str) -> None:
    assert read(name, signal("value", math.nan), signal("support", 0.0)).extras[name] == Extra(NO_TRAFFIC, 0)


@LATENCIES
def test_no_quantile_without_samples_is_no_traffic_too(name: str) -> None:
    seen = read(name, signal("support", 0.0))
    assert (seen.extras[name], seen.notes) == (
        Extra(NO_TRAFFIC, 0),
        read(name, signal("value", math.nan), signal("support", 0.0)).notes,
    )


@LATENCIES
def test_nan_in_spite_of_samples_is_a_broken_histogram(name: str) -> None:
    seen = read(name, signal("value", math.nan), signal("support", 7.0))
    assert seen.extras[name] == Extra(MISSING, 7)
    assert has_note(seen, "vllm:", "buckets are incomplete")


@LATENCIES
@pytest.mark.parametrize("value", [math.inf, -math.inf, -1.0, math.nan])
def test_a_quantile_that_is_no_time_and_unexplained_is_missing(name: str, value: float) -> None:
    seen = read(name, signal("value", value))
    assert seen.extras[name] == Extra(MISSING, MISSING)
    assert has_note(seen, f"{value:g}")


@LATENCIES
def test_a_count_without_buckets_is_missing_and_said(name: str) -> None:
    seen = read(name, signal("support", 7.0))
    assert seen.extras[name] == Extra(MISSING, 7)
    assert has_note(seen, f"{name} is missing", "dropped by the scrape")


@RATES
def test_a_rate_is_read(name: str) -> None:
    assert read(name, signal("value", 12.5)).extras == {name: Extra(12.5)}


@RATES
def test_a_rate_of_nothing_is_zero_and_not_missing(name: str) -> None:
    assert read(name, signal("value", 0.0)).extras[name].value == 0


@RATES
@pytest.mark.parametrize("value", [math.inf, -1.0, math.nan])
def test_a_rate_that_is_none_is_missing_and_said(name: str, value: float) -> None:
    seen = read(name, signal("value", value))
    assert seen.extras[name].value is MISSING
    assert has_note(seen, f"{name} is missing", f"{value:g}")


@EVERY
def test_no_rows_of_replicas_that_serve_are_missing_with_the_likely_causes(name: str) -> None:
    seen = read(name)
    assert seen.extras[name] == Extra(MISSING, MISSING)
    assert has_note(seen, f"{name} is missing", "vllm:", "rate window of 1 min", "not exported by this release")


@EVERY
def test_no_rows_where_nobody_serves_need_no_further_explanation(name: str) -> None:
    seen = observe(locator=asking(name))
    assert seen.extras[name].value is MISSING
    assert not has_note(seen, name)


@EVERY
def test_a_failed_query_leaves_the_other_readings(name: str) -> None:
    other = "e2e_p95" if name != "e2e_p95" else "itl_p95"
    seen = observe(
        locator=asking(name, other),
        replicas=engine(running=4),
        freshness=[scraped()],
        extras={name: PrometheusTimeoutError("no answer in 10 s"), other: [signal("value", 0.5), signal("support", 1)]},
    )
    assert (seen.running, seen.extras[name].value, seen.extras[other]) == (4, MISSING, Extra(0.5, 1))
    assert has_note(seen, f"{name} is missing", "no answer in 10 s")


@EVERY
def test_rows_of_another_namespace_or_workload_are_not_the_pools(name: str) -> None:
    seen = read(name, signal("value", 1.0, namespace="elsewhere"), signal("value", 1.0, workload="vllm-canary"))
    assert seen.extras[name].value is MISSING


def test_a_pool_that_asks_for_nothing_gets_nothing() -> None:
    assert observe(replicas=engine(), freshness=[scraped()]).extras == {}


def test_the_new_name_of_a_latency_and_the_old_one_are_both_named_where_both_are_missing() -> None:
    assert has_note(read("itl_p95"), "vllm:inter_token_latency_seconds or vllm:time_per_output_token_seconds")
