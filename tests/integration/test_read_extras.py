"""Extras read back from a real Prometheus: what vLLM, its router, a gateway and the DCGM exporter really look like."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import TypeAlias

import pytest

from scaler.adapters.prometheus import Prometheus
from scaler.adapters.reader import MetricsReader, only
from scaler.model import (
    GATEWAY_ACTIVATION,
    ROUTER_ACTIVATION,
    Absent,
    Extra,
    Observation,
    PoolKey,
    PoolLocator,
    Reading,
    ReplicaLoad,
    Workload,
    WorkloadKind,
)
from scaler.promql import LabelNames, check_named_queries
from tests.prometheus_rows import has_note
from tests.scraped_pages import OTHER_POD, POD
from tests.scraped_prometheus import Scraped

MISSING, NO_TRAFFIC = Absent.MISSING, Absent.NO_TRAFFIC
LATENCIES = ("e2e_p95", "itl_p95", "queue_time_p95")
ENGINES = (*LATENCIES, "prompt_tokens", "rejection_rate")
# Long enough to hold all scrapes.
WINDOW_S = 300.0
# increase() extrapolates to the window's edges, but not by more than half a scrape interval.
EDGES = 1.1
QUERIES = {
    "waiting": "sum by (namespace, model_name) (vllm:num_requests_waiting)",
    "pods": "vllm:num_requests_waiting",
    "latency": "histogram_quantile(0.5, sum by (namespace, le) (rate(vllm:time_to_first_token_seconds_bucket[1m])))",
    "refused": 'sum by (namespace) (vllm:num_requests_waiting{job=~"(a|b"})',
}

Read: TypeAlias = Callable[..., Awaitable[Observation]]


async def value_of(read: Read, namespace: str, name: str, *, model: str) -> Reading:
    return (await read(namespace, model_name=model, extras=(name,))).extras[name].value


async def test_the_replicas_of_a_pool_with_their_own_loads_and_token_rates(read: Read) -> None:
    seen = await read("two-advancing", rate_window_s=WINDOW_S)
    first, second = seen.replicas
    assert (first.name, first.running, first.waiting) == (POD, 0, 0)
    assert (second.name, second.running, second.waiting) == (OTHER_POD, 4, 16)
    assert first.generation_tokens_per_s == pytest.approx(EDGES * 11_000 / WINDOW_S, rel=0.15)
    assert second.generation_tokens_per_s == pytest.approx(EDGES * 4_149 / WINDOW_S, rel=0.15)
    assert seen.generation_tokens_per_s == pytest.approx(
        sum(load.generation_tokens_per_s for load in seen.replicas)  # type: ignore[misc]  # both are numbers
    )


async def test_a_replica_that_two_jobs_scrape_produces_its_tokens_once(read: Read) -> None:
    (load,) = (await read("advancing", rate_window_s=WINDOW_S)).replicas
    assert load.generation_tokens_per_s == pytest.approx(EDGES * 11_000 / WINDOW_S, rel=0.15)


async def test_data_parallel_engines_are_one_replica(read: Read) -> None:
    assert (await read("dp")).replicas == (ReplicaLoad(POD, 8, 16, 0.0),)


async def test_further_latencies_of_requests_that_came_in_the_window(read: Read) -> None:
    extras = (await read("advancing", rate_window_s=WINDOW_S, extras=LATENCIES)).extras
    # Of 10 requests 5 took up to 20 s and all up to 30 s: 20 + 10 * (9.5 - 5) / 5.
    assert extras["e2e_p95"].value == pytest.approx(29)
    # Of 10 requests 9 waited up to 20 s and all up to 30 s: 20 + 10 * (9.5 - 9) / 1.
    assert extras["queue_time_p95"].value == pytest.approx(25)
    # Of 10990 gaps 9419 took up to 10 ms and 10834 up to 25 ms: 10 + 15 * (10440.5 - 9419) / 1415.
    assert extras["itl_p95"].value == pytest.approx(0.0208286, rel=1e-4)
    assert extras["e2e_p95"].support == pytest.approx(EDGES * 10, rel=0.15)
    assert extras["itl_p95"].support == pytest.approx(EDGES * 10_990, rel=0.15)


async def test_a_queue_time_within_the_first_bucket_reads_as_its_floor(read: Read) -> None:
    extras = (await read("quick", rate_window_s=WINDOW_S, extras=LATENCIES)).extras
    assert extras["queue_time_p95"].value == pytest.approx(0.285)
    assert extras["e2e_p95"].value == pytest.approx(5 + 5 * (4.75 - 1) / 4)


async def test_a_pool_without_traffic_has_no_latency_and_no_rates(read: Read) -> None:
    seen = await read("idle", extras=ENGINES)
    assert [seen.extras[name] for name in LATENCIES] == [Extra(NO_TRAFFIC, 0)] * 3
    assert [seen.extras[name].value for name in ("prompt_tokens", "rejection_rate")] == [0, 0]


async def test_an_engine_of_old_is_read_under_its_own_names(read: Read) -> None:
    seen = await read("old-release", rate_window_s=WINDOW_S, extras=ENGINES)
    assert seen.extras["itl_p95"].value == pytest.approx(0.0208286, rel=1e-4)
    assert seen.extras["prompt_tokens"].value == pytest.approx(EDGES * 538 / WINDOW_S, rel=0.15)
    assert seen.extras["rejection_rate"].value is MISSING
    assert has_note(seen, "rejection_rate is missing", "vllm:admission_rejections_total", "not exported")


async def test_prompt_tokens_of_one_engine_count_once_though_it_exports_them_twice(read: Read) -> None:
    seen = await read("advancing", rate_window_s=WINDOW_S, extras=("prompt_tokens",))
    assert seen.extras["prompt_tokens"].value == pytest.approx(EDGES * 538 / WINDOW_S, rel=0.15)


async def test_rejections_for_all_reasons_are_added_up(read: Read) -> None:
    seen = await read("rejecting", rate_window_s=WINDOW_S, extras=("rejection_rate",))
    assert seen.extras["rejection_rate"].value == pytest.approx(EDGES * (8 + 4) / WINDOW_S, rel=0.15)


async def test_restarts_are_the_resets_of_an_engines_counters(read: Read) -> None:
    async def restarts(namespace: str) -> Reading:
        seen = await read(namespace, extras=("restarts",), restart_window_s=WINDOW_S)
        return seen.extras["restarts"].value

    assert (await restarts("restarted"), await restarts("advancing")) == (1, 0)


async def test_gpus_of_pods_that_the_scrape_has_renamed(read: Read) -> None:
    assert (await read("gpus", extras=("gpu",))).extras["gpu"] == Extra(0.8, 0.5)


async def test_gpus_of_pods_whose_labels_the_scrape_honours(read: Read) -> None:
    assert (await read("gpus-honoured", extras=("gpu",))).extras["gpu"] == Extra(0.4, 0.75)


async def test_the_exporter_and_the_gpus_that_nobody_uses_are_nobodys(read: Read) -> None:
    for namespace, workload in (("gpus", "vllm-canary"), ("gpu-operator", "dcgm-exporter"), ("idle", "vllm")):
        seen = await read(namespace, workload=Workload(WorkloadKind.DEPLOYMENT, workload), extras=("gpu",))
        assert seen.extras["gpu"].value is MISSING
        assert has_note(seen, "gpu is missing")


class TestRouter:
    async def test_the_first_request_after_a_start_wakes_the_pool_though_nothing_rose(self, read: Read) -> None:
        assert await value_of(read, "routed", ROUTER_ACTIVATION, model="tiny-llama") == 1

    async def test_a_model_that_nobody_has_asked_for_waits_for_nothing(self, read: Read) -> None:
        assert await value_of(read, "routed", ROUTER_ACTIVATION, model="unheard-of") == 0

    async def test_what_came_before_the_window_does_not_wake(self, read: Read, scraped: Scraped) -> None:
        at = scraped.at("routed", 6) + 0.5
        seen = await read("routed", at=at, model_name="tiny-llama", rate_window_s=1.0, extras=(ROUTER_ACTIVATION,))
        assert seen.extras[ROUTER_ACTIVATION].value == 0

    @pytest.mark.parametrize(("model", "came"), [("steady", 3), ("quiet", 0), ("restarted", 2)])
    async def test_what_came_within_the_window_is_counted_over_a_restart_too(
        self, read: Read, scraped: Scraped, model: str, came: int
    ) -> None:
        at = scraped.at("routed", 5) + 0.5
        window_s = at - (scraped.at("routed", 2) + 0.5)
        seen = await read("routed", at=at, model_name=model, rate_window_s=window_s, extras=(ROUTER_ACTIVATION,))
        assert seen.extras[ROUTER_ACTIVATION].value == came

    async def test_a_namespace_without_a_router_is_missing(self, read: Read) -> None:
        assert await value_of(read, "idle", ROUTER_ACTIVATION, model="tiny-llama") is MISSING


class TestGateway:
    @pytest.mark.parametrize(("model", "queued"), [("tiny-llama", 3), ("tiny-qwen", 5), ("chat", 5), ("unheard-of", 0)])
    async def test_a_queue_that_is_exported_under_two_names_counts_once(
        self, read: Read, model: str, queued: int
    ) -> None:
        assert await value_of(read, "gated", GATEWAY_ACTIVATION, model=model) == queued

    async def test_a_picker_of_old_is_read_under_its_own_names(self, read: Read) -> None:
        assert await value_of(read, "gated-old", GATEWAY_ACTIVATION, model="tiny-llama") == 4
        assert await value_of(read, "gated-old", GATEWAY_ACTIVATION, model="unheard-of") == 0

    async def test_a_picker_without_flow_control_is_missing_and_says_what_to_do(self, read: Read) -> None:
        seen = await read("gated-off", model_name="tiny-llama", extras=(GATEWAY_ACTIVATION,))
        assert seen.extras[GATEWAY_ACTIVATION].value is MISSING
        assert has_note(seen, "turn its flow control on")

    async def test_a_picker_of_old_before_its_first_request_is_zero(self, read: Read) -> None:
        assert await value_of(read, "gated-early", GATEWAY_ACTIVATION, model="tiny-llama") == 0

    async def test_a_namespace_without_a_picker_is_missing(self, read: Read) -> None:
        assert await value_of(read, "idle", GATEWAY_ACTIVATION, model="tiny-llama") is MISSING


class TestNamedQueries:
    async def test_each_pool_takes_its_own_row(self, read: Read) -> None:
        check_named_queries({name: expr for name, expr in QUERIES.items() if name != "refused"})
        for namespace, waiting in (("load", 16), ("both", 16 + 12), ("idle", 0)):
            seen = await read(namespace, queries=QUERIES, model_name="tiny-llama", extras=("custom:waiting",))
            assert seen.extras["custom:waiting"] == Extra(waiting)

    async def test_a_row_of_another_model_or_of_nobody_is_not_the_pools(self, read: Read) -> None:
        for namespace, model in (("load", "tiny-lama"), ("nowhere", "tiny-llama")):
            seen = await read(namespace, queries=QUERIES, model_name=model, extras=("custom:waiting",))
            assert seen.extras["custom:waiting"].value is MISSING
            assert has_note(seen, "custom:waiting is missing", "no row")

    async def test_a_row_for_each_pod_is_ambiguous(self, read: Read) -> None:
        seen = await read("both", queries=QUERIES, model_name="tiny-llama", extras=("custom:pods",))
        assert seen.extras["custom:pods"].value is MISSING
        assert has_note(seen, "ambiguous", "2 rows")

    async def test_nan_is_no_traffic(self, read: Read) -> None:
        seen = await read("idle", queries=QUERIES, extras=("custom:latency",))
        assert seen.extras["custom:latency"].value is NO_TRAFFIC

    async def test_a_query_that_prometheus_refuses_leaves_the_other_readings(self, read: Read) -> None:
        names = ("custom:refused", "custom:waiting")
        seen = await read("load", queries=QUERIES, model_name="tiny-llama", extras=names)
        assert [seen.extras[name].value for name in names] == [MISSING, 16]
        assert seen.waiting == 16
        assert has_note(seen, "custom:refused is missing", "missing closing )")


async def test_pools_read_together_are_read_as_each_alone(prometheus: Prometheus) -> None:
    extras = tuple(sorted((*ENGINES, "gpu", "custom:waiting", "custom:latency", ROUTER_ACTIVATION, GATEWAY_ACTIVATION)))
    workload = Workload(WorkloadKind.DEPLOYMENT, "vllm")
    namespaces = ("idle", "advancing", "old-release", "both", "gpus", "gpus-honoured", "routed", "gated", "gated-old")
    locators = [
        PoolLocator(namespace, model, kind, rate_window_s=30.0, extras=extras)
        for namespace in namespaces
        for model, kind in (("tiny-llama", workload), ("tiny-llama", None), (None, workload))
    ]
    pools = {PoolKey(locator.namespace, "llama", f"{n:08x}"): locator for n, locator in enumerate(locators)}
    # Late enough for every scrape before it to be stored: all queries then see the same samples.
    at = time.time() - 2.0
    together = await MetricsReader(only(prometheus), LabelNames(), queries=QUERIES).observe(pools, at)
    each = await asyncio.gather(
        *(
            MetricsReader(only(prometheus), LabelNames(), queries=QUERIES).observe({key: locator}, at)
            for key, locator in pools.items()
        )
    )
    assert together == {key: seen for alone in each for key, seen in alone.items()}
    numbers = [
        extra for seen in together.values() for extra in seen.extras.values() if not isinstance(extra.value, Absent)
    ]
    assert len(numbers) > 40
