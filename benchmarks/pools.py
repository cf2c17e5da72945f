"""What a tick costs against the number of pools: queries, CPU, memory, and how long KEDA waits meanwhile.

    make bench-pools        (BENCH_ARGS=--quick for a smaller one)

The service's own ticker, reader, registry and gRPC server run in a process of their own; a stand-in for Prometheus and
one for KEDA run in two others, all on the loopback address. The exit status is 1 if a bound does not hold.
"""

import argparse
import asyncio
import resource
import statistics
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial
from multiprocessing.connection import Connection
from typing import Final

from benchmarks.apart import apart
from benchmarks.backend import backend
from benchmarks.keda import keda
from scaler.adapters import logs
from scaler.adapters.prometheus import Prometheus
from scaler.adapters.reader import MetricsReader, only
from scaler.adapters.telemetry import Telemetry
from scaler.config.server import ServerSettings
from scaler.config.trigger import parse_trigger
from scaler.promql import LabelNames
from scaler.service.grpc_server import GrpcServer
from scaler.service.interpreter import prepare_interpreter
from scaler.service.registry import Registry
from scaler.service.servicer import ExternalScaler
from scaler.service.ticker import Ticker

TICK_S: Final = 15.0
SIGNALS: Final = 10
"""Readings of each pool: requested, ready, outdated, fresh, running, waiting, KV cache, TTFT, tokens, preemptions."""
MOST_QUERIES: Final = 12
MOST_CPU_S: Final = 5.0
MOST_P99_S: Final = 0.025
MOST_MEMORY_MIB: Final = 1024.0
FLAT_RATIO: Final = 1.1
"""A pool may cost a tenth more among many than among few: that much one run differs from the next."""
_WINDOW: Final = 20
_IDLE_S: Final = 2.0
_LEAST_TICKING_S: Final = 3.0
_MIB: Final = 1024.0
"""KiB, the unit of ``ru_maxrss`` on Linux, in a MiB."""


@dataclass(frozen=True, slots=True)
class Measured:
    """What was measured with one number of pools; CPU is of the service's process, all its threads."""

    pools: int
    queries: int
    tick_cpu_s: float
    """CPU seconds of a tick while nobody calls."""
    tick_s: float
    """How long that takes."""
    call_cpu_s: float
    """CPU seconds of one call while no tick is evaluated."""
    calls_per_s: float
    """Calls that were made while ticks were evaluated."""
    failed: int
    p50_s: float
    p99_s: float
    memory_mib: float

    @property
    def pool_cpu_s(self) -> float:
        """CPU seconds of a tick for each pool."""
        return self.tick_cpu_s / self.pools

    def broken_bounds(self) -> list[str]:
        """Return the bounds that do not hold."""
        bounds = (
            (self.queries <= MOST_QUERIES, f"{self.queries} queries a tick, {MOST_QUERIES} allowed"),
            (self.tick_cpu_s < MOST_CPU_S, f"{self.tick_cpu_s:.2f} CPU s a tick, {MOST_CPU_S:g} allowed"),
            (self.p99_s < MOST_P99_S, f"p99 of GetMetrics {1000 * self.p99_s:.1f} ms, {1000 * MOST_P99_S:g} allowed"),
            (self.memory_mib < MOST_MEMORY_MIB, f"{self.memory_mib:.0f} MiB, {MOST_MEMORY_MIB:g} allowed"),
            (self.failed == 0, f"{self.failed} calls failed"),
        )
        return [f"{self.pools} pools: {text}" for holds, text in bounds if not holds]


class SteppedClock:
    """A clock that goes from tick to tick when it is told to; ticks are called for, so nobody sleeps by it."""

    def __init__(self) -> None:
        self._now = time.time() // TICK_S * TICK_S + 1

    def now(self) -> float:
        """Return Unix time in seconds, one second past a tick."""
        return self._now

    def monotonic(self) -> float:
        """Return the same."""
        return self._now

    async def sleep_until(self, at: float) -> None:
        """Nobody sleeps by this clock."""
        raise NotImplementedError(at)

    def step(self) -> None:
        """Go to the next tick."""
        self._now += TICK_S


@dataclass
class Service:
    """The parts of a service that has been put together, and how many queries it has made."""

    clock: SteppedClock
    registry: Registry
    ticker: Ticker
    port: int
    queries: int = 0

    async def tick(self) -> None:
        """Evaluate the next tick."""
        self.clock.step()
        self.queries = 0
        await self.ticker.tick()

    def fill_windows(self) -> None:
        """Put copies of the newest tick under it, as if it had been so all along."""
        for entry in self.registry.entries():
            newest = entry.history.ticks[-1]
            past = (replace(newest, at=newest.at - back * TICK_S) for back in range(_WINDOW, 0, -1))
            entry.history = replace(entry.history, ticks=(*past, newest))
            entry.filling = None


@asynccontextmanager
async def service(url: str) -> AsyncIterator[Service]:
    """Put the service together as ``scaler.service.app`` does, but with ticks that are called for."""
    settings = ServerSettings(grpc_host="127.0.0.1", grpc_port=0, prometheus_url=url, query_timeout=TICK_S)
    clock, telemetry = SteppedClock(), Telemetry()
    registry = Registry(clock, max_pools=settings.max_pools, idle_timeout_s=settings.pool_idle_timeout)
    prometheus = Prometheus(
        settings.prometheus_url,
        timeout_s=settings.query_timeout,
        concurrency=settings.query_concurrency,
        max_response_bytes=settings.max_response_bytes,
    )

    def on_query(backend: str, name: str, seconds: float, error: str | None) -> None:
        if error is not None:
            sys.exit(f"the query {name} failed after {seconds:.1f} s: {error}")
        running.queries += 1
        telemetry.query_done(backend, name, seconds, error)

    reader = MetricsReader(only(prometheus), LabelNames(), on_query=on_query)
    ticker = Ticker(registry, reader, clock, telemetry, interval_s=TICK_S, max_hold_age_s=settings.max_hold_age)
    servicer = ExternalScaler(
        registry,
        clock,
        telemetry,
        parse=partial(parse_trigger, tick_s=TICK_S),
        max_hold_age_s=settings.max_hold_age,
        first_answer_timeout_s=settings.first_answer_timeout,
        max_streams=settings.max_concurrent_rpcs // 2,
        max_stream_s=settings.max_connection_age_grace,
        max_cached=settings.max_pools,
    )
    server = GrpcServer(settings, servicer)
    await server.start()
    running = Service(clock, registry, ticker, server.port)
    try:
        yield running
    finally:
        await server.stop(0)
        prometheus.close()


async def measure(count: int, url: str, ticks: int) -> Measured:
    """Measure one number of pools in this process.

    Args:
        count: Pools.
        url: The stand-in for Prometheus.
        ticks: The least number of ticks of each kind.
    """
    async with service(url) as running, keda(running.port, count) as caller:
        while len(running.registry) < count:
            await caller.ask_each_once("GetMetricSpec")
        await running.tick()
        running.fill_windows()
        await running.tick()
        quiet = [await _timed(running) for _ in range(ticks)]
        queries = running.queries

        cpu_s = time.process_time()
        caller.start_calling()
        await asyncio.sleep(_IDLE_S)
        idle = await caller.stop_calling()
        call_cpu_s = (time.process_time() - cpu_s) / max(1, idle.made)

        started, done = time.perf_counter(), 0
        caller.start_calling()
        while done < ticks or time.perf_counter() - started < _LEAST_TICKING_S:
            await running.tick()
            done += 1
        busy, seconds = await caller.stop_calling(), time.perf_counter() - started
    percentiles = statistics.quantiles(busy.seconds, n=100)
    return Measured(
        pools=count,
        queries=queries,
        tick_cpu_s=statistics.median(cpu_s for cpu_s, _ in quiet),
        tick_s=statistics.median(wall_s for _, wall_s in quiet),
        call_cpu_s=call_cpu_s,
        calls_per_s=busy.made / seconds,
        failed=idle.failed + busy.failed,
        p50_s=percentiles[49],
        p99_s=percentiles[98],
        memory_mib=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / _MIB,
    )


async def _timed(running: Service) -> tuple[float, float]:
    """Evaluate a tick; return its CPU and its seconds."""
    cpu_s, started = time.process_time(), time.perf_counter()
    await running.tick()
    return time.process_time() - cpu_s, time.perf_counter() - started


def _measure(count: int, url: str, ticks: int, results: Connection) -> None:
    logs.configure("warning", "console")
    prepare_interpreter()
    results.send(asyncio.run(measure(count, url, ticks)))


def _in_own_process(count: int, ticks: int) -> Measured:
    with backend(count) as url:
        found = apart(_measure, count, url, ticks)
    assert isinstance(found, Measured)
    return found


_COLUMNS: Final = (
    "pools",
    "queries",
    "of one each",
    "CPU s/tick",
    "ms CPU/pool",
    "s/tick",
    "us CPU/call",
    "calls/s",
    "p50 ms",
    "p99 ms",
    "MiB",
)


def _print_row(one: Measured) -> None:
    cells = (
        f"{one.pools}",
        f"{one.queries}",
        f"1/{one.pools * SIGNALS / one.queries:.0f}",
        f"{one.tick_cpu_s:.2f}",
        f"{1000 * one.pool_cpu_s:.3f}",
        f"{one.tick_s:.2f}",
        f"{1e6 * one.call_cpu_s:.0f}",
        f"{one.calls_per_s:.0f}",
        f"{1000 * one.p50_s:.1f}",
        f"{1000 * one.p99_s:.1f}",
        f"{one.memory_mib:.0f}",
    )
    print("  ".join(f"{cell:>11}" for cell in cells), flush=True)


def main() -> int:
    """Measure, print, and return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="100 and 1000 pools only")
    parser.add_argument("--pools", type=int, nargs="+", default=[100, 1000, 10000], help="numbers of pools")
    arguments = parser.parse_args()
    counts = [100, 1000] if arguments.quick else arguments.pools
    print("  ".join(f"{column:>11}" for column in _COLUMNS), flush=True)
    all_measured = []
    for count in counts:
        all_measured.append(_in_own_process(count, ticks=2))
        _print_row(all_measured[-1])
    broken = [text for one in all_measured for text in one.broken_bounds()]
    first, last = all_measured[0], all_measured[-1]
    if last.pool_cpu_s > FLAT_RATIO * first.pool_cpu_s:
        broken.append(f"a pool costs more CPU among {last.pools} than among {first.pools}")
    for text in broken:
        print(f"bound broken: {text}")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
