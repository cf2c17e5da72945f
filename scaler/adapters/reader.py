"""Reads pools: plans the queries, asks them all at once, and turns whatever came back into observations.

Each backend is a world of its own: its pools have their own plan, their own deadline and their own faults.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Protocol, TypeAlias, TypeVar

import structlog

from scaler.adapters.asking import Asker
from scaler.errors import PrometheusError, PrometheusRejectedError
from scaler.model import DEFAULT_BACKEND, LabelMatcher, Observation, PoolKey, PoolLocator
from scaler.promql import LabelNames, Query, ReadPlan, Sample, plan
from scaler.promql.batches import Batch

_T = TypeVar("_T")

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

    async def query_range(
        self, expr: str, start: float, end: float, step_s: float, deadline: float | None = None
    ) -> tuple[tuple[Sample, ...], ...]:
        """Ask for the vectors of many instants, or raise a PrometheusError."""
        ...


@dataclass(frozen=True, slots=True)
class Past:
    """What was seen at some past ticks.

    Args:
        observations: For each tick, oldest first, one observation of every pool.
        failures: Why some of it could not be read though asking again may help; what it was about is missing.
    """

    observations: tuple[Mapping[PoolKey, Observation], ...]
    failures: tuple[str, ...] = ()


class _Plans:
    """The plan for the pools of a backend's last read, kept for as long as they stay the same."""

    def __init__(self, names: LabelNames, queries: Mapping[str, str], external: tuple[LabelMatcher, ...]) -> None:
        self._names = names
        self._queries = dict(queries)
        self._external = external
        self._planned: tuple[Mapping[PoolKey, PoolLocator], ReadPlan] | None = None

    def of(self, pools: Mapping[PoolKey, PoolLocator]) -> ReadPlan:
        # Pools and plan change hands together: reads of different pools run at the same time, each in its own thread.
        planned = self._planned
        if planned is None or planned[0] != pools:
            planned = self._planned = pools, plan(pools, self._names, self._queries, self._external)
        return planned[1]


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
        self._present = {name: _Plans(names, queries, backend.external) for name, backend in backends.items()}
        self._past = {name: _Plans(names, queries, backend.external) for name, backend in backends.items()}
        self._askers = {name: Asker(name, monotonic) for name in backends}
        self._on_query = on_query
        self._monotonic = monotonic

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
            return _unread(pools, at, _unknown(name))
        try:
            # Thousands of pools take a second of pure Python, during which KEDA must still be answered.
            read_plan = await asyncio.to_thread(self._present[name].of, pools)
            deadline = backend.api.deadline()
            answers = await self._askers[name].ask(
                read_plan,
                lambda query: self._answer(name, query, backend.api.query(query.expr, at, deadline)),
                deadline,
            )
            return await asyncio.to_thread(read_plan.observations, answers.by_query, at, answers.batches)
        except Exception as error:  # noqa: BLE001 - a fault of ours in one tick must not end the ticks
            structlog.get_logger().exception("reading_failed", backend=name, pools=len(pools))
            return _unread(pools, at, _fault(error))

    async def observe_range(self, pools: Mapping[PoolKey, PoolLocator], ticks: Sequence[float]) -> Past:
        """Observe pools of one backend at past ticks, as ``observe`` would have.

        The queries run one after the other, each within the time that one may take, so that a read of the present
        always finds Prometheus free to answer.

        Args:
            pools: Where each pool's series are.
            ticks: Instants in Unix seconds, ascending and equally far apart.

        Returns:
            What was seen. Nothing is raised: what could not be read is missing.
        """
        name = next(iter(pools.values())).backend
        backend = self._backends.get(name)
        if backend is None:
            return Past(tuple(_unread(pools, at, _unknown(name)) for at in ticks))
        try:
            read_plan = await asyncio.to_thread(self._past[name].of, dict(pools))
            step_s = (ticks[-1] - ticks[0]) / (len(ticks) - 1) if len(ticks) > 1 else 1.0
            # What spoils queries at present spoiled them in the past, and is not asked for there.
            parted = self._askers[name].parted(read_plan)
            held = [one for each in parted for one in each.held]
            batches = [part.batch for each in parted for part in each.parts]
            answers: dict[Query, tuple[tuple[Sample, ...], ...] | PrometheusError] = {}
            for query in dict.fromkeys(batch.query for batch in batches):
                asked = backend.api.query_range(query.expr, ticks[0], ticks[-1], step_s)
                answers[query] = await self._answer(name, query, asked)
            failures = _worth_waiting_for(answers)
            answers |= {one.batch.query: one.error for one in held}
            batches += [one.batch for one in held]
            observations = await asyncio.to_thread(_past, read_plan, batches, ticks, answers)
            return Past(observations, failures)
        except Exception as error:  # noqa: BLE001 - as above
            structlog.get_logger().exception("reading_failed", backend=name, pools=len(pools))
            return Past((), (_fault(error),))

    async def _answer(self, name: str, query: Query, asked: Awaitable[_T]) -> _T | PrometheusError:
        started = self._monotonic()
        answer: _T | PrometheusError
        try:
            answer = await asked
        except PrometheusError as error:
            answer = error
        failed = type(answer).__name__ if isinstance(answer, PrometheusError) else None
        self._on_query(name, query.name, self._monotonic() - started, failed)
        return answer


def _unread(pools: Iterable[PoolKey], at: float, why: str) -> dict[PoolKey, Observation]:
    return {key: Observation(at=at, notes=(why,)) for key in pools}


def _unknown(backend: str) -> str:
    return f"the operator of the scaler has named no Prometheus {backend!r}"


def _fault(error: Exception) -> str:
    return f"reading failed by a fault of the scaler: {type(error).__name__}: {error}"


def _past(
    read_plan: ReadPlan,
    batches: Sequence[Batch],
    ticks: Sequence[float],
    answers: Mapping[Query, tuple[tuple[Sample, ...], ...] | PrometheusError],
) -> tuple[Mapping[PoolKey, Observation], ...]:
    observations: list[Mapping[PoolKey, Observation]] = []
    blank: Mapping[PoolKey, Observation] | None = None
    for index, at in enumerate(ticks):
        vectors = {
            query: answer if isinstance(answer, PrometheusError) else answer[index] for query, answer in answers.items()
        }
        # All ticks without a row are alike, and before a Prometheus or a workload was there, there can be thousands.
        if blank is not None and not any(vectors.values()):
            observations.append({key: replace(seen, at=at) for key, seen in blank.items()})
            continue
        observations.append(read_plan.observations(vectors, at, batches))
        if not any(vectors.values()):
            blank = observations[-1]
    return tuple(observations)


def _worth_waiting_for(answers: Mapping[Query, object]) -> tuple[str, ...]:
    """Return why queries failed that may be answered another time.

    What Prometheus refuses it refuses every time, at the present tick too: missing, and no failure to wait out.
    """
    return tuple(
        f"{query.name}: {answer}"
        for query, answer in answers.items()
        if isinstance(answer, PrometheusError) and not isinstance(answer, PrometheusRejectedError)
    )
