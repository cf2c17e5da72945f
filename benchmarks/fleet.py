"""The pools of the benchmarks, and the rows that Prometheus would answer about them.

All pools have one shape: a Deployment with two replicas, a model's name, default settings. Twenty share a namespace.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from scaler.model import WorkloadKind
from scaler.promql.queries import GENERATION_TOKENS, PREEMPTIONS, SAMPLE_TIME, TTFT_P95, TTFT_SAMPLES
from scaler.promql.workloads import WORKLOAD_SERIES

POOLS_PER_NAMESPACE: Final = 20
REPLICAS: Final = 2
AT: Final = "@at@"
"""Stands for the instant of the evaluation."""
SCRAPED: Final = "@scraped@"
"""Stands for the instant of the newest scrape."""
RUNNING: Final = "@running@"
"""Stands for a number that differs from tick to tick."""

_SERIES: Final = WORKLOAD_SERIES[WorkloadKind.DEPLOYMENT]


@dataclass(frozen=True, slots=True)
class BenchPool:
    """One pool: where it is, and what it is called."""

    namespace: str
    deployment: str
    model: str

    @property
    def name(self) -> str:
        """The ScaledObject's name."""
        return self.deployment

    def metadata(self) -> dict[str, str]:
        """Return the trigger's metadata as KEDA sends it."""
        return {
            "scalerAddress": "scaler.keda:50051",
            "deployment": self.deployment,
            "modelName": self.model,
            "slotsPerReplica": "16",
            "maxReplicas": "20",
        }

    def rows(self, query: str) -> str:
        """Return the pool's elements of an answer as JSON, one after the other with commas between."""
        return ",".join(getattr(self, f"_{query}")())

    def _pods(self) -> Iterator[str]:
        for number in range(REPLICAS):
            pod = f"{self.deployment}-7d4b9c5f6d-bbbb{'bcdfghjk'[number]}"
            yield f'"pod":"{pod}","instance":"{pod}.{self.namespace}:8000"'

    def _owner(self) -> str:
        return f'"namespace":"{self.namespace}","model_name":"{self.model}","workload":"{self.deployment}"'

    def _replicas(self) -> Iterator[str]:
        values = {
            "vllm:num_requests_running": RUNNING,
            "vllm:num_requests_waiting": "0",
            "vllm:kv_cache_usage_perc": "0.41",
            "vllm:time_to_first_token_seconds_count": "51234",
        }
        for pod in self._pods():
            labels = f'{self._owner()},{pod},"engine":"0"'
            for metric, value in values.items():
                yield _element(f'"__name__":"{metric}",{labels}', value)
            deferred = f'"__name__":"vllm:num_requests_waiting_by_reason",{labels},"reason":"deferred"'
            yield _element(deferred, "0")

    def _freshness(self) -> Iterator[str]:
        for pod in self._pods():
            yield _element(f"{self._owner()},{pod}", SCRAPED)

    def _latency(self) -> Iterator[str]:
        for signal, value in ((TTFT_P95, "0.2375"), (TTFT_SAMPLES, "341.33"), (PREEMPTIONS, "0")):
            yield _element(f'{self._owner()},"signal":"{signal}"', value)
        for pod in self._pods():
            yield _element(f'{self._owner()},{pod},"signal":"{GENERATION_TOKENS}"', "1523.3333333333333")

    def _workload(self) -> Iterator[str]:
        labels = f'"namespace":"{self.namespace}","deployment":"{self.deployment}","instance":"ksm-0:8080"'
        for metric, value in (
            (_SERIES.requested, REPLICAS),
            (_SERIES.ready, REPLICAS),
            (_SERIES.total, REPLICAS),
            (_SERIES.updated, REPLICAS),
        ):
            yield _element(f'"__name__":"{metric}",{labels}', str(value))
        yield _element(f'{labels},"signal":"{SAMPLE_TIME}"', SCRAPED)


def bench_pools(count: int) -> list[BenchPool]:
    """Return ``count`` pools, twenty to a namespace."""
    return [
        BenchPool(
            f"team-{number // POOLS_PER_NAMESPACE:03d}",
            f"vllm-{number % POOLS_PER_NAMESPACE:02d}",
            f"org/model-{number % 97:02d}-instruct",
        )
        for number in range(count)
    ]


def _element(labels: str, value: str) -> str:
    return f'{{"metric":{{{labels}}},"value":[{AT},"{value}"]}}'
