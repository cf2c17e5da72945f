import asyncio
import itertools
import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from structlog.testing import capture_logs

from scaler.adapters.reader import Backend, MetricsReader, only
from scaler.errors import (
    PrometheusError,
    PrometheusPartialError,
    PrometheusRejectedError,
    PrometheusTimeoutError,
)
from scaler.model import Absent, Extra, LabelMatcher, Observation, PoolKey, PoolLocator
from scaler.promql import Sample
from tests.prometheus_rows import AT, KEY, LOCATOR, NAMES, asking, engine, scraped

OTHER_KEY = PoolKey("serving", "other", "0badcafe")


class Api:
    """Answers by what kind of query it is asked; ``rule`` may raise instead."""

    def __init__(self, rule: Callable[[str], tuple[Sample, ...]]) -> None:
        self.rule = rule
        self.asked: list[tuple[str, float, float | None]] = []

    def deadline(self) -> float:
        return 42.0

    async def query(self, expr: str, at: float, deadline: float | None = None) -> tuple[Sample, ...]:
        self.asked.append((expr, at, deadline))
        return self.rule(expr)

    async def query_range(
        self, expr: str, start: float, end: float, step_s: float, deadline: float | None = None
    ) -> tuple[tuple[Sample, ...], ...]:
        assert deadline is None
        self.asked.append((expr, start, end))
        count = round((end - start) / step_s) + 1
        return tuple(self.rule(expr) for _ in range(count))


def healthy(expr: str) -> tuple[Sample, ...]:
    if "reason" in expr:
        return tuple(engine(running=4))
    return (scraped(),) if "timestamp(vllm" in expr else ()


async def test_pools_are_observed_at_the_tick_with_one_deadline_for_all_queries() -> None:
    api = Api(healthy)
    seen = await MetricsReader(only(api), NAMES).observe({KEY: LOCATOR}, AT)
    assert (seen[KEY].at, seen[KEY].running, seen[KEY].serving) == (AT, 4, 1)
    assert len(api.asked) == 4
    assert {(at, deadline) for _, at, deadline in api.asked} == {(AT, 42.0)}


async def test_queries_run_side_by_side() -> None:
    together = asyncio.Barrier(4)

    class Slow(Api):
        async def query(self, expr: str, at: float, deadline: float | None = None) -> tuple[Sample, ...]:
            await together.wait()
            return await super().query(expr, at, deadline)

    async with asyncio.timeout(10):
        assert (await MetricsReader(only(Slow(healthy)), NAMES).observe({KEY: LOCATOR}, AT))[KEY].running == 4


async def test_no_pools_ask_nothing() -> None:
    api = Api(healthy)
    assert await MetricsReader(only(api), NAMES).observe({}, AT) == {}
    assert api.asked == []


async def test_a_failed_query_leaves_the_other_readings() -> None:
    def rule(expr: str) -> tuple[Sample, ...]:
        if "histogram_quantile" in expr:
            raise PrometheusTimeoutError("no answer in 10 s")
        return healthy(expr)

    seen = (await MetricsReader(only(Api(rule)), NAMES).observe({KEY: LOCATOR}, AT))[KEY]
    assert (seen.running, seen.ttft_p95_s) == (4, Absent.MISSING)


async def test_the_operators_query_runs_as_it_is_for_the_pools_that_ask_for_it() -> None:
    queries = {"depth": "sum by (namespace) (jobs)", "other": "others"}

    def rule(expr: str) -> tuple[Sample, ...]:
        return (Sample({"namespace": "serving"}, 7.0, AT),) if expr == queries["depth"] else healthy(expr)

    api = Api(rule)
    pools = {KEY: asking("custom:depth"), OTHER_KEY: LOCATOR}
    seen = await MetricsReader(only(api), NAMES, queries=queries).observe(pools, AT)
    assert (seen[KEY].extras, seen[OTHER_KEY].extras) == ({"custom:depth": Extra(7.0)}, {})
    assert [expr for expr, _, _ in api.asked].count(queries["depth"]) == 1
    assert len(api.asked) == 5


async def test_a_failed_extra_leaves_the_other_readings() -> None:
    def rule(expr: str) -> tuple[Sample, ...]:
        if "DCGM" in expr:
            raise PrometheusTimeoutError("no answer in 10 s")
        return healthy(expr)

    seen = (await MetricsReader(only(Api(rule)), NAMES).observe({KEY: asking("gpu")}, AT))[KEY]
    assert (seen.running, seen.extras["gpu"].value) == (4, Absent.MISSING)


async def test_queries_are_told_with_their_name_duration_and_error() -> None:
    def rule(expr: str) -> tuple[Sample, ...]:
        if "kube_" in expr:
            raise PrometheusTimeoutError("no answer in 10 s")
        return healthy(expr)

    told: list[tuple[str, str, float, str | None]] = []
    seconds = itertools.count()
    reader = MetricsReader(
        only(Api(rule)), NAMES, on_query=lambda *what: told.append(what), monotonic=lambda: float(next(seconds))
    )
    await reader.observe({KEY: LOCATOR}, AT)
    assert {(name, error) for _, name, _, error in told} == {
        ("replicas", None),
        ("freshness", None),
        ("latency", None),
        ("workload", "PrometheusTimeoutError"),
    }
    assert all(duration > 0 for _, _, duration, _ in told)


async def test_a_changed_set_of_pools_is_planned_anew() -> None:
    api = Api(healthy)
    reader = MetricsReader(only(api), NAMES)
    pools = {KEY: LOCATOR}
    await reader.observe(pools, AT)
    pools[OTHER_KEY] = PoolLocator("serving", "llama", None)
    seen = await reader.observe(pools, AT)
    assert set(seen) == {KEY, OTHER_KEY}
    pools[KEY] = PoolLocator("elsewhere", "llama", None)
    api.asked.clear()
    await reader.observe(pools, AT)
    assert any("elsewhere" in expr for expr, _, _ in api.asked)


async def test_a_fault_of_the_client_is_logged_and_makes_everything_missing() -> None:
    def rule(_: str) -> tuple[Sample, ...]:
        raise ZeroDivisionError("what nobody thought of")

    with capture_logs() as logs:
        seen = await MetricsReader(only(Api(rule)), NAMES).observe({KEY: LOCATOR}, AT)
    assert seen[KEY].serving is Absent.MISSING
    assert "ZeroDivisionError: what nobody thought of" in seen[KEY].notes[0]
    assert [(log["event"], log["log_level"]) for log in logs] == [("reading_failed", "error")]


async def test_cancelling_an_observation_ends_it() -> None:
    asked = asyncio.Event()

    class Stuck(Api):
        async def query(self, expr: str, at: float, deadline: float | None = None) -> tuple[Sample, ...]:
            asked.set()
            await asyncio.Event().wait()
            return await super().query(expr, at, deadline)

    task = asyncio.create_task(MetricsReader(only(Stuck(healthy)), NAMES).observe({KEY: LOCATOR}, AT))
    async with asyncio.timeout(10):
        await asked.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task


ELSEWHERE = replace(LOCATOR, backend="eu-1")
TWO = {KEY: LOCATOR, OTHER_KEY: ELSEWHERE}
"""Two pools of the same names, on two backends."""


async def read_both(default: Api, other: Api, **settings: Any) -> tuple[Observation, Observation]:
    backends = {"default": Backend(default), "eu-1": Backend(other, (LabelMatcher("cluster", "=", "eu-1"),))}
    seen = await MetricsReader(backends, NAMES, **settings).observe(TWO, AT)
    return seen[KEY], seen[OTHER_KEY]


async def test_each_pool_is_read_from_its_own_backend_within_that_ones_deadline() -> None:
    class Later(Api):
        def deadline(self) -> float:
            return 99.0

    default, other = Api(healthy), Later(lambda expr: tuple(engine(running=7)) if "reason" in expr else healthy(expr))
    seen, elsewhere = await read_both(default, other)
    assert (seen.running, elsewhere.running) == (4, 7)
    assert [{deadline for _, _, deadline in api.asked} for api in (default, other)] == [{42.0}, {99.0}]


async def test_external_labels_are_asked_of_their_backend_alone() -> None:
    default, other = Api(healthy), Api(healthy)
    await read_both(default, other)
    assert len(other.asked) == len(default.asked) == 4
    assert all('cluster="eu-1"' in expr for expr, _, _ in other.asked)
    assert not any("cluster" in expr for expr, _, _ in default.asked)


async def test_a_named_query_runs_on_the_pools_backend_with_its_external_labels() -> None:
    default, other = Api(healthy), Api(healthy)
    backends = {"default": Backend(default), "eu-1": Backend(other, (LabelMatcher("cluster", "=", "eu-1"),))}
    pools = {KEY: LOCATOR, OTHER_KEY: replace(asking("custom:depth"), backend="eu-1")}
    reader = MetricsReader(backends, NAMES, queries={"depth": "sum by (namespace) (jobs)"})
    await reader.observe(pools, AT)
    assert [expr for expr, _, _ in other.asked if "jobs" in expr] == ['sum by (namespace) (jobs{cluster="eu-1"})']
    assert not any("jobs" in expr for expr, _, _ in default.asked)


@pytest.mark.parametrize(
    "error", [PrometheusTimeoutError("no answer"), PrometheusPartialError("warnings"), ValueError()]
)
async def test_a_failing_backend_takes_nothing_from_the_pools_of_another(error: Exception) -> None:
    def fails(_: str) -> tuple[Sample, ...]:
        raise error

    with capture_logs():
        seen, elsewhere = await read_both(Api(healthy), Api(fails))
    assert (seen.running, seen.serving) == (4, 1)
    assert (elsewhere.running, elsewhere.serving) == (Absent.MISSING, Absent.MISSING)
    assert elsewhere.notes != ()


async def test_queries_are_told_with_their_backend() -> None:
    told: list[tuple[str, str, float, str | None]] = []
    await read_both(Api(healthy), Api(healthy), on_query=lambda *what: told.append(what))
    assert sorted({(backend, len(name) > 0) for backend, name, _, _ in told}) == [("default", True), ("eu-1", True)]
    assert len(told) == 8


async def test_a_pool_of_a_backend_that_is_gone_is_missing_and_says_so() -> None:
    seen = await MetricsReader(only(Api(healthy)), NAMES).observe(TWO, AT)
    assert seen[KEY].running == 4
    assert seen[OTHER_KEY].running is Absent.MISSING
    assert "no Prometheus 'eu-1'" in seen[OTHER_KEY].notes[0]


TICKS = (AT - 30, AT - 15, AT)


async def test_the_past_is_read_with_one_range_for_each_query_and_as_the_present_would_have_been() -> None:
    api = Api(healthy)
    reader = MetricsReader(only(api), NAMES)
    past = await reader.observe_range({KEY: LOCATOR}, TICKS)
    assert [(start, end) for _, start, end in api.asked] == [(AT - 30, AT)] * 4
    assert past.failures == ()
    assert list(past.observations) == [await reader.observe({KEY: LOCATOR}, at) for at in TICKS]


async def test_one_tick_is_a_past_too() -> None:
    past = await MetricsReader(only(Api(healthy)), NAMES).observe_range({KEY: LOCATOR}, [AT])
    assert [seen[KEY].at for seen in past.observations] == [AT]


@pytest.mark.parametrize(
    ("error", "failures"),
    [
        pytest.param(PrometheusTimeoutError("too slow"), ("latency: too slow",), id="asking again may help"),
        pytest.param(PrometheusRejectedError("parse error"), (), id="it will be refused the next time too"),
    ],
)
async def test_a_failed_range_is_missing_and_told_where_asking_again_may_help(
    error: PrometheusError, failures: tuple[str, ...]
) -> None:
    def rule(expr: str) -> tuple[Sample, ...]:
        if "histogram_quantile" in expr:
            raise error
        return healthy(expr)

    past = await MetricsReader(only(Api(rule)), NAMES).observe_range({KEY: LOCATOR}, TICKS)
    assert past.failures == failures
    assert [(seen[KEY].running, seen[KEY].ttft_p95_s) for seen in past.observations] == [(4, Absent.MISSING)] * 3


async def test_a_fault_of_the_client_in_a_read_of_the_past_is_a_failure() -> None:
    def rule(_: str) -> tuple[Sample, ...]:
        raise ZeroDivisionError("what nobody thought of")

    with capture_logs() as logs:
        past = await MetricsReader(only(Api(rule)), NAMES).observe_range({KEY: LOCATOR}, TICKS)
    assert past.observations == ()
    assert "ZeroDivisionError" in past.failures[0]
    assert [log["event"] for log in logs] == ["reading_failed"]


async def test_pools_whose_queries_are_spoilt_by_another_keep_their_readings_now_and_in_the_past() -> None:
    spoiler = PoolKey("team-1", "llama", "0badcafe")
    pools = {KEY: LOCATOR, spoiler: replace(LOCATOR, namespace="team-1")}

    def rule(expr: str) -> tuple[Sample, ...]:
        if "team-1" in expr and "reason" in expr:
            raise PrometheusTimeoutError("too many rows")
        return healthy(expr)

    class Patient(Api):
        def deadline(self) -> float:
            return math.inf

    api = Patient(rule)
    reader = MetricsReader(only(api), NAMES)
    seen = await reader.observe(pools, AT)
    assert (seen[KEY].running, seen[spoiler].running) == (4, Absent.MISSING)
    api.asked.clear()
    past = await reader.observe_range(pools, TICKS)
    assert past.failures == (), "what is known to fail is no reason to wait"
    assert [(each[KEY].running, each[spoiler].running) for each in past.observations] == [(4, Absent.MISSING)] * 3
    assert len(api.asked) == 4
