"""Metrics pages as Prometheus scrapes them: a vLLM replica's, and kube-state-metrics' for the Deployment."""

from collections.abc import Iterator, Sequence
from typing import Final

from prometheus_client import Metric, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.registry import Collector, CollectorRegistry

from scaler.sim.engine import Engine
from scaler.sim.fleet import DeploymentStatus
from scaler.sim.histogram import Histogram

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
# The replicas of the demo run one engine each (no data parallelism).
_ENGINE: Final = "0"
_FINISHED_REASONS: Final = ("stop", "length", "abort", "error", "repetition")


class _Families(Collector):
    """Families that are there already, for the client's text format."""

    def __init__(self, families: Sequence[Metric]) -> None:
        self._families = families

    def collect(self) -> Iterator[Metric]:
        yield from self._families


def replica_page(engine: Engine, *, model_name: str, process_started_at: float) -> bytes:
    """Render a replica's /metrics as vLLM 0.32 does, in what a scaler reads of it.

    Args:
        engine: The replica's engine.
        model_name: The served model's name, a label of every series.
        process_started_at: When the replica's process started, in Unix seconds.
    """
    stats = engine.stats

    def gauge(name: str, text: str, value: float) -> GaugeMetricFamily:
        family = GaugeMetricFamily(f"vllm:{name}", text, labels=["engine", "model_name"])
        family.add_metric([_ENGINE, model_name], value)
        return family

    def counter(name: str, text: str, value: float) -> CounterMetricFamily:
        family = CounterMetricFamily(f"vllm:{name}", text, labels=["engine", "model_name"])
        family.add_metric([_ENGINE, model_name], value)
        return family

    def histogram(name: str, text: str, values: Histogram) -> HistogramMetricFamily:
        family = HistogramMetricFamily(f"vllm:{name}", text, labels=["engine", "model_name"])
        bounds = (*(str(bound) for bound in values.bounds), "+Inf")
        family.add_metric([_ENGINE, model_name], list(zip(bounds, values.cumulative(), strict=True)), values.total)
        return family

    by_reason = GaugeMetricFamily(
        "vllm:num_requests_waiting_by_reason",
        "Number of waiting requests by reason.",
        labels=["engine", "model_name", "reason"],
    )
    by_reason.add_metric([_ENGINE, model_name, "capacity"], engine.waiting)
    by_reason.add_metric([_ENGINE, model_name, "deferred"], 0)
    success = CounterMetricFamily(
        "vllm:request_success",
        "Count of successfully processed requests.",
        labels=["engine", "finished_reason", "model_name"],
    )
    for reason in _FINISHED_REASONS:
        success.add_metric([_ENGINE, reason, model_name], stats.completed if reason == "length" else 0)
    return _render(
        GaugeMetricFamily(
            "process_start_time_seconds", "Start time of the process since unix epoch in seconds.", process_started_at
        ),
        gauge("num_requests_running", "Number of requests in model execution batches.", engine.running),
        gauge("num_requests_waiting", "Number of requests waiting to be processed.", engine.waiting),
        by_reason,
        gauge("kv_cache_usage_perc", "KV-cache usage. 1 means 100 percent usage.", engine.kv_usage_ratio),
        counter("num_preemptions", "Cumulative number of preemption from the engine.", stats.preemptions),
        counter("prompt_tokens", "Number of prefill tokens processed.", stats.prompt_tokens),
        counter("generation_tokens", "Number of generation tokens processed.", stats.generation_tokens),
        success,
        histogram(
            "time_to_first_token_seconds", "Histogram of time to first token in seconds.", stats.time_to_first_token
        ),
        histogram(
            "inter_token_latency_seconds", "Histogram of inter-token latency in seconds.", stats.inter_token_latency
        ),
        histogram("e2e_request_latency_seconds", "Histogram of e2e request latency in seconds.", stats.e2e_latency),
        histogram(
            "request_queue_time_seconds", "Histogram of time spent in WAITING phase for request.", stats.queue_time
        ),
    )


def deployment_page(status: DeploymentStatus, *, namespace: str, deployment: str) -> bytes:
    """Render what kube-state-metrics says of one Deployment that is not in a rollout."""
    values = {
        "kube_deployment_spec_replicas": ("Number of desired pods for a deployment.", status.spec_replicas),
        "kube_deployment_status_replicas": ("The number of replicas per deployment.", status.replicas),
        "kube_deployment_status_replicas_ready": ("The number of ready replicas per deployment.", status.ready),
        "kube_deployment_status_replicas_available": ("The number of available replicas per deployment.", status.ready),
        "kube_deployment_status_replicas_unavailable": (
            "The number of unavailable replicas per deployment.",
            status.replicas - status.ready,
        ),
        "kube_deployment_status_replicas_updated": (
            "The number of updated replicas per deployment.",
            status.replicas,
        ),
        "kube_deployment_metadata_generation": (
            "Sequence number representing a specific generation of the desired state.",
            status.generation,
        ),
        "kube_deployment_status_observed_generation": (
            "The generation observed by the deployment controller.",
            status.generation,
        ),
    }
    families = []
    for name, (text, value) in values.items():
        family = GaugeMetricFamily(name, text, labels=["namespace", "deployment"])
        family.add_metric([namespace, deployment], value)
        families.append(family)
    return _render(*families)


def _render(*families: Metric) -> bytes:
    registry = CollectorRegistry()
    registry.register(_Families(families))
    return generate_latest(registry)
