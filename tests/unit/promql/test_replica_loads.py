"""What each serving replica carries: who is listed, and with which numbers."""

import math

from scaler.errors import PrometheusTimeoutError
from scaler.model import Absent, ReplicaLoad
from tests.prometheus_rows import (
    BY_REASON,
    POD_A,
    POD_B,
    POD_C,
    engine,
    gauge,
    has_note,
    observe,
    scraped,
    signal,
    tokens,
)

TWO_PODS = [scraped(POD_A), scraped(POD_B)]


def test_replicas_are_listed_by_name_with_their_engines_added_up() -> None:
    rows = [
        *engine(POD_B, "0", running=1, waiting=0),
        *engine(POD_A, "0", running=4, waiting=8),
        *engine(POD_A, "1", running=3, waiting=5),
        gauge(BY_REASON, 2, POD_A, "1", reason="deferred"),
    ]
    seen = observe(replicas=rows, freshness=TWO_PODS, latency=[tokens(90.0, POD_B), tokens(400.0, POD_A)])
    assert seen.replicas == (ReplicaLoad(POD_A, 7, 11, 400.0), ReplicaLoad(POD_B, 1, 0, 90.0))
    assert seen.generation_tokens_per_s == 490


def test_a_replica_that_lacks_a_gauge_is_not_listed() -> None:
    rows = [*engine(POD_A, running=4), *engine(POD_B, waiting=None), *engine(POD_C, running=2, waiting=1)]
    seen = observe(replicas=rows, freshness=[*TWO_PODS, scraped(POD_C)])
    assert [load.name for load in seen.replicas] == [POD_A, POD_C]


def test_a_replica_whose_samples_stopped_is_not_listed() -> None:
    rows = [*engine(POD_A, running=4), *engine(POD_B, running=2)]
    seen = observe(replicas=rows, freshness=[scraped(POD_A), scraped(POD_B, age_s=200)])
    assert [load.name for load in seen.replicas] == [POD_A]


def test_a_replica_without_a_token_rate_is_listed_without() -> None:
    rows = [*engine(POD_A, running=4), *engine(POD_B, running=2)]
    seen = observe(replicas=rows, freshness=TWO_PODS, latency=[tokens(90.0, POD_A)])
    assert [load.generation_tokens_per_s for load in seen.replicas] == [90.0, Absent.MISSING]
    assert seen.generation_tokens_per_s == 90


def test_replicas_without_a_pod_label_go_by_their_address() -> None:
    rows = engine(running=4, pod="", instance="10.0.0.1:8000")
    fresh = [scraped("", instance="10.0.0.1:8000")]
    seen = observe(replicas=rows, freshness=fresh, latency=[tokens(90.0, "", instance="10.0.0.1:8000")])
    assert seen.replicas == (ReplicaLoad("10.0.0.1:8000", 4, 0, 90.0),)


def test_a_pods_addresses_are_one_replica() -> None:
    latency = [tokens(30.0, instance="a:8000"), tokens(12.0, instance="b:8001"), tokens(12.0, instance="b:8001")]
    seen = observe(replicas=engine(running=4), freshness=[scraped()], latency=latency)
    assert [load.generation_tokens_per_s for load in seen.replicas] == [42.0]
    assert seen.generation_tokens_per_s == 42


def test_one_token_rate_that_is_none_makes_the_pools_missing_and_leaves_the_other_replicas() -> None:
    rows = [*engine(POD_A, running=4), *engine(POD_B, running=2)]
    seen = observe(replicas=rows, freshness=TWO_PODS, latency=[tokens(math.nan, POD_A), tokens(90.0, POD_B)])
    assert [load.generation_tokens_per_s for load in seen.replicas] == [Absent.MISSING, 90.0]
    assert seen.generation_tokens_per_s is Absent.MISSING
    assert has_note(seen, "vllm:generation_tokens_total", "nan")


def test_nobody_is_listed_without_the_replicas_query() -> None:
    seen = observe(replicas=PrometheusTimeoutError("slow"), freshness=TWO_PODS, latency=[tokens(90.0)])
    assert seen.replicas == ()
    assert seen.generation_tokens_per_s == 90


def test_loads_without_the_latency_query_have_no_token_rate() -> None:
    seen = observe(replicas=engine(running=4), freshness=[scraped()], latency=PrometheusTimeoutError("slow"))
    assert seen.replicas == (ReplicaLoad(POD_A, 4, 0, Absent.MISSING),)


def test_a_load_beyond_all_numbers_is_not_listed() -> None:
    seen = observe(replicas=engine(running=1.7e308, waiting=1.7e308), freshness=[scraped()])
    assert seen.replicas == ()


def test_the_preemptions_of_a_pool_do_not_depend_on_its_tokens() -> None:
    seen = observe(latency=[tokens(5.0), signal("preemptions", 2.0)], freshness=[scraped()], replicas=engine())
    assert (seen.preemptions, seen.generation_tokens_per_s) == (2, 5)
