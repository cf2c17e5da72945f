"""The demo's metrics pages against a page captured from a real vLLM 0.32.0 under load."""

from pathlib import Path

import pytest
from prometheus_client import Metric
from prometheus_client.parser import text_string_to_metric_families

from scaler.demo.pages import deployment_page, replica_page
from scaler.sim.engine import Engine, EngineSpec
from scaler.sim.fleet import DeploymentStatus
from scaler.sim.request import Request

CAPTURE = Path(__file__).parents[2] / "data" / "vllm-captures" / "vllm_0.32.0_cpu_under_load.prom"
SPEC = EngineSpec(slots=2, kv_capacity_tokens=1000, step_s=0.1, step_per_sequence_s=0.0, prefill_tokens_per_s=1e6)


def families(text: str) -> dict[str, Metric]:
    # _created series are an option of the client; a scaler has no use for them.
    return {each.name: each for each in text_string_to_metric_families(text) if not each.name.endswith("_created")}


def page(engine: Engine) -> dict[str, Metric]:
    return families(replica_page(engine, model_name="demo/llama", process_started_at=1_700_000_000.0).decode())


def shape(family: Metric) -> set[tuple[str, ...]]:
    """Sample names with label names, and with label values where those are fixed by vLLM."""
    free = {"model_name", "engine"}
    return {
        (sample.name, *sorted(name if name in free else f"{name}={value}" for name, value in sample.labels.items()))
        for sample in family.samples
        if not sample.name.endswith("_created")
    }


@pytest.fixture
def loaded() -> Engine:
    engine = Engine(SPEC, name="pod", started_at=0.0)
    for index in range(5):
        engine.submit(Request(0.0, prompt_tokens=50, output_tokens=10 * (index + 1)), 0.0)
    engine.advance(3.05)
    return engine


def test_every_family_has_the_name_type_labels_and_buckets_of_the_real_one(loaded: Engine) -> None:
    real = families(CAPTURE.read_text(encoding="utf-8"))

    for name, family in page(loaded).items():
        assert name in real
        assert family.type == real[name].type
        assert shape(family) == shape(real[name])


def test_the_page_has_all_that_a_scaler_reads(loaded: Engine) -> None:
    assert set(page(loaded)) == {
        "process_start_time_seconds",
        "vllm:e2e_request_latency_seconds",
        "vllm:generation_tokens",
        "vllm:inter_token_latency_seconds",
        "vllm:kv_cache_usage_perc",
        "vllm:num_preemptions",
        "vllm:num_requests_running",
        "vllm:num_requests_waiting",
        "vllm:num_requests_waiting_by_reason",
        "vllm:prompt_tokens",
        "vllm:request_queue_time_seconds",
        "vllm:request_success",
        "vllm:time_to_first_token_seconds",
    }


def test_values_are_those_of_the_engine(loaded: Engine) -> None:
    seen = {
        (sample.name, sample.labels.get("reason") or sample.labels.get("finished_reason") or ""): sample.value
        for family in page(loaded).values()
        for sample in family.samples
        if not sample.name.endswith("_bucket")
    }

    assert seen["vllm:num_requests_running", ""] == loaded.running == 2
    assert seen["vllm:num_requests_waiting", ""] == seen["vllm:num_requests_waiting_by_reason", "capacity"] == 1
    assert seen["vllm:num_requests_waiting_by_reason", "deferred"] == 0
    assert seen["vllm:request_success_total", "length"] == loaded.stats.completed == 2
    assert seen["vllm:request_success_total", "stop"] == 0
    assert seen["vllm:time_to_first_token_seconds_count", ""] == 4
    assert seen["vllm:generation_tokens_total", ""] == loaded.stats.generation_tokens
    assert 0 < seen["vllm:kv_cache_usage_perc", ""] < 1
    assert seen["process_start_time_seconds", ""] == 1_700_000_000


def test_the_deployments_page_is_what_kube_state_metrics_shows() -> None:
    status = DeploymentStatus(spec_replicas=5, replicas=4, ready=3, generation=7)

    seen = families(deployment_page(status, namespace="demo", deployment="vllm").decode())

    assert {name: family.samples[0].value for name, family in seen.items()} == {
        "kube_deployment_spec_replicas": 5,
        "kube_deployment_status_replicas": 4,
        "kube_deployment_status_replicas_ready": 3,
        "kube_deployment_status_replicas_available": 3,
        "kube_deployment_status_replicas_unavailable": 1,
        "kube_deployment_status_replicas_updated": 4,
        "kube_deployment_metadata_generation": 7,
        "kube_deployment_status_observed_generation": 7,
    }
    assert all(
        sample.labels == {"namespace": "demo", "deployment": "vllm"}
        for family in seen.values()
        for sample in family.samples
    )
