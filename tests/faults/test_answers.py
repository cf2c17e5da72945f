"""Prometheus answers, but not as it should: every fault at the same time, each to a service and a pool of its own."""

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

import pytest

from tests.faults.fleet import Fleet, Shared
from tests.faults.keda import Heard, Keda, side_by_side
from tests.faults.proxy import Fault, Proxy, Reply, always, changed, proxied, refusal
from tests.faults.service import Scaled, scaled

BLIND_TICKS = 3
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


Outcomes: TypeAlias = Mapping[str, Callable[[], Seen]]


async def suffer(url: str, fleet: Fleet, fault: Callable[[Proxy], Fault]) -> Seen:
    """Take a pool through a fault: 4 replicas before; afterwards a load that needs 6."""
    with proxied(url) as proxy:
        async with scaled(proxy.url, fleet) as pool:
            return await go_through(pool, proxy, fault(proxy))


async def go_through(pool: Scaled, proxy: Proxy, fault: Fault) -> Seen:
    await pool.settles(4)
    pool.keda.heard.clear()
    began = time.monotonic()
    proxy.fault = fault
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


@pytest.fixture(scope="module")
def seen(shared: Shared) -> Outcomes:
    fleets = zip(FAULTS.items(), shared.take(len(FAULTS)), strict=True)
    return side_by_side({name: suffer(shared.url, fleet, fault) for (name, fault), fleet in fleets})


def check(seen: Seen, *, error: str, words: str) -> None:
    """4 replicas all through the fault, no lower answer at any time, and the reason in words and in the metrics."""
    assert len(seen.during) > 2
    assert {one.value for one in seen.during} == {4.0}
    assert seen.keda.lowered() == []
    assert seen.keda.value == 6.0
    assert words in seen.notes
    assert error in seen.errors


def test_slow_answers(seen: Outcomes) -> None:
    check(seen["slow"](), error="timeout", words="did not answer in")


def test_http_503(seen: Outcomes) -> None:
    check(seen["busy"](), error="unavailable", words="HTTP 503: Service Unavailable")


def test_html_in_place_of_json(seen: Outcomes) -> None:
    check(seen["html"](), error="decode", words="check that the address is that of Prometheus")


def test_truncated_json(seen: Outcomes) -> None:
    check(seen["truncated"](), error="decode", words="is cut off")


def test_an_answer_that_breaks_off(seen: Outcomes) -> None:
    check(seen["broken off"](), error="decode", words="broke off")


def test_http_422(seen: Outcomes) -> None:
    check(seen["refused"](), error="rejected", words="HTTP 422: execution: found duplicate series")


def test_a_huge_answer(seen: Outcomes) -> None:
    check(seen["huge"](), error="oversize", words="longer than 65536 bytes")


def test_a_partial_answer(seen: Outcomes) -> None:
    check(seen["partial"](), error="partial", words="the answer is incomplete")
