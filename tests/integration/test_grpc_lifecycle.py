"""Health, reflection, start and stop: what Kubernetes and a person with grpcurl see of the process."""

import asyncio
import json
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from scaler.errors import StartError
from scaler.service.app import running_service
from tests.fakes import FakeReader, eventually
from tests.grpc_service import METADATA, Served, metrics_of, ref, serving, settings

SERVING = health_pb2.HealthCheckResponse.SERVING
NOT_SERVING = health_pb2.HealthCheckResponse.NOT_SERVING


def health(served: Served) -> Any:
    return health_pb2_grpc.HealthStub(served.channel)


@contextmanager
def taken_port() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield listener.getsockname()[1]


@pytest.mark.parametrize("service", ["", "externalscaler.ExternalScaler", "liveness", "readiness"])
async def test_health_is_reported_under_every_name_that_probes_use(service: str) -> None:
    async with serving() as served:
        answer = await health(served).Check(health_pb2.HealthCheckRequest(service=service))
    assert answer.status == SERVING


async def test_health_says_not_serving_before_the_service_stops() -> None:
    async with serving(shutdown_grace=0.2) as served:
        watch = health(served).Watch(health_pb2.HealthCheckRequest())
        assert (await watch.read()).status == SERVING
        next_status = asyncio.ensure_future(watch.read())
    assert (await next_status).status == NOT_SERVING


async def test_a_call_under_way_is_answered_before_the_service_stops() -> None:
    reader = FakeReader(gate=asyncio.Event())
    stopped = False

    async def serve_until(stop: asyncio.Event, started: asyncio.Future[Served]) -> None:
        nonlocal stopped
        async with serving(reader) as served:
            started.set_result(served)
            await stop.wait()
            stopped = True

    stop, started = asyncio.Event(), asyncio.get_running_loop().create_future()
    service = asyncio.create_task(serve_until(stop, started))
    served: Served = await started
    call = asyncio.ensure_future(served.stub.GetMetrics(metrics_of(ref())))
    await eventually(lambda: len(reader.reads) == 1)
    stop.set()
    await eventually(lambda: stopped)
    assert reader.gate is not None
    reader.gate.set()
    assert (await call).metricValues[0].metricValue == 4
    await service


async def test_a_grpc_port_in_use_is_named_with_the_setting() -> None:
    with taken_port() as port, pytest.raises(StartError, match=f"gRPC on 127.0.0.1 port {port}: .*in use.*--grpc-port"):
        async with running_service(settings(grpc_port=port), reader=FakeReader()):
            pass


async def test_an_http_port_in_use_is_named_with_the_setting() -> None:
    with taken_port() as port, pytest.raises(StartError, match=f"HTTP on 127.0.0.1 port {port}: .*in use.*--http-port"):
        async with running_service(settings(http_port=port), reader=FakeReader()):
            pass


async def test_a_service_that_stopped_leaves_its_ports_free() -> None:
    async with running_service(settings(), reader=FakeReader()) as first:
        ports = {"grpc_port": first.grpc_port, "http_port": first.http_port}
    async with running_service(settings(**ports), reader=FakeReader()) as second:
        assert (second.grpc_port, second.http_port) == tuple(ports.values())


async def test_all_addresses_are_served_by_default() -> None:
    async with running_service(settings(grpc_host="[::]", http_host="0.0.0.0"), reader=FakeReader()) as service:
        _, writer = await asyncio.open_connection("127.0.0.1", service.grpc_port)
        writer.close()


async def grpcurl(program: Path, served: Served, *arguments: str) -> str:
    address = f"127.0.0.1:{served.service.grpc_port}"
    process = await asyncio.create_subprocess_exec(
        program, "-plaintext", *arguments[:-1], address, *arguments[-1:], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    out, err = await process.communicate()
    return (out + err).decode()


async def test_grpcurl_lists_and_describes_the_services_without_a_proto(grpcurl_bin: Path) -> None:
    async with serving() as served:
        services = (await grpcurl(grpcurl_bin, served, "list")).split()
        assert services == [
            "externalscaler.ExternalScaler",
            "grpc.health.v1.Health",
            "grpc.reflection.v1alpha.ServerReflection",
        ]
        address = f"127.0.0.1:{served.service.grpc_port}"
        process = await asyncio.create_subprocess_exec(
            grpcurl_bin, "-plaintext", address, "describe", "externalscaler.MetricValue", stdout=subprocess.PIPE
        )
        out, _ = await process.communicate()
    assert "double metricValueFloat = 3;" in out.decode()


async def test_grpcurl_asks_for_the_metric_by_the_protocol_s_json_names(grpcurl_bin: Path) -> None:
    request = {
        "scaledObjectRef": {"name": "vllm", "namespace": "serving", "scalerMetadata": METADATA},
        "metricName": "target-replicas",
    }
    async with serving() as served:
        out = await grpcurl(grpcurl_bin, served, "-d", json.dumps(request), "externalscaler.ExternalScaler/GetMetrics")
    assert json.loads(out) == {
        "metricValues": [{"metricName": "target-replicas", "metricValue": "4", "metricValueFloat": 4}]
    }


def serve(*flags: str) -> subprocess.Popen[str]:
    code = "from scaler.cli.main import main; main()"
    command = [sys.executable, "-c", code, "serve", "--grpc-host", "127.0.0.1", "--http-host", "127.0.0.1", *flags]
    return subprocess.Popen(command, stderr=subprocess.PIPE, text=True)


@pytest.mark.parametrize("signal_number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_the_process_in_good_order(signal_number: signal.Signals) -> None:
    with serve("--grpc-port", "0", "--http-port", "0") as process:
        assert process.stderr is not None
        first = process.stderr.readline()
        process.send_signal(signal_number)
        _, rest = process.communicate(timeout=30)
    assert process.returncode == 0, rest
    started, *later = (json.loads(line) for line in (first, *rest.splitlines()))
    assert started["event"] == "started"
    assert started["settings"]["evaluation_interval"] == 15.0
    assert started["grpc"].startswith("127.0.0.1:")
    assert [record["event"] for record in later] == ["stopping", "stopped"]


def test_a_port_in_use_ends_the_process_with_one_line_and_no_traceback() -> None:
    with taken_port() as port, serve("--grpc-port", str(port), "--http-port", "0") as process:
        _, errors = process.communicate(timeout=30)
    assert process.returncode == 1
    assert len(errors.splitlines()) == 1
    assert f"cannot serve gRPC on 127.0.0.1 port {port}: Address already in use" in errors
