"""Pools -> few queries, and the way back from their answers to the pools.

Pools whose series differ only in namespace, model and workload name have one shape and are read together, so a tick
costs by the signals and the shapes, not by the pools. A batch is a query with the pools that it is for.
"""

import math
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final, TypeAlias, TypeVar

from scaler.errors import PrometheusError
from scaler.model import Observation, PoolKey, PoolLocator
from scaler.promql.assemble import Evidence, assemble
from scaler.promql.escape import matcher_problem
from scaler.promql.queries import (
    FRESHNESS,
    KSM_NAMESPACE_LABEL,
    LATENCY,
    REPLICAS,
    WORKLOAD,
    EngineShape,
    freshness_query,
    latency_query,
    replicas_query,
    workload_query,
)
from scaler.promql.query import Answer, LabelNames, Query, Sample
from scaler.promql.workloads import WORKLOAD_SERIES, WorkloadSeries, pod_pattern

# Prometheus evaluates a query on one core. The latency query of 250 pools with 4 replicas each took 1 s (2.42, 23 000
# series of buckets); more pools become more queries, which run side by side.
MAX_POOLS: Final = 250
# Bytes of one expression, far below any limit on forms (10 MB in Prometheus): names can be long.
MAX_EXPR_BYTES: Final = 32_000

Identity: TypeAlias = tuple[str, ...]
"""Namespace, then model, then workload, as far as the shape tells pools apart by them."""

_Owners: TypeAlias = dict[Identity, list[PoolKey]]
_Shape = TypeVar("_Shape", bound=Hashable)


@dataclass(frozen=True, slots=True)
class Batch:
    """One query and the pools that it is for.

    Args:
        query: What is asked.
        identity_labels: Labels of a row which together say whose it is.
        owners: The pools behind each identity; a row of no known identity is nobody's.
    """

    query: Query
    identity_labels: tuple[str, ...]
    owners: Mapping[Identity, Sequence[PoolKey]]

    def rows_by_pool(self, answer: Answer) -> Mapping[PoolKey, Answer]:
        """Hand each pool its rows, or the error that all of them share."""
        if isinstance(answer, PrometheusError):
            return {key: answer for keys in self.owners.values() for key in keys}
        rows: dict[Identity, list[Sample]] = {identity: [] for identity in self.owners}
        for sample in answer:
            identity = tuple(sample.labels.get(label, "") for label in self.identity_labels)
            if identity in rows:
                rows[identity].append(sample)
        return {key: tuple(rows[identity]) for identity, keys in self.owners.items() for key in keys}


@dataclass(frozen=True, slots=True)
class ReadPlan:
    """The queries of one set of pools, and how to read their answers.

    Args:
        queries: Each distinct query once.
        pools: The pools, in the order of their keys.
        batches: The queries with the pools that they are for.
        problems: Why some pools cannot be asked about.
        names: The labels of the scrape configuration.
    """

    queries: tuple[Query, ...]
    pools: Mapping[PoolKey, PoolLocator]
    batches: tuple[Batch, ...]
    problems: Mapping[PoolKey, str]
    names: LabelNames

    def observations(self, answers: Mapping[Query, Answer], at: float) -> dict[PoolKey, Observation]:
        """Read the answers.

        Args:
            answers: Each query's answer, or why it has none; a query without either counts as failed.
            at: The tick's instant in Unix seconds, at which the queries were evaluated.

        Returns:
            One observation for every pool, whatever failed. Nothing is raised, whatever the answers contain.
        """
        unasked = PrometheusError("the query was not asked")
        rows: dict[str, dict[PoolKey, Answer]] = {name: {} for name in (REPLICAS, FRESHNESS, LATENCY, WORKLOAD)}
        for batch in self.batches:
            rows[batch.query.name].update(batch.rows_by_pool(answers.get(batch.query, unasked)))
        observations = {}
        for key, locator in self.pools.items():
            if key in self.problems:
                observations[key] = Observation(at=at, notes=(self.problems[key],))
                continue
            evidence = Evidence(
                replicas=rows[REPLICAS].get(key, unasked),
                freshness=rows[FRESHNESS].get(key, unasked),
                latency=rows[LATENCY].get(key, unasked),
                workload=rows[WORKLOAD].get(key, unasked),
            )
            observations[key] = assemble(locator, evidence, self.names, at)
        return observations


def plan(pools: Mapping[PoolKey, PoolLocator], names: LabelNames) -> ReadPlan:
    """Plan how to read pools with few queries.

    Args:
        pools: Where each pool's series are. One that cannot be asked about gets an observation that says why.
        names: The labels of the scrape configuration.

    Returns:
        The same plan for the same pools, whatever their order.
    """
    ordered = {key: pools[key] for key in sorted(pools)}
    problems = {key: problem for key, locator in ordered.items() if (problem := _problem(locator)) is not None}
    engines: dict[EngineShape, _Owners] = {}
    latencies: dict[tuple[EngineShape, float], _Owners] = {}
    workloads: dict[WorkloadSeries, _Owners] = {}
    for key, locator in ordered.items():
        if key in problems:
            continue
        shape, identity = _engine_shape(locator)
        _own(engines, shape, identity, key)
        _own(latencies, (shape, locator.rate_window_s), identity, key)
        if locator.workload is not None:
            series = WORKLOAD_SERIES[locator.workload.kind]
            _own(workloads, series, (locator.namespace, locator.workload.name), key)

    batches: list[Batch] = []
    for shape, owners in engines.items():
        labels = shape.identity_labels(names)
        batches += _batches(owners, labels, partial(replicas_query, shape, names))
        batches += _batches(owners, labels, partial(freshness_query, shape, names))
    for (shape, window_s), owners in latencies.items():
        batches += _batches(owners, shape.identity_labels(names), partial(latency_query, shape, window_s, names))
    for series, owners in workloads.items():
        batches += _batches(owners, (KSM_NAMESPACE_LABEL, series.label), partial(workload_query, series, names))
    queries = tuple(dict.fromkeys(batch.query for batch in batches))
    return ReadPlan(queries=queries, pools=ordered, batches=tuple(batches), problems=problems, names=names)


def _problem(locator: PoolLocator) -> str | None:
    if locator.model_name is None and locator.workload is None:
        return "the pool names neither a model nor a workload: nothing can be read of it"
    if not (math.isfinite(locator.rate_window_s) and locator.rate_window_s >= 0.001):  # noqa: PLR2004 - PromQL's least
        return f"the rate window of {locator.rate_window_s} s is not a duration that PromQL takes"
    return next((problem for matcher in locator.matchers if (problem := matcher_problem(matcher))), None)


def _engine_shape(locator: PoolLocator) -> tuple[EngineShape, Identity]:
    identity = [locator.namespace]
    if locator.model_name is not None:
        identity.append(locator.model_name)
    if locator.workload is not None:
        identity.append(locator.workload.name)
    matchers = sorted(set(locator.matchers), key=lambda matcher: (matcher.label, matcher.operator, matcher.value))
    pods = None if locator.workload is None else pod_pattern(locator.workload)
    return EngineShape(locator.model_name is not None, pods, tuple(matchers)), tuple(identity)


def _own(groups: dict[_Shape, _Owners], shape: _Shape, identity: Identity, key: PoolKey) -> None:
    groups.setdefault(shape, {}).setdefault(identity, []).append(key)


def _batches(
    owners: _Owners, identity_labels: tuple[str, ...], query: Callable[[Sequence[Identity]], Query]
) -> Iterator[Batch]:
    """Halve the pools of one shape until they are few and their expression is short."""
    identities = sorted(owners)
    if len(identities) <= MAX_POOLS:
        whole = query(identities)
        if len(whole.expr) <= MAX_EXPR_BYTES or len(identities) == 1:
            yield Batch(whole, identity_labels, owners)
            return
    middle = len(identities) // 2
    for half in (identities[:middle], identities[middle:]):
        yield from _batches({identity: owners[identity] for identity in half}, identity_labels, query)
