"""A running service on free ports, with a clock and readings that the test chooses, and a client that is connected."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final

import grpc

from scaler.adapters.telemetry import Telemetry
from scaler.config.server import ServerSettings
from scaler.protos import externalscaler_pb2 as pb
from scaler.protos import externalscaler_pb2_grpc as pb_grpc
from scaler.service.app import RunningService, running_service
from tests.builders import TICK_S
from tests.fakes import FakeReader, ManualClock, eventually

METADATA: Final = {
    "scalerAddress": "scaler.keda:50051",
    "deployment": "vllm",
    "modelName": "llama",
    "slotsPerReplica": "4",
    "maxReplicas": "20",
}


def ref(name: str = "vllm", **changes: str | None) -> pb.ScaledObjectRef:
    """A ScaledObject's trigger as KEDA sends it; a change to None leaves the key out."""
    metadata = {key: value for key, value in (METADATA | changes).items() if value is not None}
    return pb.ScaledObjectRef(name=name, namespace="serving", scalerMetadata=metadata)


def metrics_of(trigger: pb.ScaledObjectRef, metric: str = "target-replicas") -> pb.GetMetricsRequest:
    """KEDA's request for the metric of a trigger."""
    return pb.GetMetricsRequest(scaledObjectRef=trigger, metricName=metric)


@dataclass
class Served:
    """A service and what surrounds it."""

    service: RunningService
    clock: ManualClock
    reader: FakeReader
    telemetry: Telemetry
    channel: grpc.aio.Channel
    stub: Any

    async def next_tick(self) -> None:
        """Let an interval pass, and wait until the tick in it is evaluated."""
        done = self.ticks()
        self.clock.advance(TICK_S)
        await eventually(lambda: self.ticks() > done)

    def ticks(self) -> float:
        """How many ticks were evaluated."""
        return self.sample("vllm_scaler_ticks_total")

    def sample(self, series: str) -> float:
        """A series' value by its name and labels as they are written; 0 where there is none."""
        rows = self.telemetry.exposition()[0].decode().splitlines()
        return next((float(row.rsplit(" ", 1)[1]) for row in rows if row.startswith(series)), 0.0)

    async def refusal(self, call: Any) -> tuple[grpc.StatusCode, str]:
        """The status with which a call is refused, and its text."""
        try:
            answer = await call
        except grpc.aio.AioRpcError as error:
            return error.code(), error.details() or ""
        raise AssertionError(f"answered with {answer}")


def settings(**changes: Any) -> ServerSettings:
    """Settings for free ports of the loopback address."""
    return ServerSettings(
        **({"grpc_host": "127.0.0.1", "grpc_port": 0, "http_host": "127.0.0.1", "http_port": 0} | changes)
    )


@asynccontextmanager
async def serving(
    reader: FakeReader | None = None,
    *,
    credentials: grpc.ChannelCredentials | None = None,
    **changes: Any,
) -> AsyncIterator[Served]:
    """Run a service one second past a tick, and connect to it. The client outlives the service."""
    clock, reader, telemetry = ManualClock(), reader or FakeReader(), Telemetry()
    clock.advance(1)
    channel: grpc.aio.Channel | None = None
    try:
        async with running_service(settings(**changes), reader=reader, clock=clock, telemetry=telemetry) as service:
            channel = _connect(service.grpc_port, credentials)
            yield Served(service, clock, reader, telemetry, channel, pb_grpc.ExternalScalerStub(channel))
    finally:
        if channel is not None:
            await channel.close(None)


def _connect(port: int, credentials: grpc.ChannelCredentials | None) -> grpc.aio.Channel:
    if credentials is None:
        return grpc.aio.insecure_channel(f"127.0.0.1:{port}")
    return grpc.aio.secure_channel(f"localhost:{port}", credentials)
