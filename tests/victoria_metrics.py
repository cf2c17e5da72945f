"""A VictoriaMetrics for the integration tests: it answers Prometheus' API, and scrapes by the same configuration."""

import http.client
import subprocess
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

import pytest

from scaler.demo.prometheus_process import find_tool, free_port
from scaler.errors import ScalerError

READY_TIMEOUT_S = 30.0


class RunningVictoriaMetrics:
    """One VictoriaMetrics on 127.0.0.1, of which a test may know the address."""

    def __init__(self, process: "subprocess.Popen[bytes]", port: int) -> None:
        self._process = process
        self.url = f"http://127.0.0.1:{port}"

    def start(self) -> None:
        """It runs from the beginning."""

    def stop(self) -> None:
        self._process.terminate()
        self._process.wait()

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()

    def restart(self) -> None:
        raise NotImplementedError("no test restarts a VictoriaMetrics")


def start_victoria_metrics(
    config: str, *, data_dir: Path, extra_args: Sequence[str], cleanup: ExitStack
) -> RunningVictoriaMetrics:
    """Start one and wait until it answers; where the machine has none, the test is skipped, and says so."""
    try:
        binary = find_tool("victoria-metrics")
    except ScalerError as error:
        pytest.skip(str(error))
    data_dir.mkdir(parents=True, exist_ok=True)
    (data_dir / "scrape.yml").write_text(config)
    port = free_port()
    command = [
        str(binary),
        f"-promscrape.config={data_dir / 'scrape.yml'}",
        f"-storageDataPath={data_dir / 'data'}",
        f"-httpListenAddr=127.0.0.1:{port}",
        "-memory.allowedBytes=64MB",
        *extra_args,
    ]
    log = cleanup.enter_context((data_dir / "log").open("wb"))
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, process_group=0)
    running = RunningVictoriaMetrics(process, port)
    cleanup.callback(running.kill)
    deadline = time.monotonic() + READY_TIMEOUT_S
    while not _is_ready(port):
        assert process.poll() is None, (data_dir / "log").read_text()[-2000:]
        assert time.monotonic() < deadline, "VictoriaMetrics was not ready in time"
        time.sleep(0.05)
    return running


def _is_ready(port: int) -> bool:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=1.0)
    try:
        connection.request("GET", "/health")
        return connection.getresponse().status == http.HTTPStatus.OK
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()
