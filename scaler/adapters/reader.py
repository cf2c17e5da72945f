"""Reads pools: plans the queries, asks them all at once, and turns whatever came back into observations.

Each backend is a world of its own: its pools have their own plan, their own deadline and their own faults.
"""

import asyncio
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Protocol, TypeAlias

import structlog

from scaler.errors import PrometheusError
from scaler.model import DEFAULT_BACKEND, LabelMatcher, Observation, PoolKey, PoolLocator
from scaler.promql import Answer, LabelNames, Query, ReadPlan, Sample, plan

OnQuery: TypeAlias = Callable[[str, str, float, str | None], None]
"""Called after each query with its backend, its name, its seconds, and the name of its error's class or None."""


class QueryApi(Protocol):
    """What the reader needs of ``Prometheus``."""

    def deadline(self) -> float:
        """Return the instant from which on queries that start now are given up."""
        ...

    async def query(self, expr: str, at: float, deadline: float | None = None) -> tuple[Sample, ...]:
        """Ask for an instant vector, or raise a PrometheusError."""
        ...


@dataclass(frozen=True, slots=True)
class Backend:
    """One Prometheus that has series of pools.

    Args:
        api: Whom to ask.
        external: What every series must meet besides, so that one cluster of many is seen.
    """

    api: QueryApi
    external: tuple[LabelMatcher, ...] = ()


def only(api: QueryApi) -> Mapping[str, Backend]:
    """Return ``api`` as the one backend there is, the default."""
    return {DEFAULT_BACKEND: Backend(api)}


class MetricsReader:
    """Reads any number of pools with few queries.

    Args:
        backends: Whom to ask, by the names that pools give.
        names: The labels of the scrape configuration.
        queries: The operator's PromQL by name, checked by ``check_named_queries``.
        on_query: For metrics of our own.
        monotonic: Seconds since some instant, to time the queries.
    """

    def __init__(
        self,
        backends: Mapping[str, Backend],
        names: LabelNames,
        *,
        queries: Mapping[str, str] = MappingProxyType({}),
        on_query: OnQuery = lambda _backend, _name, _seconds, _error: None,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._backends = dict(backends)
        self._names = names
        self._queries = dict(queries)
        self._on_query = on_query
        self._monotonic = monotonic
        self._planned: dict[str, tuple[Mapping[PoolKey, PoolLocator], ReadPlan]] = {}

    async def observe(self, pools: Mapping[PoolKey, PoolLocator], at: float) -> dict[PoolKey, Observation]:
        """Observe pools. The queries of one backend together take no longer than one of its queries may.

        Args:
            pools: Where each pool's series are; the plan is kept for as long as they stay the same.
            at: The tick's instant, in Unix seconds.

        Returns:
            One observation for each pool. Nothing is raised: what could not be read is missing, with a note.
        """
        by_backend: dict[str, dict[PoolKey, PoolLocator]] = {}
        for key, locator in pools.items():
            by_backend.setdefault(locator.backend, {})[key] = locator
        observed = await asyncio.gather(*(self._observe(name, group, at) for name, group in by_backend.items()))
        return {key: seen for group in observed for key, seen in group.items()}

    async def _observe(
        self, name: str, pools: Mapping[PoolKey, PoolLocator], at: float
    ) -> Mapping[PoolKey, Observation]:
        """Observe the pools of one backend."""
        backend = self._backends.get(name)
        if backend is None:
            return _unread(pools, at, f"the operator of the scaler has named no Prometheus {name!r}")
        try:
            # Thousands of pools take a second of pure Python, during which KEDA must still be answered.
            read_plan = await asyncio.to_thread(self._plan_for, name, backend, pools)
            deadline = backend.api.deadline()
            answers = await asyncio.gather(
                *(self._answer(name, backend, query, at, deadline) for query in read_plan.queries)
            )
            by_query = dict(zip(read_plan.queries, answers, strict=True))
            return await asyncio.to_thread(read_plan.observations, by_query, at)
        except Exception as error:  # noqa: BLE001 - a fault of ours in one tick must not end the ticks
            structlog.get_logger().exception("reading_failed", backend=name, pools=len(pools))
            return _unread(pools, at, f"reading failed by a fault of the scaler: {type(error).__name__}: {error}")

    def _plan_for(self, name: str, backend: Backend, pools: Mapping[PoolKey, PoolLocator]) -> ReadPlan:
        # Pools and plan change hands together: reads of different pools run at the same time, each in its own thread.
        planned = self._planned.get(name)
        if planned is None or planned[0] != pools:
            planned = self._planned[name] = pools, plan(pools, self._names, self._queries, backend.external)
        return planned[1]

    async def _answer(self, name: str, backend: Backend, query: Query, at: float, deadline: float) -> Answer:
        started = self._monotonic()
        answer: Answer
        try:
            answer = await backend.api.query(query.expr, at, deadline)
        except PrometheusError as error:
            answer = error
        failed = type(answer).__name__ if isinstance(answer, PrometheusError) else None
        self._on_query(name, query.name, self._monotonic() - started, failed)
        return answer


def _unread(pools: Iterable[PoolKey], at: float, why: str) -> dict[PoolKey, Observation]:
    return {key: Observation(at=at, notes=(why,)) for key in pools}
