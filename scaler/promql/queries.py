"""The four queries. Each reads many pools at once and leaves one group of rows for each of them.

Pods are not matched by name but grouped by the workload that their name gives, and whoever has the answer drops what
belongs to no pool: Prometheus runs a pattern of pod names on every pod name that it knows. Measured on 2.42 with
50 000 pods, 1000 names in a pattern took 3 s, the same rows without the pattern 0.05 s.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from scaler.model import LabelMatcher, PoolLocator
from scaler.promql.batches import MAX_NAMES, Identity
from scaler.promql.engines import VLLM
from scaler.promql.escape import matcher_text, one_of
from scaler.promql.query import LabelNames, Query
from scaler.promql.workloads import WORKLOAD_LABEL, PodPattern, WorkloadSeries, pod_pattern

REPLICAS: Final = "replicas"
FRESHNESS: Final = "freshness"
LATENCY: Final = "latency"
WORKLOAD: Final = "workload"

METRIC_LABEL: Final = "__name__"
SIGNAL_LABEL: Final = "signal"
"""Label that tells the parts of a union apart: ``or`` looks at all labels but the metric's name."""
KSM_NAMESPACE_LABEL: Final = "namespace"
"""Label of kube-state-metrics with the object's namespace."""

FRESHNESS_POOLS: Final = 10_000
"""Pools of one freshness query: it has one row for each replica, where the replicas query has five."""
_FEWEST_LATENCY_POOLS: Final = 250
_MOST_LATENCY_POOLS: Final = 2500
_SIDE_BY_SIDE: Final = 4  # as many as `query_concurrency` is by default

TTFT_P95: Final = "ttft_p95"
TTFT_SAMPLES: Final = "ttft_samples"
GENERATION_TOKENS: Final = "generation_tokens"
PREEMPTIONS: Final = "preemptions"
SAMPLE_TIME: Final = "sample_time"


@dataclass(frozen=True, slots=True)
class EngineShape:
    """What the engine series of several pools have in common, so that one query reads them.

    Args:
        names_model: Whether the pools name their model; else all models of the workload count.
        pods: How pods are told apart by workload; None when the pools name none.
        matchers: Further conditions.
    """

    names_model: bool
    pods: PodPattern | None
    matchers: tuple[LabelMatcher, ...]

    def identity_labels(self, names: LabelNames) -> tuple[str, ...]:
        """Return the labels of a row that say which pool it is of, in the order of an identity."""
        labels = [names.namespace]
        if self.names_model:
            labels.append(VLLM.model_label)
        if self.pods is not None:
            labels.append(WORKLOAD_LABEL)
        return tuple(labels)

    def scope(self, identities: Sequence[Identity], names: LabelNames) -> str:
        """Write the matchers that hold for the series of some pools, and for few others."""
        parts = [one_of(names.namespace, (identity[0] for identity in identities))]
        if self.names_model and len(identities) <= MAX_NAMES:
            parts.append(one_of(VLLM.model_label, (identity[1] for identity in identities)))
        parts += VLLM.not_an_engine
        parts += map(matcher_text, self.matchers)
        return ",".join(parts)

    def rows(self, aggregation: str, vector: str, names: LabelNames, *labels: str) -> str:
        """Write one row for each pod, and for each of ``labels``, with the workload's name as a label.

        The aggregation comes before the new label: no label of a target can then collide with ours.
        """
        model = (VLLM.model_label,) if self.names_model else ()
        rows = f"{aggregation} by ({','.join((names.namespace, *model, names.pod, *labels))}) ({vector})"
        if self.pods is None:
            return rows
        return self.pods.with_workload(rows, names.pod)

    def total(self, vector: str, names: LabelNames, *labels: str) -> str:
        """Add up the engines of each pool, or of each of its ``labels``.

        Of several series of one engine the greatest counts: a pod that two jobs scrape must not count twice.
        """
        rows = self.rows("max", vector, names, names.instance, VLLM.engine_label)
        return f"sum by ({','.join((*self.identity_labels(names), *labels))}) ({rows})"

    def p95(self, buckets: str, names: LabelNames) -> str:
        """Write each pool's P95 of a histogram, from the rates of its buckets.

        Counting a pod twice does not move a quantile, and buckets are by far the most series, so this is a plain sum.
        """
        by_pool = ",".join((*self.identity_labels(names), "le"))
        return f"histogram_quantile(0.95,sum by ({by_pool}) ({self.rows('sum', buckets, names, 'le')}))"


def engine_shape(locator: PoolLocator) -> tuple[EngineShape, Identity]:
    """Return what a pool's queries on engines have in common with other pools', and what tells it apart."""
    identity = [locator.namespace]
    if locator.model_name is not None:
        identity.append(locator.model_name)
    if locator.workload is not None:
        identity.append(locator.workload.name)
    matchers = sorted(set(locator.matchers), key=lambda matcher: (matcher.label, matcher.operator, matcher.value))
    pods = None if locator.workload is None else pod_pattern(locator.workload)
    return EngineShape(locator.model_name is not None, pods, tuple(matchers)), tuple(identity)


def replicas_query(shape: EngineShape, names: LabelNames, identities: Sequence[Identity]) -> Query:
    """Ask for every engine's gauges, a row for each engine, and for its count of first tokens."""
    metrics = (VLLM.running, VLLM.waiting, VLLM.waiting_by_reason, *VLLM.kv_usage, VLLM.ttft_count)
    reasons = one_of(VLLM.reason_label, ("", VLLM.deferred_reason))
    vector = f"{{{one_of(METRIC_LABEL, metrics)},{reasons},{shape.scope(identities, names)}}}"
    labels = (names.instance, METRIC_LABEL, VLLM.engine_label, VLLM.reason_label)
    return Query(REPLICAS, shape.rows("max", vector, names, *labels))


def freshness_query(shape: EngineShape, names: LabelNames, identities: Sequence[Identity]) -> Query:
    """Ask when each replica was last scraped: the Unix time of its newest count of first tokens."""
    vector = f"timestamp({VLLM.ttft_count}{{{shape.scope(identities, names)}}})"
    return Query(FRESHNESS, shape.rows("max", vector, names, names.instance))


def latency_query(shape: EngineShape, rate_window_s: float, names: LabelNames, identities: Sequence[Identity]) -> Query:
    """Ask for what happened within the rate window: a row for each pool and signal, and for each replica's tokens."""
    window = f"{{{shape.scope(identities, names)}}}[{duration(rate_window_s)}]"
    signals = {
        TTFT_P95: shape.p95(f"rate({VLLM.ttft_bucket}{window})", names),
        TTFT_SAMPLES: shape.total(f"increase({VLLM.ttft_count}{window})", names),
        GENERATION_TOKENS: shape.total(f"rate({VLLM.generation_tokens}{window})", names, names.pod, names.instance),
        PREEMPTIONS: shape.total(f"increase({VLLM.preemptions}{window})", names),
    }
    return Query(LATENCY, union(signals))


def workload_query(series: WorkloadSeries, names: LabelNames, identities: Sequence[Identity]) -> Query:
    """Ask kube-state-metrics for replica counts, a row for each of its instances, and when they were scraped."""
    scope = one_of(KSM_NAMESPACE_LABEL, (namespace for namespace, _ in identities))
    if len(identities) <= MAX_NAMES:
        scope += f",{one_of(series.label, (name for _, name in identities))}"
    metrics = one_of(METRIC_LABEL, (series.requested, series.ready, series.total, series.updated))
    labels = f"{KSM_NAMESPACE_LABEL},{series.label},{names.instance}"
    counts = f"max by ({METRIC_LABEL},{labels}) ({{{metrics},{scope}}})"
    scraped = f"max by ({labels}) (timestamp({series.requested}{{{scope}}}))"
    return Query(WORKLOAD, f"{counts} or {_labelled(SAMPLE_TIME, scraped)}")


def latency_pools(pools: int) -> int:
    """Return how many of so many pools one latency query may be for.

    Prometheus evaluates a query on one core, and this one is by far the dearest: for 250 pools with 4 replicas each it
    took 1 s (2.42, 23 000 series of buckets). So more pools are spread over as many queries as run side by side.
    """
    return min(_MOST_LATENCY_POOLS, max(_FEWEST_LATENCY_POOLS, math.ceil(pools / _SIDE_BY_SIDE)))


def duration(seconds: float) -> str:
    """Write a duration as PromQL takes it: 60.0 -> "60000ms"."""
    return f"{round(seconds * 1000)}ms"


def union(signals: Mapping[str, str]) -> str:
    """Write one vector of several, whose rows say by a label which they are of."""
    return " or ".join(_labelled(signal, vector) for signal, vector in signals.items())


def _labelled(signal: str, vector: str) -> str:
    return f'label_replace({vector},"{SIGNAL_LABEL}","{signal}","","")'
