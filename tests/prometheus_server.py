"""A Prometheus for the integration tests: the machine's own program, or a container where Docker answers."""

import os
import subprocess
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Final, Protocol

from testcontainers.core.container import DockerContainer

from scaler.demo.prometheus_process import PrometheusProcess, find_prometheus, free_port, is_ready
from scaler.errors import ScalerError

_IMAGE: Final = "prom/prometheus:v2.55.1"
# The image may have to be pulled before, so this is the start alone; a loaded machine takes a few seconds.
_READY_TIMEOUT_S: Final = 60.0
_READY_POLL_S: Final = 0.05
# A daemon on this machine answers at once.
_DOCKER_TIMEOUT_S: Final = 10.0


class RunningPrometheus(Protocol):
    """What a test may do with its Prometheus, whichever kind it is; url and samples stay over a restart."""

    @property
    def url(self) -> str: ...

    def start(self) -> None:
        """Start it again after ``stop`` or ``kill``, and wait until it answers."""

    def stop(self) -> None: ...

    def kill(self) -> None: ...

    def restart(self) -> None: ...


class StartPrometheus(Protocol):
    """Starts a Prometheus with the text of a prometheus.yml, and waits until it answers; it ends with the test."""

    def __call__(self, config: str, *, extra_args: Sequence[str] = ()) -> RunningPrometheus: ...


class PrometheusContainer:
    """A Prometheus in a container that shares the host's network, so that 127.0.0.1 is the same for both."""

    def __init__(self, *, config: str, data_dir: Path, extra_args: Sequence[str]) -> None:
        self._port = free_port()
        data_dir.mkdir(parents=True, exist_ok=True)
        (data_dir / "prometheus.yml").write_text(config, encoding="utf-8")
        arguments = [
            "--config.file=/data/prometheus.yml",
            "--storage.tsdb.path=/data/tsdb",
            f"--web.listen-address=127.0.0.1:{self._port}",
            *extra_args,
        ]
        # As the person who runs the tests: what it writes can be read and removed by them.
        self._container = (
            DockerContainer(_IMAGE, network_mode="host", user=f"{os.getuid()}:{os.getgid()}")
            .with_volume_mapping(str(data_dir), "/data", "rw")
            .with_command(arguments)
        )

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    def create(self) -> None:
        self._container.start()
        self._wait_ready()

    def start(self) -> None:
        self._container.get_wrapped_container().start()
        self._wait_ready()

    def stop(self) -> None:
        self._container.get_wrapped_container().stop()

    def kill(self) -> None:
        self._container.get_wrapped_container().kill()

    def restart(self) -> None:
        self.stop()
        self.start()

    def remove(self) -> None:
        self._container.stop()

    def _wait_ready(self) -> None:
        deadline = time.monotonic() + _READY_TIMEOUT_S
        while not is_ready(self._port):
            if time.monotonic() > deadline:
                output = b"\n".join(self._container.get_logs()).decode("utf-8", "replace")
                raise ScalerError(f"{_IMAGE} was not ready within {_READY_TIMEOUT_S:g} s; it printed:\n{output}")
            time.sleep(_READY_POLL_S)


def start_prometheus(
    config: str, *, data_dir: Path, extra_args: Sequence[str], cleanup: ExitStack
) -> RunningPrometheus:
    """Start whichever Prometheus can be had, and leave its end to the cleanup.

    Raises:
        ScalerError: There is no program and no Docker daemon, or it does not start.
    """
    try:
        binary = find_prometheus()
    except ScalerError as error:
        if not _docker_answers():
            raise ScalerError(f"{error}; nor does a Docker daemon answer that could run {_IMAGE}") from error
        container = PrometheusContainer(config=config, data_dir=data_dir, extra_args=extra_args)
        cleanup.callback(container.remove)
        container.create()
        return container
    process = PrometheusProcess(binary, config=config, data_dir=data_dir, extra_args=extra_args)
    cleanup.callback(process.kill)
    process.start()
    return process


def _docker_answers() -> bool:
    # By the command line and not the Python client, which leaks a socket, and so a warning, where nothing answers.
    try:
        result = subprocess.run(["docker", "version"], capture_output=True, timeout=_DOCKER_TIMEOUT_S, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return result.returncode == 0
