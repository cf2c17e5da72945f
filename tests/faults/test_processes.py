"""A service is killed: in the middle of a scale-up, beside another, and under a client that must find it again."""

import asyncio
import time
from collections.abc import Callable, Mapping
from typing import TypeAlias

import grpc
import pytest

from tests.faults.fleet import Fleet, Shared
from tests.faults.keda import Keda, keda, side_by_side, until
from tests.faults.service import ServiceProcess, StartService


async def has_past(service: ServiceProcess) -> None:
    """Wait until the service has read the pool's past and decided on it."""
    await service.has_logged('"event": "decision"', '"reason": "dead_band"')


async def killed_in_a_scale_up(start: StartService, fleet: Fleet) -> None:
    service = start()
    async with keda([service.port], fleet) as client:
        await client.hears(4.0)
        await has_past(service)
        # Nobody carries out what is decided, so that the scale-up is under way for as long as this takes.
        fleet.is_followed = False
        fleet.load = 22.0
        await client.hears(6.0)
        service.kill()
        await client.hears_a_refusal("UNAVAILABLE")
        killed_at = time.monotonic()
        service.start()
        await client.hears(6.0)
        assert client.lowered() == []
        assert {one.value for one in client.since(killed_at)} == {None, 6.0}
        fleet.is_followed = True
        fleet.load = 30.0
        await client.hears(8.0)
        assert client.lowered() == []


async def one_of_two_killed(start: StartService, fleet: Fleet) -> None:
    services = [start(), start()]
    async with keda([service.port for service in services], fleet) as client:
        await asyncio.gather(*(has_past(service) for service in services))
        await client.hears(4.0)
        client.heard.clear()
        services[0].kill()
        killed_at = time.monotonic()
        fleet.load = 22.0
        await client.hears(6.0)
        refused = [one for one in client.since(killed_at) if one.value is None]
        assert client.lowered() == []
        # Calls that were under way when it died fail, and none after them: KEDA asks the other at once.
        assert len(refused) <= 2
        services[0].start()
        await services[0].has_logged('"event": "decision"', '"to": 6')
        assert client.lowered() == []


async def away_and_back(start: StartService, fleet: Fleet) -> None:
    service = start()
    async with keda([service.port], fleet) as client:
        await client.hears(4.0)
        await has_past(service)
        stream = PushStream(client)
        await until(lambda: stream.activations == 1)
        service.kill()
        await client.hears_a_refusal("UNAVAILABLE")
        await until(lambda: stream.broken == 1)
        service.start()
        await client.hears(4.0)
        await until(lambda: stream.activations == 2)
        await stream.close()
        assert client.lowered() == []


class PushStream:
    """KEDA's push scaler: a stream that is opened again whenever it breaks."""

    def __init__(self, client: Keda) -> None:
        self.activations = 0
        self.broken = 0
        self._client = client
        self._task = asyncio.create_task(self._listen())

    async def close(self) -> None:
        self._task.cancel()
        await asyncio.wait((self._task,))

    async def _listen(self) -> None:
        while True:  # cancelled by close
            try:
                async for answer in self._client.stub.StreamIsActive(self._client.fleet.ref()):
                    assert answer.result
                    self.activations += 1
            except grpc.aio.AioRpcError:
                self.broken += self.activations > self.broken
            await asyncio.sleep(0.1)


Outcomes: TypeAlias = Mapping[str, Callable[[], None]]


@pytest.fixture(scope="module")
def outcomes(shared: Shared, start_service: StartService) -> Outcomes:
    scenarios = {one.__name__: one for one in (killed_in_a_scale_up, one_of_two_killed, away_and_back)}
    fleets = shared.take(len(scenarios))
    return side_by_side(
        {name: one(start_service, fleet) for (name, one), fleet in zip(scenarios.items(), fleets, strict=True)}
    )


def test_a_service_is_killed_in_a_scale_up_and_started_again(outcomes: Outcomes) -> None:
    outcomes["killed_in_a_scale_up"]()


def test_one_of_two_services_is_killed(outcomes: Outcomes) -> None:
    outcomes["one_of_two_killed"]()


def test_a_client_finds_a_service_again_that_was_away(outcomes: Outcomes) -> None:
    outcomes["away_and_back"]()
