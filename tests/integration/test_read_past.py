"""A range of ticks, read back from a real Prometheus, is what instant queries would have seen at each of them."""

from dataclasses import replace

import pytest

from scaler.adapters.prometheus import Prometheus
from scaler.adapters.reader import MetricsReader, only
from scaler.model import PoolKey, PoolLocator, Workload, WorkloadKind
from scaler.promql import LabelNames
from tests.scraped_pages import LONG_NAME, engine_pages, front_pages
from tests.scraped_prometheus import SCRAPES, Scraped

EXTRAS = (
    "activation:custom:depth",
    "activation:gateway",
    "activation:router",
    "custom:depth",
    "e2e_p95",
    "gpu",
    "itl_p95",
    "preemption_rate",
    "prompt_tokens",
    "queue_time_p95",
    "rejection_rate",
)
QUERIES = {"depth": "sum by (namespace, pod) (vllm:num_requests_waiting)"}


def every_pool() -> dict[PoolKey, PoolLocator]:
    """Every kind of pool that the pages have, and one that they have not."""
    deployment = PoolLocator("", None, Workload(WorkloadKind.DEPLOYMENT, "vllm"), rate_window_s=4.0)
    of_model = replace(deployment, model_name="tiny-llama")
    spaces = {namespace for namespace, _ in engine_pages() | front_pages() if namespace} | {"gpus", "nowhere"}
    locators = [replace(one, namespace=namespace) for namespace in sorted(spaces) for one in (deployment, of_model)]
    locators += [
        replace(deployment, namespace="long", workload=Workload(WorkloadKind.DEPLOYMENT, LONG_NAME)),
        replace(deployment, namespace="numbered", workload=Workload(WorkloadKind.STATEFUL_SET, "vllm")),
        replace(of_model, namespace="two", workload=None),
    ]
    with_extras = ("load", "routed", "gated", "advancing", "rejecting")
    locators += [replace(of_model, namespace=namespace, extras=EXTRAS) for namespace in with_extras]
    return {PoolKey(locator.namespace, "llama", f"{n:08x}"): locator for n, locator in enumerate(locators)}


@pytest.mark.parametrize("step_s", [1.0, 0.7])
async def test_a_range_of_ticks_is_what_instant_queries_see_at_each(
    scraped: Scraped, prometheus: Prometheus, step_s: float
) -> None:
    reader, pools = MetricsReader(only(prometheus), LabelNames(), queries=QUERIES), every_pool()
    # From before the first scrape, over the changes of pages, to what every target is known to have been scraped for.
    last = scraped.at("advancing", SCRAPES) - 0.5
    ticks = [round(last + number * step_s, 3) for number in range(-15, 1)]
    past = await reader.observe_range(pools, ticks)
    assert past.failures == ()
    assert len(past.observations) == len(ticks)
    for at, seen in zip(ticks, past.observations, strict=True):
        assert seen == await reader.observe(pools, at)
    changed = {repr(seen[key].running) + repr(seen[key].ttft_samples) for seen in past.observations for key in pools}
    assert len(changed) > 5


async def test_a_range_is_the_same_read_in_parts(scraped: Scraped, prometheus: Prometheus) -> None:
    tight = Prometheus(scraped.url, timeout_s=30.0, concurrency=4, max_response_bytes=100_000)
    try:
        last = scraped.at("advancing", SCRAPES)
        ticks = [last - 10 + number for number in range(11)]
        whole = await MetricsReader(only(prometheus), LabelNames()).observe_range(every_pool(), ticks)
        parts = await MetricsReader(only(tight), LabelNames()).observe_range(every_pool(), ticks)
    finally:
        tight.close()
    assert parts == whole
