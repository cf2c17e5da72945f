"""KEDA's calls from a process of its own, at the rate that a cluster makes them.

Each ScaledObject is asked for its metric by the HPA every 15 s and by KEDA's own loop every 30 s, which also asks
whether it is active and what its metric is: about 0.2 calls a second and pool.
"""

import asyncio
import random
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from multiprocessing import get_context
from multiprocessing.connection import Connection
from typing import Any, Final

import grpc

from benchmarks.fleet import BenchPool, bench_pools
from scaler.protos import externalscaler_pb2 as pb

CALLS_PER_POOL_S: Final = 0.2
_SERVICE: Final = "/externalscaler.ExternalScaler"
METRICS: Final = "GetMetrics"
"""The call whose time is measured."""
# Of ten calls five are for the metric, three ask for activity, two for the specification.
_MIX: Final = (METRICS,) * 5 + ("IsActive",) * 3 + ("GetMetricSpec",) * 2
_AT_ONCE: Final = 200
# KEDA has a loop for each ScaledObject, and none of them waits for the others.
_ALL_AT_ONCE: Final = 2000
_START: Final = "start"
_STOP: Final = "stop"
_WAKE: Final = "wake"
_SLICE_S: Final = 0.002


_Call = Callable[[bytes], Coroutine[Any, Any, bytes]]


@dataclass
class Calls:
    """What came of the calls.

    Args:
        made: How many there were.
        failed: How many were refused.
        last_error: Why the last of those was.
        seconds: How long each ``GetMetrics`` took, as the client saw it.
    """

    made: int = 0
    failed: int = 0
    last_error: str = ""
    seconds: list[float] = field(default_factory=list)


@asynccontextmanager
async def keda(port: int, count: int) -> AsyncIterator["Keda"]:
    """Run a KEDA in a process of its own for as long as the context lasts.

    Args:
        port: The service's gRPC port on the loopback address.
        count: Pools that it asks for.
    """
    context = get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=_run, args=(port, count, theirs))
    process.start()
    try:
        yield Keda(ours)
    finally:
        process.kill()
        process.join()


class Keda:
    """Tells the process what to call."""

    def __init__(self, orders: Connection) -> None:
        self._orders = orders

    async def is_up(self) -> None:
        """Wait until the process is there."""
        self._orders.send(_WAKE)
        await self._answer()

    async def ask_each_once(self, method: str) -> "Calls":
        """Make one call for each pool, many at once."""
        self._orders.send(method)
        return await self._answer()

    def start_calling(self) -> None:
        """Make calls at KEDA's rate until ``stop_calling``."""
        self._orders.send(_START)

    async def stop_calling(self) -> "Calls":
        """Return what came of the calls since ``start_calling``."""
        self._orders.send(_STOP)
        return await self._answer()

    async def _answer(self) -> "Calls":
        answer = await asyncio.to_thread(self._orders.recv)
        assert isinstance(answer, Calls)
        return answer


def _run(port: int, count: int, orders: Connection) -> None:
    asyncio.run(_obey(port, bench_pools(count), orders))


async def _obey(port: int, pools: Sequence[BenchPool], orders: Connection) -> None:
    refs = [pb.ScaledObjectRef(name=one.name, namespace=one.namespace, scalerMetadata=one.metadata()) for one in pools]
    plain = [ref.SerializeToString() for ref in refs]
    metrics = [
        pb.GetMetricsRequest(scaledObjectRef=ref, metricName="target-replicas").SerializeToString() for ref in refs
    ]
    messages = {method: metrics if method == METRICS else plain for method in set(_MIX)}
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        calls: dict[str, Any] = {method: channel.unary_unary(f"{_SERVICE}/{method}", None, None) for method in messages}
        while True:
            order = await asyncio.to_thread(orders.recv)
            if order == _WAKE:
                orders.send(Calls())
            elif order == _START:
                orders.send(await _call_until_told(calls, messages, orders))
            else:
                orders.send(await _each_once(calls[order], messages[order]))


async def _each_once(call: _Call, messages: Sequence[bytes]) -> Calls:
    made, gate = Calls(), asyncio.Semaphore(_ALL_AT_ONCE)

    async def one(message: bytes) -> None:
        async with gate:
            await _made(call, message, made, timed=True)

    await asyncio.gather(*(one(message) for message in messages))
    return made


async def _call_until_told(
    calls: Mapping[str, Any], messages: Mapping[str, Sequence[bytes]], orders: Connection
) -> Calls:
    """Make calls at KEDA's rate until the next order comes."""
    made, under_way, draw = Calls(), set[asyncio.Task[None]](), random.Random(1)
    rate, started, begun = len(messages[METRICS]) * CALLS_PER_POOL_S, time.perf_counter(), 0
    while not orders.poll():
        due = int((time.perf_counter() - started) * rate)
        while begun < due and len(under_way) < _AT_ONCE:
            begun += 1
            method = draw.choice(_MIX)
            message = draw.choice(messages[method])
            task = asyncio.create_task(_made(calls[method], message, made, timed=method == METRICS))
            under_way.add(task)
            task.add_done_callback(under_way.discard)
        await asyncio.sleep(_SLICE_S)
    orders.recv()
    await asyncio.gather(*under_way)
    return made


async def _made(call: _Call, message: bytes, made: Calls, *, timed: bool) -> None:
    started = time.perf_counter()
    try:
        await call(message)
    except grpc.aio.AioRpcError as error:
        made.failed += 1
        made.last_error = f"{error.code().name}: {error.details()}"
    made.made += 1
    if timed:
        made.seconds.append(time.perf_counter() - started)
