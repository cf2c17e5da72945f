"""What the fault tests share: one Prometheus with a fleet for each that takes nothing away from it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults.fleet import Fleet, Shared, watching
from tests.faults.service import ServiceProcess, StartService

_FLEETS = 36


@pytest.fixture(scope="session")
def shared(tmp_path_factory: pytest.TempPathFactory, prometheus_bin: Path) -> Iterator[Shared]:
    """A Prometheus that takes 5 s to begin scraping, so one for all, with fleets that nobody has yet."""
    assert prometheus_bin
    fleets = [Fleet(f"team-{number:02d}") for number in range(_FLEETS)]
    with watching(fleets, tmp_path_factory.mktemp("faults")) as prometheus:
        yield Shared(prometheus.url, fleets)


@pytest.fixture(scope="module")
def start_service(shared: Shared, tmp_path_factory: pytest.TempPathFactory) -> Iterator[StartService]:
    """Give a function that starts a service; all that were started end with the tests of the file."""
    started: list[ServiceProcess] = []
    logs = tmp_path_factory.mktemp("services")

    def start() -> ServiceProcess:
        service = ServiceProcess(shared.url, logs / f"{len(started)}.log")
        started.append(service)
        service.start()
        return service

    yield start
    for service in started:
        service.kill()
