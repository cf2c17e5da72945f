"""The GPUs of a pool, from rows of the DCGM exporter with and without honoured labels."""

import math

import pytest

from scaler.errors import PrometheusTimeoutError
from scaler.model import Absent, Extra, PoolLocator
from scaler.promql import Sample
from tests.prometheus_rows import AT, POD_A, POD_B, POD_C, asking, engine, has_note, observe, scraped

UTIL, USED, FREE = "DCGM_FI_DEV_GPU_UTIL", "DCGM_FI_DEV_FB_USED", "DCGM_FI_DEV_FB_FREE"
MISSING = Absent.MISSING


def row(metric: str, value: float, pod: str = POD_A, gpu: str = "0", **labels: str) -> Sample:
    """A row where the scrape honours the exporter's labels."""
    common = {"__name__": metric, "namespace": "serving", "workload": "vllm", "pod": pod, "gpu": gpu}
    return Sample({**common, **labels}, value, AT)


def exported(metric: str, value: float, pod: str = POD_A, gpu: str = "0", **labels: str) -> Sample:
    """A row where it does not."""
    common = {"__name__": metric, "namespace": "serving", "workload": "vllm", "gpu": gpu}
    return Sample({**common, "exported_namespace": "serving", "exported_pod": pod, **labels}, value, AT)


def gpu_of(*rows: Sample) -> Extra:
    return observe(locator=asking("gpu"), extras={"gpu": rows}).extras["gpu"]


def test_utilisation_and_memory_are_the_means_of_the_gpus() -> None:
    rows = [
        *(row(UTIL, 100.0, POD_A, gpu="0"), row(USED, 60.0, POD_A, gpu="0"), row(FREE, 20.0, POD_A, gpu="0")),
        *(row(UTIL, 50.0, POD_A, gpu="1"), row(USED, 20.0, POD_A, gpu="1"), row(FREE, 60.0, POD_A, gpu="1")),
        *(row(UTIL, 0.0, POD_B, gpu="0"), row(USED, 80.0, POD_B, gpu="0"), row(FREE, 0.0, POD_B, gpu="0")),
    ]
    gpu = gpu_of(*rows)
    assert gpu.value == pytest.approx(0.5)
    assert gpu.support == pytest.approx(2 / 3)


def test_labels_that_the_scrape_renamed_are_read() -> None:
    assert gpu_of(exported(UTIL, 80.0), exported(USED, 3.0), exported(FREE, 1.0)) == Extra(0.8, 0.75)


def test_renamed_labels_win_where_both_are() -> None:
    assert gpu_of(exported(UTIL, 80.0), row(UTIL, 20.0)).value == 0.8


def test_a_gpu_that_two_jobs_scrape_counts_once() -> None:
    rows = [exported(UTIL, 80.0), exported(UTIL, 80.0), exported(UTIL, 20.0, gpu="1")]
    assert gpu_of(*rows).value == 0.5


def test_instances_of_a_partitioned_gpu_count_each() -> None:
    assert gpu_of(row(UTIL, 80.0, GPU_I_ID="1"), row(UTIL, 20.0, GPU_I_ID="2")).value == 0.5


def test_without_its_memory_a_gpus_utilisation_is_still_known() -> None:
    assert gpu_of(row(UTIL, 80.0)) == Extra(0.8, MISSING)


@pytest.mark.parametrize("value", [math.nan, math.inf, -1.0, 101.0, 9223372036854775794.0])
def test_a_utilisation_that_is_none_is_ignored(value: float) -> None:
    assert gpu_of(row(UTIL, value), row(UTIL, 40.0, gpu="1")).value == 0.4
    seen = observe(locator=asking("gpu"), extras={"gpu": [row(UTIL, value)]})
    assert seen.extras["gpu"].value is MISSING
    assert has_note(seen, "gpu is missing", UTIL, "deployment/vllm")


@pytest.mark.parametrize("used", [math.nan, math.inf, -1.0, 9223372036854775794.0])
def test_a_memory_that_is_none_is_ignored(used: float) -> None:
    assert gpu_of(row(UTIL, 40.0), row(USED, used), row(FREE, 1.0)) == Extra(0.4, MISSING)


def test_a_gpu_without_any_memory_has_no_share_in_use() -> None:
    assert gpu_of(row(UTIL, 40.0), row(USED, 0.0), row(FREE, 0.0)) == Extra(0.4, MISSING)


def test_no_rows_are_missing_with_the_likely_causes() -> None:
    seen = observe(locator=asking("gpu"))
    assert seen.extras["gpu"] == Extra(MISSING)
    assert has_note(seen, "gpu is missing", "namespace serving", "exporter is not scraped")


def test_the_gpus_of_less_than_half_of_the_replicas_say_nothing() -> None:
    fresh = [scraped(POD_A), scraped(POD_B), scraped(POD_C)]
    replicas = [*engine(POD_A), *engine(POD_B), *engine(POD_C)]
    one = observe(locator=asking("gpu"), freshness=fresh, replicas=replicas, extras={"gpu": [row(UTIL, 80.0)]})
    assert one.extras["gpu"].value is MISSING
    assert has_note(one, "gpu is missing", "only 1 of 3 replicas")
    rows = [row(UTIL, 80.0, POD_A), row(UTIL, 40.0, POD_B)]
    two = observe(locator=asking("gpu"), freshness=fresh, replicas=replicas, extras={"gpu": rows})
    assert two.extras["gpu"].value == pytest.approx(0.6)


def test_gpus_of_other_workloads_and_namespaces_are_not_the_pools() -> None:
    rows = [row(UTIL, 80.0, workload="vllm-canary"), row(UTIL, 80.0, namespace="elsewhere")]
    assert gpu_of(*rows).value is MISSING


def test_a_pool_without_a_workload_cannot_know_its_gpus() -> None:
    seen = observe(locator=asking("gpu", locator=PoolLocator("serving", "llama", None)))
    assert seen.extras["gpu"] == Extra(MISSING)
    assert has_note(seen, "gpu is missing", "names no workload")


def test_a_failed_query_is_said() -> None:
    seen = observe(locator=asking("gpu"), extras={"gpu": PrometheusTimeoutError("no answer in 10 s")})
    assert has_note(seen, "gpu is missing", "no answer in 10 s")
