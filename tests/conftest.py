"""What every kind of test may ask for: the outside programs, and a real Prometheus of its own."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

import pytest

from scaler.demo.prometheus_process import find_tool
from scaler.errors import ScalerError
from tests.prometheus_server import RunningPrometheus, StartPrometheus, start_prometheus


def tool(name: str) -> Path:
    """An outside program; without it the test fails, and says how to get it."""
    try:
        return find_tool(name)
    except ScalerError as error:
        problem = str(error)
    pytest.fail(problem, pytrace=False)


@pytest.fixture(scope="session")
def prometheus_bin() -> Path:
    return tool("prometheus")


@pytest.fixture(scope="session")
def promtool_bin() -> Path:
    return tool("promtool")


@pytest.fixture(scope="session")
def grpcurl_bin() -> Path:
    return tool("grpcurl")


@pytest.fixture
def prometheus_server(tmp_path: Path) -> Iterator[StartPrometheus]:
    """Give a function that starts a Prometheus; a test may start several, and all end with it."""
    with ExitStack() as cleanup:
        started: list[RunningPrometheus] = []

        def start(config: str, *, extra_args: Sequence[str] = ()) -> RunningPrometheus:
            data_dir = tmp_path / f"prometheus-{len(started)}"
            try:
                server = start_prometheus(config, data_dir=data_dir, extra_args=extra_args, cleanup=cleanup)
            except ScalerError as error:
                problem = str(error)
            else:
                started.append(server)
                return server
            pytest.fail(problem, pytrace=False)

        yield start
