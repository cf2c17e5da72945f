"""The service put together: pools, tick loop, gRPC and HTTP, from its start to its graceful end."""

import asyncio
import signal
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import partial

import structlog

import scaler
from scaler.adapters.clock import Clock, SystemClock
from scaler.adapters.reader import MetricsReader
from scaler.adapters.telemetry import Telemetry
from scaler.config.server import ServerSettings
from scaler.config.trigger import parse_trigger
from scaler.promql import LabelNames
from scaler.service.backends import connected
from scaler.service.grpc_server import GrpcServer
from scaler.service.http import HEARTBEAT_S, HttpServer, Vitals
from scaler.service.interpreter import prepare_interpreter
from scaler.service.registry import Registry
from scaler.service.servicer import ExternalScaler
from scaler.service.ticker import Reader, Ticker

_LOG = structlog.stdlib.get_logger("scaler.service")


@dataclass(frozen=True, slots=True)
class RunningService:
    """A service that answers KEDA.

    ``loops`` runs until the service is stopped; it ends earlier only by an error that nothing survives.
    """

    grpc_port: int
    http_port: int
    ticker: Ticker
    loops: asyncio.Task[None]


@asynccontextmanager
async def running_service(
    settings: ServerSettings, *, reader: Reader, clock: Clock | None = None, telemetry: Telemetry | None = None
) -> AsyncIterator[RunningService]:
    """Run the service for as long as the context lasts, and stop it gracefully.

    Args:
        settings: Addresses, limits and times; a port of 0 takes any free one.
        reader: Where observations come from.
        clock: The source of time; the machine's by default.
        telemetry: Own metrics; new ones by default.

    Yields:
        The running service, with the ports it got.

    Raises:
        StartError: A port cannot be bound, or certificates cannot be used.
    """
    clock = clock or SystemClock()
    telemetry = telemetry or Telemetry()
    registry = Registry(clock, max_pools=settings.max_pools, idle_timeout_s=settings.pool_idle_timeout)
    telemetry.pools, telemetry.now = registry.views, clock.now
    ticker = Ticker(
        registry,
        reader,
        clock,
        telemetry,
        interval_s=settings.evaluation_interval,
        max_hold_age_s=settings.max_hold_age,
    )
    vitals = Vitals()
    async with AsyncExitStack() as stack:
        http = HttpServer(settings.http_host, settings.http_port, telemetry, vitals)
        stack.push_async_callback(asyncio.to_thread, http.close)
        server = GrpcServer(settings, _servicer(settings, registry, clock, telemetry))
        loops = asyncio.create_task(_run_loops(ticker, vitals))
        stack.push_async_callback(_cancel, loops)
        await server.start()
        stack.push_async_callback(server.stop, settings.shutdown_grace)
        vitals.not_ready = None
        try:
            yield RunningService(server.port, http.port, ticker, loops)
        finally:
            vitals.not_ready = "shutting down"


def run(settings: ServerSettings) -> None:
    """Serve until SIGTERM or SIGINT, then finish what is under way. Logging is set up by the caller.

    Args:
        settings: All settings of the service.

    Raises:
        StartError: A port cannot be bound, or certificates or files of a backend cannot be used.
    """
    prepare_interpreter()
    asyncio.run(_serve(settings))


async def _serve(settings: ServerSettings) -> None:
    stop = asyncio.Event()
    for signal_number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(signal_number, stop.set)
    telemetry = Telemetry()
    names = LabelNames(settings.namespace_label, settings.pod_label, settings.instance_label)
    with connected(settings.every_backend()) as backends:
        reader = MetricsReader(backends, names, queries=settings.queries, on_query=telemetry.query_done)
        async with running_service(settings, reader=reader, telemetry=telemetry) as service:
            _LOG.info(
                "started",
                version=scaler.__version__,
                grpc=f"{settings.grpc_host}:{service.grpc_port}",
                http=f"{settings.http_host}:{service.http_port}",
                tls=settings.tls_cert_file is not None,
                settings=settings.model_dump(mode="json"),
            )
            await _until_stopped(stop, service.loops)
            _LOG.info("stopping", grace_s=settings.shutdown_grace)
    _LOG.info("stopped")


async def _until_stopped(stop: asyncio.Event, loops: asyncio.Task[None]) -> None:
    """Wait for a signal, or for the loops to end by an error: then a new process is better than none that decides."""
    stopped = asyncio.create_task(stop.wait())
    await asyncio.wait((stopped, loops), return_when=asyncio.FIRST_COMPLETED)
    stopped.cancel()
    if loops.done():
        loops.result()


def _servicer(settings: ServerSettings, registry: Registry, clock: Clock, telemetry: Telemetry) -> ExternalScaler:
    return ExternalScaler(
        registry,
        clock,
        telemetry,
        parse=partial(
            parse_trigger,
            tick_s=settings.evaluation_interval,
            namespace_label=settings.namespace_label,
            queries=settings.queries,
            backends=settings.every_backend(),
        ),
        max_hold_age_s=settings.max_hold_age,
        first_answer_timeout_s=settings.first_answer_timeout,
        # The other half is left to calls, which must get through however many streams there are.
        max_streams=settings.max_concurrent_rpcs // 2,
        max_stream_s=settings.max_connection_age_grace,
        max_cached=settings.max_pools,
    )


async def _run_loops(ticker: Ticker, vitals: Vitals) -> None:
    async with asyncio.TaskGroup() as group:
        group.create_task(ticker.run())
        group.create_task(_beat(vitals))


async def _beat(vitals: Vitals) -> None:
    while True:
        vitals.beat()
        await asyncio.sleep(HEARTBEAT_S)


async def _cancel(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.wait((task,))
