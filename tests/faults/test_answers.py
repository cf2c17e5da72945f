"""Prometheus answers, but not as it should: every fault at the same time, each to a service and a pool of its own."""

import asyncio
import json
import time
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.faults.fleet import Fleet, watching
from tests.faults.keda import Heard, Keda
from tests.faults.proxy import Fault, Proxy, Reply, always, changed, proxied, refusal
from tests.faults.service import Scaled, scaled

BLIND_TICKS = 4
"""One more than the window within which fewer replicas would do."""


def slow(proxy: Proxy) -> Fault:
    def fault(_expr: str, ask: Callable[[], Reply]) -> Reply:
        proxy.over.wait(5)
        return ask()

    return fault


def truncated(_: Proxy) -> Fault:
    return lambda _expr, ask: Reply(200, ask().body[:-40])


def broken_off(_: Proxy) -> Fault:
    return lambda _expr, ask: Reply(200, ask().body[:-40], cut=40)


def huge(_: Proxy) -> Fault:
    row = {"metric": {"namespace": "elsewhere", "pod": "p" * 200}, "value": [time.time(), "1"]}
    answer = {"status": "success", "data": {"resultType": "vector", "result": [row] * 4000}}
    return always(Reply(200, json.dumps(answer).encode()))


def partial(_: Proxy) -> Fault:
    """Half of the rows, with the warning of Thanos."""

    def halve(answer: dict[str, object]) -> None:
        data = answer.get("data")
        assert isinstance(data, dict)
        data["result"] = data["result"][::2]
        answer["warnings"] = ["fetch series for store 10.0.0.7: connection refused"]

    return changed(halve)


FAULTS: dict[str, Callable[[Proxy], Fault]] = {
    "slow": slow,
    "busy": lambda _: always(Reply(503, b"Service Unavailable", "text/plain")),
    "html": lambda _: always(Reply(200, b"<html><body>Log in</body></html>", "text/html")),
    "truncated": truncated,
    "broken off": broken_off,
    "refused": lambda _: always(refusal(422, "execution", "found duplicate series for the match group")),
    "huge": huge,
    "partial": partial,
}


@dataclass(frozen=True)
class Seen:
    """What happened to one pool.

    Args:
        keda: All that KEDA heard, from when 4 replicas had been decided until 6 were.
        during: What KEDA heard in the fault.
        notes: What the decision said then.
        errors: How queries failed, as own metrics have it.
    """

    keda: Keda
    during: list[Heard]
    notes: str
    errors: set[str]


async def suffer(pool: Scaled, proxy: Proxy, fault: Callable[[Proxy], Fault]) -> Seen:
    """Take a pool through a fault: 4 replicas before; afterwards a load that needs 6."""
    await pool.settles(4)
    pool.keda.heard.clear()
    began = time.monotonic()
    proxy.fault = fault(proxy)
    await pool.is_blind_for(BLIND_TICKS)
    notes, during = pool.notes, pool.keda.since(began)
    errors = {
        kind
        for kind in ("timeout", "rejected", "unavailable", "partial", "decode", "oversize")
        if pool.sample(f'vllm_scaler_query_errors_total{{backend="default",error="{kind}",query="replicas"}}')
    }
    proxy.fault = None
    proxy.over.set()
    pool.fleet.load = 22.0
    await pool.settles(6)
    return Seen(pool.keda, during, notes, errors)


async def suffer_all(folder: Path) -> dict[str, Seen]:
    fleets = [Fleet(f"team-{number}") for number in range(len(FAULTS))]
    async with AsyncExitStack() as stack:
        prometheus = stack.enter_context(watching(fleets, folder))
        sufferers = []
        for fleet, fault in zip(fleets, FAULTS.values(), strict=True):
            proxy = stack.enter_context(proxied(prometheus.url))
            pool = await stack.enter_async_context(scaled(proxy.url, fleet))
            sufferers.append(suffer(pool, proxy, fault))
        return dict(zip(FAULTS, await asyncio.gather(*sufferers), strict=True))


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory, prometheus_bin: Path) -> dict[str, Seen]:
    assert prometheus_bin
    return asyncio.run(suffer_all(tmp_path_factory.mktemp("answers")))


def check(seen: Seen, *, error: str, words: str) -> None:
    """4 replicas all through the fault, no lower answer at any time, and the reason in words and in the metrics."""
    assert len(seen.during) > 2
    assert {one.value for one in seen.during} == {4.0}
    assert seen.keda.lowered() == []
    assert seen.keda.value == 6.0
    assert words in seen.notes
    assert error in seen.errors


def test_slow_answers(seen: dict[str, Seen]) -> None:
    check(seen["slow"], error="timeout", words="did not answer in")


def test_http_503(seen: dict[str, Seen]) -> None:
    check(seen["busy"], error="unavailable", words="HTTP 503: Service Unavailable")


def test_html_in_place_of_json(seen: dict[str, Seen]) -> None:
    check(seen["html"], error="decode", words="check that the address is that of Prometheus")


def test_truncated_json(seen: dict[str, Seen]) -> None:
    check(seen["truncated"], error="decode", words="is cut off")


def test_an_answer_that_breaks_off(seen: dict[str, Seen]) -> None:
    check(seen["broken off"], error="decode", words="broke off")


def test_http_422(seen: dict[str, Seen]) -> None:
    check(seen["refused"], error="rejected", words="HTTP 422: execution: found duplicate series")


def test_a_huge_answer(seen: dict[str, Seen]) -> None:
    check(seen["huge"], error="oversize", words="longer than 65536 bytes")


def test_a_partial_answer(seen: dict[str, Seen]) -> None:
    check(seen["partial"], error="partial", words="the answer is incomplete")
