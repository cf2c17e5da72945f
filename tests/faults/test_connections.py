"""Clients that open more than they should, while KEDA is served as before."""

import asyncio
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from pathlib import Path

import grpc
import pytest

from scaler.protos import externalscaler_pb2_grpc as pb_grpc
from tests.faults.fleet import Fleet, Shared
from tests.faults.keda import PATIENCE_S, Keda, keda, side_by_side, until
from tests.faults.service import ServiceProcess, StartService, scaled

STREAMS = 200
CONNECTIONS = 1000
_OPENED_AT_ONCE = 100


async def is_served(client: Keda, polls: int = 10) -> None:
    """Wait until KEDA has been answered so many times more."""
    before = len(client.heard)
    await until(lambda: len(client.heard) >= before + polls)
    assert None not in {one.value for one in client.heard[before:]}


async def many_streams(url: str, fleet: Fleet) -> None:
    async with scaled(url, fleet) as pool, AsyncExitStack() as stack:
        await pool.settles(4)
        pool.keda.heard.clear()
        channel = await stack.enter_async_context(grpc.aio.insecure_channel(f"127.0.0.1:{pool.service.grpc_port}"))
        stub = pb_grpc.ExternalScalerStub(channel)
        streams = [stub.StreamIsActive(fleet.ref()) for _ in range(STREAMS)]
        firsts = await asyncio.wait_for(asyncio.gather(*(stream.read() for stream in streams)), PATIENCE_S)
        assert {first.result for first in firsts} == {True}
        assert pool.sample("vllm_scaler_grpc_streams") == STREAMS
        more = [asyncio.ensure_future(stream.read()) for stream in streams]
        fleet.is_out_of_reach = True
        await pool.is_blind_for(3)
        await is_served(pool.keda)
        assert pool.sample("vllm_scaler_grpc_streams") == STREAMS
        fleet.is_out_of_reach = False
        fleet.load = 22.0
        await pool.settles(6)
        assert pool.keda.lowered() == []
        assert not any(read.done() for read in more), "a stream that says true again is taken for fresh activity"
        for stream in streams:
            stream.cancel()
        await asyncio.wait(more)
        await until(lambda: pool.sample("vllm_scaler_grpc_streams") == 0)


def open_files(service: ServiceProcess) -> int:
    return sum(1 for _ in Path(f"/proc/{service.pid}/fd").iterdir())


async def many_connections(service: ServiceProcess, fleet: Fleet) -> None:
    async with keda([service.port], fleet) as client:
        await client.hears(4.0)
        client.heard.clear()
        before = open_files(service)
        writers: list[asyncio.StreamWriter] = []
        for port in (service.port, service.http_port):
            for _ in range(CONNECTIONS // 2 // _OPENED_AT_ONCE):
                opened = (asyncio.open_connection("127.0.0.1", port) for _ in range(_OPENED_AT_ONCE))
                writers += [writer for _, writer in await asyncio.gather(*opened)]
        assert len(writers) == CONNECTIONS
        await is_served(client)
        fleet.load = 22.0
        await client.hears(6.0)
        async with keda([service.port], fleet) as another:
            await another.hears(6.0)
        for writer in writers:
            writer.close()
        await until(lambda: open_files(service) < before + 10)
        assert client.lowered() == []


@pytest.fixture(scope="module")
def outcomes(shared: Shared, start_service: StartService) -> Mapping[str, Callable[[], None]]:
    streams, connections = shared.take(2)
    return side_by_side(
        {
            "streams": many_streams(shared.url, streams),
            "connections": many_connections(start_service(), connections),
        }
    )


def test_two_hundred_streams_are_open_while_prometheus_is_away(outcomes: Mapping[str, Callable[[], None]]) -> None:
    outcomes["streams"]()


def test_a_client_opens_a_thousand_connections(outcomes: Mapping[str, Callable[[], None]]) -> None:
    outcomes["connections"]()
