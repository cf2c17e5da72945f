"""Rows as Prometheus answers them, and the observation that a pool's rows make."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

from scaler.errors import PrometheusError
from scaler.model import Observation, PoolKey, PoolLocator, Workload, WorkloadKind
from scaler.promql import Answer, LabelNames, Sample, plan

AT = 1_800_000_000.0
NAMES = LabelNames()
KEY = PoolKey("serving", "llama", "0badcafe")
LOCATOR = PoolLocator("serving", None, Workload(WorkloadKind.DEPLOYMENT, "vllm"))
POD_A = "vllm-7d4b9c5f6d-bbbbb"
POD_B = "vllm-7d4b9c5f6d-ccccc"
POD_C = "vllm-7d4b9c5f6d-ddddd"

RUNNING = "vllm:num_requests_running"
WAITING = "vllm:num_requests_waiting"
BY_REASON = "vllm:num_requests_waiting_by_reason"
KV = "vllm:kv_cache_usage_perc"
OLD_KV = "vllm:gpu_cache_usage_perc"
TTFT_COUNT = "vllm:time_to_first_token_seconds_count"


def gauge(metric: str, value: float, pod: str = POD_A, engine: str = "0", **labels: str) -> Sample:
    """A row of the replicas query."""
    common = {"namespace": "serving", "workload": "vllm", "instance": f"{pod}:8000"}
    return Sample({**common, "__name__": metric, "pod": pod, "engine": engine, **labels}, value, AT)


def engine(
    pod: str = POD_A,
    rank: str = "0",
    *,
    running: float | None = 0,
    waiting: float | None = 0,
    kv: float | None = 0,
    first_tokens: float = 9,
    **labels: str,
) -> list[Sample]:
    """The rows of one engine of a current vLLM; a gauge that is None is absent."""
    values = {RUNNING: running, WAITING: waiting, KV: kv, TTFT_COUNT: first_tokens}
    return [gauge(metric, value, pod, rank, **labels) for metric, value in values.items() if value is not None]


def scraped(pod: str = POD_A, age_s: float = 5.0, **labels: str) -> Sample:
    """A row of the freshness query."""
    common = {"namespace": "serving", "workload": "vllm", "pod": pod, "instance": f"{pod}:8000"}
    return Sample({**common, **labels}, AT - age_s, AT)


def signal(name: str, value: float, **labels: str) -> Sample:
    """A row of the latency query, or of an extra that engines export."""
    return Sample({"namespace": "serving", "workload": "vllm", "signal": name, **labels}, value, AT)


def tokens(value: float, pod: str = POD_A, **labels: str) -> Sample:
    """A row of the latency query with one replica's token rate."""
    return signal("generation_tokens", value, **{"pod": pod, "instance": f"{pod}:8000", **labels})


def count(metric: str, value: float, instance: str = "ksm-0") -> Sample:
    """A row of the workload query."""
    labels = {"__name__": metric, "namespace": "serving", "deployment": "vllm", "instance": instance}
    return Sample(labels, value, AT)


def counts(requested: float, ready: float, total: float, updated: float, instance: str = "ksm-0") -> list[Sample]:
    """What one kube-state-metrics says of the Deployment."""
    values = {
        "kube_deployment_spec_replicas": requested,
        "kube_deployment_status_replicas_ready": ready,
        "kube_deployment_status_replicas": total,
        "kube_deployment_status_replicas_updated": updated,
    }
    return [count(metric, value, instance) for metric, value in values.items()]


def counted(age_s: float = 5.0, instance: str = "ksm-0") -> Sample:
    """When kube-state-metrics was scraped."""
    labels = {"namespace": "serving", "deployment": "vllm", "instance": instance, "signal": "sample_time"}
    return Sample(labels, AT - age_s, AT)


def observe(
    *,
    locator: PoolLocator = LOCATOR,
    replicas: Sequence[Sample] | PrometheusError = (),
    freshness: Sequence[Sample] | PrometheusError = (),
    latency: Sequence[Sample] | PrometheusError = (),
    workload: Sequence[Sample] | PrometheusError = (),
    extras: Mapping[str, Sequence[Sample] | PrometheusError] = MappingProxyType({}),
    queries: Mapping[str, str] = MappingProxyType({}),
    names: LabelNames = NAMES,
) -> Observation:
    """The observation of one pool whose queries answered with these rows; ``extras`` are by the queries' names."""
    by_name = {"replicas": replicas, "freshness": freshness, "latency": latency, "workload": workload, **extras}
    read_plan = plan({KEY: locator}, names, queries)
    answers: dict[str, Answer] = {
        name: rows if isinstance(rows, PrometheusError) else tuple(rows) for name, rows in by_name.items()
    }
    return read_plan.observations({query: answers.get(query.name, ()) for query in read_plan.queries}, AT)[KEY]


def asking(*extras: str, locator: PoolLocator = LOCATOR) -> PoolLocator:
    """The pool, asking for extras."""
    return replace(locator, extras=tuple(sorted(extras)))


def has_note(seen: Observation, *words: str) -> bool:
    """Tell whether one of the notes has all of these words."""
    return any(all(word in note for word in words) for note in seen.notes)
