"""How long it takes from a start of the service until its pools have decisions, against their number.

    make bench-restart        (BENCH_ARGS=--quick for a smaller one)

The service runs in a process of its own as `vllm-scaler serve` runs it. A stand-in for KEDA asks each pool for its
metric's name and then for its value, all pools at once, and again until all have an answer. Then, in a process of its
own, the past of the same pools is read as it is after a start. Prometheus is stood in for too: how long a real one
takes comes on top.
"""

import argparse
import asyncio
import sys
import time
from dataclasses import dataclass
from multiprocessing import get_context
from multiprocessing.connection import Connection
from typing import Final

from benchmarks.apart import apart
from benchmarks.backend import backend
from benchmarks.keda import METRICS, keda
from benchmarks.pools import service
from scaler.adapters import logs
from scaler.adapters.prometheus import Prometheus
from scaler.adapters.reader import MetricsReader, only
from scaler.config.server import ServerSettings
from scaler.promql import LabelNames
from scaler.service.app import running_service
from scaler.service.filling import ticks_to_read
from scaler.service.interpreter import prepare_interpreter

MOST_S: Final = 15.0
"""All pools are to have decisions within one evaluation interval of the first call."""
_GIVE_UP_S: Final = 60.0


@dataclass(frozen=True, slots=True)
class Restart:
    """Seconds of a start until it serves, and of the first call until the first pool and all pools have an answer."""

    pools: int
    serving_s: float
    first_s: float
    all_s: float


@dataclass(frozen=True, slots=True)
class Past:
    """Ticks of the past that were read for each pool, the seconds that it took, and whether it came to its end."""

    ticks: int
    seconds: float
    complete: bool


async def _serve(url: str, ready: Connection) -> None:
    settings = ServerSettings(
        grpc_host="127.0.0.1", grpc_port=0, http_host="127.0.0.1", http_port=0, prometheus_url=url
    )
    prometheus = Prometheus(
        settings.prometheus_url,
        timeout_s=settings.query_timeout,
        concurrency=settings.query_concurrency,
        max_response_bytes=settings.max_response_bytes,
    )
    async with running_service(settings, reader=MetricsReader(only(prometheus), LabelNames())) as service:
        ready.send(service.grpc_port)
        await service.loops


def _run(url: str, ready: Connection) -> None:
    logs.configure("error", "console")
    prepare_interpreter()
    asyncio.run(_serve(url, ready))


async def _restart(count: int, url: str) -> Restart:
    context = get_context("spawn")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=_run, args=(url, sender))
    started = time.perf_counter()
    process.start()
    try:
        port = await asyncio.to_thread(receiver.recv)
        serving_s = time.perf_counter() - started
        async with keda(port, count) as caller:
            await caller.is_up()
            started, first_s = time.perf_counter(), 0.0
            await caller.ask_each_once("GetMetricSpec")
            while time.perf_counter() - started < _GIVE_UP_S:
                round_at = time.perf_counter() - started
                calls = await caller.ask_each_once(METRICS)
                if calls.failed < calls.made and not first_s:
                    first_s = round_at + min(calls.seconds)
                if not calls.failed:
                    break
            return Restart(count, serving_s, first_s, time.perf_counter() - started)
    finally:
        process.kill()
        process.join()


async def _read_past(count: int, url: str) -> Past:
    async with service(url) as running, keda(running.port, count) as caller:
        while len(running.registry) < count:
            await caller.ask_each_once("GetMetricSpec")
        await running.tick()
        entries = running.registry.entries()
        started = time.perf_counter()
        await running.ticker.fill(entries)
        seconds = time.perf_counter() - started
        return Past(ticks_to_read(entries), seconds, complete=all(entry.filling is None for entry in entries))


def _run_past(count: int, url: str, results: Connection) -> None:
    logs.configure("error", "console")
    prepare_interpreter()
    results.send(asyncio.run(_read_past(count, url)))


def _past(count: int, url: str) -> Past:
    found = apart(_run_past, count, url)
    assert isinstance(found, Past)
    return found


def main() -> int:
    """Measure, print, and return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="100 and 1000 pools only")
    parser.add_argument("--pools", type=int, nargs="+", default=[100, 1000, 10000], help="numbers of pools")
    arguments = parser.parse_args()
    columns = ("pools", "serving after s", "first decision s", "all decisions s", "past, ticks", "past read s")
    print("  ".join(f"{column:>16}" for column in columns), flush=True)
    slow = []
    for count in [100, 1000] if arguments.quick else arguments.pools:
        with backend(count) as url:
            one = asyncio.run(_restart(count, url))
            past = _past(count, url)
        read = f"{past.seconds:.1f}" if past.complete else "given up"
        cells = (str(count), f"{one.serving_s:.2f}", f"{one.first_s:.2f}", f"{one.all_s:.2f}", str(past.ticks), read)
        print("  ".join(f"{cell:>16}" for cell in cells), flush=True)
        if one.all_s > MOST_S:
            slow.append(f"{count} pools: all decisions after {one.all_s:.1f} s, {MOST_S:g} allowed")
    for text in slow:
        print(f"bound broken: {text}")
    return 1 if slow else 0


if __name__ == "__main__":
    sys.exit(main())
