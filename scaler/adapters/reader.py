"""Reads pools: plans the queries, asks them all at once, and turns whatever came back into observations."""

import asyncio
import time
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Protocol, TypeAlias

import structlog

from scaler.errors import PrometheusError
from scaler.model import Observation, PoolKey, PoolLocator
from scaler.promql import Answer, LabelNames, Query, ReadPlan, Sample, plan

OnQuery: TypeAlias = Callable[[str, float, str | None], None]
"""Called after each query with its name, its seconds, and the name of its error's class or None."""


class QueryApi(Protocol):
    """What the reader needs of ``Prometheus``."""

    def deadline(self) -> float:
        """Return the instant from which on queries that start now are given up."""
        ...

    async def query(self, expr: str, at: float, deadline: float | None = None) -> tuple[Sample, ...]:
        """Ask for an instant vector, or raise a PrometheusError."""
        ...


class MetricsReader:
    """Reads any number of pools with few queries.

    Args:
        prometheus: Whom to ask.
        names: The labels of the scrape configuration.
        queries: The operator's PromQL by name, checked by ``check_named_queries``.
        on_query: For metrics of our own.
        monotonic: Seconds since some instant, to time the queries.
    """

    def __init__(
        self,
        prometheus: QueryApi,
        names: LabelNames,
        *,
        queries: Mapping[str, str] = MappingProxyType({}),
        on_query: OnQuery = lambda _name, _seconds, _error: None,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._prometheus = prometheus
        self._names = names
        self._queries = dict(queries)
        self._on_query = on_query
        self._monotonic = monotonic
        self._planned: tuple[dict[PoolKey, PoolLocator], ReadPlan] | None = None

    async def observe(self, pools: Mapping[PoolKey, PoolLocator], at: float) -> dict[PoolKey, Observation]:
        """Observe pools. All queries together take no longer than one query may.

        Args:
            pools: Where each pool's series are; the plan is kept for as long as they stay the same.
            at: The tick's instant, in Unix seconds.

        Returns:
            One observation for each pool. Nothing is raised: what could not be read is missing, with a note.
        """
        snapshot = dict(pools)
        try:
            # Thousands of pools take a second of pure Python, during which KEDA must still be answered.
            read_plan = await asyncio.to_thread(self._plan_for, snapshot)
            deadline = self._prometheus.deadline()
            answers = await asyncio.gather(*(self._answer(query, at, deadline) for query in read_plan.queries))
            by_query = dict(zip(read_plan.queries, answers, strict=True))
            return await asyncio.to_thread(read_plan.observations, by_query, at)
        except Exception as error:  # noqa: BLE001 - a fault of ours in one tick must not end the ticks
            structlog.get_logger().exception("reading_failed", pools=len(snapshot))
            note = f"reading failed by a fault of the scaler: {type(error).__name__}: {error}"
            return {key: Observation(at=at, notes=(note,)) for key in snapshot}

    def _plan_for(self, pools: dict[PoolKey, PoolLocator]) -> ReadPlan:
        # Pools and plan change hands together: reads of different pools run at the same time, each in its own thread.
        planned = self._planned
        if planned is None or planned[0] != pools:
            planned = self._planned = pools, plan(pools, self._names, self._queries)
        return planned[1]

    async def _answer(self, query: Query, at: float, deadline: float) -> Answer:
        started = self._monotonic()
        answer: Answer
        try:
            answer = await self._prometheus.query(query.expr, at, deadline)
        except PrometheusError as error:
            answer = error
        failed = type(answer).__name__ if isinstance(answer, PrometheusError) else None
        self._on_query(query.name, self._monotonic() - started, failed)
        return answer
