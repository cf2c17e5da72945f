"""Pools -> few queries, and the way back from their answers to the pools.

Pools whose series differ only in namespace, model and workload name have one shape and are read together, so a tick
costs by the signals and the shapes, not by the pools. An extra costs only where a pool asks for it.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from types import MappingProxyType
from typing import Final, TypeVar

from scaler.errors import PrometheusError
from scaler.model import LabelMatcher, Observation, PoolKey, PoolLocator
from scaler.promql.assemble import Evidence, assemble
from scaler.promql.batches import Batch, Identity, Owners, batched
from scaler.promql.escape import matcher_problem
from scaler.promql.extra_query import ExtraQuery
from scaler.promql.extras import extra_query
from scaler.promql.narrow import narrowed
from scaler.promql.queries import (
    FRESHNESS,
    FRESHNESS_POOLS,
    KSM_NAMESPACE_LABEL,
    LATENCY,
    REPLICAS,
    WORKLOAD,
    EngineShape,
    engine_shape,
    freshness_query,
    latency_pools,
    latency_query,
    replicas_query,
    workload_query,
)
from scaler.promql.query import Answer, LabelNames, Query
from scaler.promql.workloads import WORKLOAD_SERIES, WorkloadSeries

_NO_QUERIES: Final[Mapping[str, str]] = MappingProxyType({})
_Shape = TypeVar("_Shape")


@dataclass(frozen=True, slots=True)
class ReadPlan:
    """The queries of one set of pools, and how to read their answers.

    Args:
        queries: Each distinct query once; those that every pool needs come before the extras.
        pools: The pools, in the order of their keys.
        batches: The queries with the pools that they are for.
        problems: Why some pools cannot be asked about.
        extras: For each pool, its extras by name: whom to ask, or why nothing is asked.
        names: The labels of the scrape configuration.
    """

    queries: tuple[Query, ...]
    pools: Mapping[PoolKey, PoolLocator]
    batches: tuple[Batch, ...]
    problems: Mapping[PoolKey, str]
    extras: Mapping[PoolKey, Mapping[str, ExtraQuery | str]]
    names: LabelNames

    def observations(
        self, answers: Mapping[Query, Answer], at: float, batches: Sequence[Batch] | None = None
    ) -> dict[PoolKey, Observation]:
        """Read the answers.

        Args:
            answers: Each query's answer, or why it has none; a query without either counts as failed.
            at: The tick's instant in Unix seconds, at which the queries were evaluated.
            batches: What was asked instead of ``batches`` of the plan, where that was not as planned.

        Returns:
            One observation for every pool, whatever failed. Nothing is raised, whatever the answers contain.
        """
        unasked = PrometheusError("the query was not asked")
        rows: dict[str, dict[PoolKey, Answer]] = {name: {} for name in (REPLICAS, FRESHNESS, LATENCY, WORKLOAD)}
        for batch in self.batches if batches is None else batches:
            of_name = rows.setdefault(batch.query.name, {})
            of_name.update(batch.rows_by_pool(answers.get(batch.query, unasked)))
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
                extras={
                    name: found if isinstance(found, str) else (found, rows[found.name].get(key, unasked))
                    for name, found in self.extras[key].items()
                },
            )
            observations[key] = assemble(locator, evidence, self.names, at)
        return observations


def plan(
    pools: Mapping[PoolKey, PoolLocator],
    names: LabelNames,
    queries: Mapping[str, str] = _NO_QUERIES,
    external: Sequence[LabelMatcher] = (),
) -> ReadPlan:
    """Plan how to read the pools of one backend with few queries.

    Args:
        pools: Where each pool's series are. One that cannot be asked about gets an observation that says why.
        names: The labels of the scrape configuration.
        queries: The operator's PromQL by name, checked by ``check_named_queries``.
        external: What every series of the backend must meet besides, whatever it is of.

    Returns:
        The same plan for the same pools, whatever their order.
    """
    ordered = {key: pools[key] for key in sorted(pools)}
    problems = {key: problem for key, locator in ordered.items() if (problem := _problem(locator)) is not None}
    engines: dict[EngineShape, Owners] = {}
    latencies: dict[tuple[EngineShape, float], Owners] = {}
    workloads: dict[WorkloadSeries, Owners] = {}
    for key, locator in ordered.items():
        if key in problems:
            continue
        shape, identity = engine_shape(locator)
        _own(engines, shape, identity, key)
        _own(latencies, (shape, locator.rate_window_s), identity, key)
        if locator.workload is not None:
            series = WORKLOAD_SERIES[locator.workload.kind]
            _own(workloads, series, (locator.namespace, locator.workload.name), key)
    extras, askers = _extras({key: locator for key, locator in ordered.items() if key not in problems}, queries)

    batches: list[Batch] = []
    for shape, owners in engines.items():
        labels = shape.identity_labels(names)
        batches += batched(owners, labels, partial(replicas_query, shape, names))
        batches += batched(owners, labels, partial(freshness_query, shape, names), max_pools=FRESHNESS_POOLS)
    for series, owners in workloads.items():
        batches += batched(owners, (KSM_NAMESPACE_LABEL, series.label), partial(workload_query, series, names))
    # After the cheap ones, which would otherwise wait for these.
    for (shape, window_s), owners in latencies.items():
        query = partial(latency_query, shape, window_s, names)
        batches += batched(owners, shape.identity_labels(names), query, max_pools=latency_pools(len(owners)))
    for extra, owners in askers.items():
        batches += extra.batches(owners, names)
    if external:
        batches = [_narrowed(batch, external) for batch in batches]
    return ReadPlan(
        queries=tuple(dict.fromkeys(batch.query for batch in batches)),
        pools=ordered,
        batches=tuple(batches),
        problems=problems,
        extras=extras,
        names=names,
    )


def _extras(
    pools: Mapping[PoolKey, PoolLocator], queries: Mapping[str, str]
) -> tuple[dict[PoolKey, dict[str, ExtraQuery | str]], dict[ExtraQuery, Owners]]:
    """Return each pool's extras, and for each query that one of them needs the pools that do."""
    extras: dict[PoolKey, dict[str, ExtraQuery | str]] = {key: {} for key in pools}
    askers: dict[ExtraQuery, Owners] = {}
    for key, locator in pools.items():
        for name in locator.extras:
            found = extra_query(name, locator, queries)
            if isinstance(found, str):
                extras[key][name] = found
            elif found is not None:
                query, identity = found
                extras[key][name] = query
                _own(askers, query, identity, key)
    return extras, askers


def _narrowed(batch: Batch, external: Sequence[LabelMatcher]) -> Batch:
    def narrow(query: Query) -> Query:
        return replace(query, expr=narrowed(query.expr, external))

    write = batch.write
    return replace(
        batch,
        query=narrow(batch.query),
        write=None if write is None else lambda identities: narrow(write(identities)),
    )


def _problem(locator: PoolLocator) -> str | None:
    if locator.model_name is None and locator.workload is None:
        return "the pool names neither a model nor a workload: nothing can be read of it"
    if not (math.isfinite(locator.rate_window_s) and locator.rate_window_s >= 0.001):  # noqa: PLR2004 - PromQL's least
        return f"the rate window of {locator.rate_window_s} s is not a duration that PromQL takes"
    return next((problem for matcher in locator.matchers if (problem := matcher_problem(matcher))), None)


def _own(groups: dict[_Shape, Owners], shape: _Shape, identity: Identity, key: PoolKey) -> None:
    owners = groups.setdefault(shape, {}).setdefault(identity, [])
    # Two extras of one pool can be the same query: what scales on it and what wakes on it.
    if owners[-1:] != [key]:
        owners.append(key)
