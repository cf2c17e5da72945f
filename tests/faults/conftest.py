"""What the fault tests share: one Prometheus with a fleet for each test that takes nothing away from it."""

from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path

import pytest

from tests.faults.fleet import Fleet, Watching, watching
from tests.faults.service import ServiceProcess

_FLEETS = 12


@pytest.fixture(scope="session")
def watched(tmp_path_factory: pytest.TempPathFactory, prometheus_bin: Path) -> Iterator[tuple[Watching, list[Fleet]]]:
    assert prometheus_bin
    fleets = [Fleet(f"team-{number}") for number in range(_FLEETS)]
    with watching(fleets, tmp_path_factory.mktemp("faults")) as prometheus:
        yield prometheus, fleets


_taken = count()


@pytest.fixture
def prometheus_url(watched: tuple[Watching, list[Fleet]]) -> str:
    return watched[0].url


@pytest.fixture
def fleet(watched: tuple[Watching, list[Fleet]]) -> Fleet:
    """A fleet that no other test has, of 4 replicas with 12 requests in flight."""
    return watched[1][next(_taken)]


@pytest.fixture
def service_process(prometheus_url: str, tmp_path: Path) -> Iterator[Callable[[], ServiceProcess]]:
    """Give a function that starts a service; all that were started end with the test."""
    started: list[ServiceProcess] = []

    def start() -> ServiceProcess:
        service = ServiceProcess(prometheus_url, tmp_path / f"service-{len(started)}.log")
        started.append(service)
        service.start()
        return service

    yield start
    for service in started:
        service.kill()
