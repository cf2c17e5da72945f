"""Observations read back from a real Prometheus that scrapes pages of a real vLLM, number by number."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import TypeAlias

import pytest

from scaler.adapters.prometheus import Prometheus
from scaler.adapters.reader import MetricsReader, only
from scaler.errors import PrometheusRejectedError
from scaler.model import Absent, LabelMatcher, Observation, PoolKey, PoolLocator, Workload, WorkloadKind
from scaler.promql import LabelNames
from scaler.promql.escape import literal_pattern, literal_replacement, quote
from tests.prometheus_rows import has_note
from tests.scraped_pages import LONG_NAME, OLD_S, POD, engine_pages

MISSING, NO_TRAFFIC = Absent.MISSING, Absent.NO_TRAFFIC
Read: TypeAlias = Callable[..., Awaitable[Observation]]


def pool(namespace: str, name: str = "vllm", kind: WorkloadKind = WorkloadKind.DEPLOYMENT) -> PoolLocator:
    return PoolLocator(namespace, None, Workload(kind, name), rate_window_s=30.0)


async def test_an_idle_server(read: Read) -> None:
    seen = await read("idle")
    assert (seen.running, seen.waiting, seen.kv_usage_ratios, seen.serving) == (0, 0, (0.0,), 1)
    assert (seen.ttft_p95_s, seen.ttft_samples) == (NO_TRAFFIC, 0)
    assert (seen.generation_tokens_per_s, seen.preemptions) == (0, 0)
    assert isinstance(seen.newest_sample_age_s, float)
    assert 0 <= seen.newest_sample_age_s < 10


async def test_a_server_under_load(read: Read) -> None:
    seen = await read("load")
    assert (seen.running, seen.waiting, seen.serving) == (4, 16, 1)
    assert seen.kv_usage_ratios == (0.0019540791402051783,)
    assert (seen.requested, seen.ready, seen.outdated) == (3, 2, 3)
    assert seen.notes == ()


async def test_two_data_parallel_engines(read: Read) -> None:
    seen = await read("dp")
    assert (seen.running, seen.waiting, seen.serving) == (8, 16, 1)
    assert seen.kv_usage_ratios == (0.005862237420615535,)


async def test_two_api_servers(read: Read) -> None:
    seen = await read("api-servers")
    assert (seen.running, seen.waiting, seen.kv_usage_ratios, seen.serving) == (0, 0, (0.0,), 1)


async def test_a_server_without_statistics_is_missing_and_not_idle(read: Read) -> None:
    seen = await read("no-stats")
    assert (seen.running, seen.waiting, seen.kv_usage_ratios, seen.serving) == (MISSING, MISSING, MISSING, 0)
    assert (seen.ttft_p95_s, seen.ttft_samples, seen.newest_sample_age_s) == (MISSING, MISSING, MISSING)
    assert has_note(seen, "no vllm: series", "--disable-log-stats")


async def test_a_request_deferred_for_its_lora_adapter_does_not_wait_for_replicas(read: Read) -> None:
    seen = await read("lora")
    assert (seen.running, seen.waiting) == (4, 11)


async def test_counters_that_advance_between_scrapes_count_once_however_many_jobs_scrape_them(read: Read) -> None:
    window_s = 300.0
    seen = await read("advancing", rate_window_s=window_s)
    # Of 10 first tokens 8 came within 20 s and all within 40 s: 20 + 20 * (9.5 - 8) / 2.
    assert seen.ttft_p95_s == pytest.approx(35)
    # increase() extrapolates to the window's edges, but not by more than half a scrape interval.
    assert seen.ttft_samples == pytest.approx(1.1 * 10, rel=0.15)
    assert seen.preemptions == pytest.approx(1.1 * 12, rel=0.15)
    assert seen.generation_tokens_per_s == pytest.approx(1.1 * 11_000 / window_s, rel=0.15)
    assert seen.running == 0


async def test_a_replica_that_went_away_is_gone_at_the_next_scrape(read: Read) -> None:
    seen = await read("gone")
    assert (seen.serving, seen.running) == (0, MISSING)


async def test_negative_kv_usage_is_clamped(read: Read) -> None:
    seen = await read("negative")
    assert seen.kv_usage_ratios == (0.0,)
    assert has_note(seen, "clamped", "-0.00195408", POD)


async def test_the_old_name_of_kv_usage(read: Read) -> None:
    assert (await read("old-name")).kv_usage_ratios == (0.0019540791402051783,)


async def test_two_deployments_of_one_model_in_one_namespace(read: Read) -> None:
    stable = await read("two")
    canary = await read("two", workload=Workload(WorkloadKind.DEPLOYMENT, "vllm-canary"))
    assert (stable.waiting, stable.serving) == (16, 1)
    assert (canary.waiting, canary.serving) == (11, 1)


async def test_a_model_without_a_deployment_is_all_its_replicas_of_the_namespace(read: Read) -> None:
    seen = await read("two", workload=None, model_name="tiny-llama")
    assert (seen.running, seen.waiting, seen.serving) == (8, 27, 2)
    assert (seen.requested, seen.notes) == (MISSING, ())


async def test_another_model_of_the_deployment_is_not_counted(read: Read) -> None:
    seen = await read("load", model_name="tiny-lama")
    assert (seen.serving, seen.requested) == (0, 3)
    assert has_note(seen, "model tiny-lama", "deployment vllm")


async def test_two_replicas_are_added_up(read: Read) -> None:
    seen = await read("both")
    assert (seen.running, seen.waiting, seen.serving) == (8, 27, 2)
    assert seen.kv_usage_ratios == (0.0019540791402051783, 0.0039081582804103565)


async def test_a_routers_series_of_the_same_name_are_not_counted(read: Read) -> None:
    seen = await read("router", workload=None, model_name="tiny-llama")
    assert (seen.running, seen.serving) == (4, 1)
    router_alone = await read("router", workload=Workload(WorkloadKind.DEPLOYMENT, "vllm-router"))
    assert (router_alone.running, router_alone.serving) == (MISSING, 0)


async def test_a_replica_whose_samples_are_old_does_not_count(read: Read) -> None:
    seen = await read("stale")
    assert (seen.running, seen.waiting, seen.serving) == (4, 11, 1)
    everyone = await read("stale", stale_after_s=OLD_S + 90)
    assert (everyone.running, everyone.waiting, everyone.serving) == (8, 27, 2)


async def test_replicas_whose_samples_are_all_old_serve_no_more(read: Read) -> None:
    seen = await read("all-stale")
    assert (seen.running, seen.serving) == (MISSING, 0)
    assert seen.newest_sample_age_s == pytest.approx(OLD_S, abs=60)
    assert has_note(seen, "1 replicas report", "old")


async def test_a_deployment_whose_pods_have_cut_names(read: Read) -> None:
    seen = await read("long", workload=Workload(WorkloadKind.DEPLOYMENT, LONG_NAME))
    assert (seen.running, seen.waiting, seen.serving) == (4, 16, 1)
    assert (seen.ttft_p95_s, seen.ttft_samples) == (NO_TRAFFIC, 0)


@pytest.mark.parametrize("kind", [WorkloadKind.STATEFUL_SET, WorkloadKind.LEADER_WORKER_SET])
async def test_numbered_pods(read: Read, kind: WorkloadKind) -> None:
    seen = await read("numbered", workload=Workload(kind, "vllm"))
    assert (seen.running, seen.waiting, seen.serving) == (8, 27, 2)
    counts = (4, 2, 0) if kind is WorkloadKind.STATEFUL_SET else (MISSING, MISSING, MISSING)
    assert (seen.requested, seen.ready, seen.outdated) == counts


async def test_counts_of_a_kube_state_metrics_that_is_gone_are_missing(read: Read) -> None:
    seen = await read("idle")
    assert (seen.requested, seen.ready, seen.outdated) == (MISSING, MISSING, MISSING)
    assert has_note(seen, "kube-state-metrics is no longer scraped")


async def test_a_further_matcher_narrows_a_pool(read: Read) -> None:
    seen = await read("both", matchers=(LabelMatcher("pod", "!~", ".*-b+"),))
    assert (seen.waiting, seen.serving) == (11, 1)


async def test_a_matcher_that_prometheus_refuses_is_said_and_nothing_is_taken_for_zero(read: Read) -> None:
    seen = await read("load", matchers=(LabelMatcher("job", "=~", "("),))
    assert (seen.running, seen.serving, seen.requested) == (MISSING, MISSING, 3)
    assert has_note(seen, "missing closing )")


async def test_a_window_that_is_too_short_for_two_scrapes_is_said(read: Read) -> None:
    seen = await read("load", rate_window_s=0.3)
    assert (seen.running, seen.ttft_p95_s, seen.ttft_samples) == (4, MISSING, MISSING)
    assert has_note(seen, "fewer than two scrapes within the rate window of 0.3 s")


async def test_pools_read_together_are_read_as_each_alone(prometheus: Prometheus) -> None:
    names = ["vllm", "vllm-canary", LONG_NAME]
    locators = [pool(namespace, name) for namespace, _ in engine_pages() for name in names if namespace]
    locators += [pool("numbered", kind=WorkloadKind.STATEFUL_SET), PoolLocator("two", "tiny-llama", None)]
    locators += [replace(pool("load"), model_name="tiny-llama"), replace(pool("dp"), model_name="tiny-llama")]
    pools = {PoolKey(locator.namespace, "llama", f"{n:08x}"): locator for n, locator in enumerate(locators)}
    # Late enough for every scrape before it to be stored: all queries then see the same samples.
    at = time.time() - 2.0
    together = await MetricsReader(only(prometheus), LabelNames()).observe(pools, at)
    each = await asyncio.gather(
        *(MetricsReader(only(prometheus), LabelNames()).observe({key: locator}, at) for key, locator in pools.items())
    )
    assert together == {key: seen for alone in each for key, seen in alone.items()}
    assert sum(seen.serving == 1 for seen in together.values()) > 10


@pytest.mark.parametrize(
    "text",
    ['"', "\\", '"} or vector(1) #', "\n\r\t\0", "a|b.*c(d)[e]{1,2}^$", "$1 ${pod} $$", "\ufffd", "é漢😀", "'`"],
)
async def test_any_text_reaches_prometheus_as_it_is(prometheus: Prometheus, text: str) -> None:
    labelled = f'label_replace(vector(1),"text",{quote(literal_replacement(text))},"","")'
    matched = f'label_replace({labelled},"same","yes","text",{quote(literal_pattern(text))})'
    (sample,) = await prometheus.query(matched, time.time())
    assert (sample.labels["text"], sample.labels["same"]) == (text, "yes")


async def test_what_prometheus_says_of_a_wrong_query_is_passed_on(prometheus: Prometheus) -> None:
    with pytest.raises(PrometheusRejectedError, match=r"HTTP 400: bad_data: .*parse error"):
        await prometheus.query("sum(", time.time())
