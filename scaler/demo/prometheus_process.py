"""A real Prometheus as a child process on the loopback, for the demo and for the tests.

Rules: one object owns one child; only that child is ever signalled, by its handle; the child is always reaped.
Whatever it writes (settings, samples, log) lies in the folder that it was given, for as long as the caller likes.
"""

import http.client
import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from scaler.errors import ScalerError

_HOST: Final = "127.0.0.1"
TOOLS_DIR: Final = Path(__file__).resolve().parents[2] / ".tools" / "bin"
# A cold start takes under 1 s on two busy cores; replaying a large write-ahead log can take several.
_READY_TIMEOUT_S: Final = 30.0
_READY_POLL_S: Final = 0.05
# Prometheus flushes its head block on SIGTERM, well under a second at our sizes.
_STOP_TIMEOUT_S: Final = 10.0
# Between our choice of a free port and the child's bind another may take it; five losses in a row are no accident.
_PORT_ATTEMPTS: Final = 5
# Enough of a log to hold the error and what led to it.
_LOG_TAIL_LINES: Final = 5


def tool_variable(name: str) -> str:
    """Return the environment variable that names a program: "victoria-metrics" -> VICTORIA_METRICS_BIN."""
    return f"{name.upper().replace('-', '_')}_BIN"


def find_tool(name: str, tools_dir: Path = TOOLS_DIR) -> Path:
    """Find an outside program: ``$<NAME>_BIN``, beside ``$PROMETHEUS_BIN``, on PATH, or in the project's .tools/bin.

    Args:
        name: The program's name: "prometheus", "promtool", "grpcurl" or "victoria-metrics".
        tools_dir: Where ``make setup`` has put what it fetched.

    Raises:
        ScalerError: It is nowhere, or the variable names something that cannot be run.
    """
    variable = tool_variable(name)
    named = os.environ.get(variable)
    if named:
        found = shutil.which(named)
        if found is None:
            raise ScalerError(f"{variable} is {named!r}, which is no program that can be run: correct it or unset it")
        return Path(found).absolute()
    prometheus = shutil.which(os.environ.get("PROMETHEUS_BIN", ""))
    folders = [*([Path(prometheus).parent] if prometheus else []), None, tools_dir]
    for folder in folders:
        found = shutil.which(name, path=None if folder is None else str(folder))
        if found is not None:
            return Path(found).absolute()
    raise ScalerError(
        f"{name} was not found in ${variable}, on PATH or in {tools_dir}: "
        f"run 'make setup', or install {name} and set {variable} to its path"
    )


def find_prometheus() -> Path:
    """Find the Prometheus to run: ``$PROMETHEUS_BIN``, else PATH, else the project's .tools/bin.

    Raises:
        ScalerError: It is nowhere, or the variable names something that cannot be run.
    """
    return find_tool("prometheus")


class PrometheusProcess:
    """One Prometheus on 127.0.0.1: ``start`` returns when it answers; leaving the ``with`` block stops it.

    Args:
        binary: The program, as ``find_prometheus`` gives it.
        config: The text of its prometheus.yml.
        data_dir: A folder for its settings, samples and log; made when it is missing.
        port: The port to listen on; 0 chooses a free one, which is then kept over restarts.
        extra_args: More command-line flags, such as ``--query.timeout=1s``.
    """

    def __init__(
        self, binary: Path, *, config: str, data_dir: Path, port: int = 0, extra_args: Sequence[str] = ()
    ) -> None:
        self._binary = binary
        self._config = config
        self._data_dir = data_dir
        self._port = port
        self._extra_args = tuple(extra_args)
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """Its address, known once ``start`` has returned, and the same after ``restart``."""
        return f"http://{_HOST}:{self._port}"

    @property
    def log_path(self) -> Path:
        """The file that holds everything it has printed, over all starts."""
        return self._data_dir / "prometheus.log"

    def start(self) -> None:
        """Start it and wait until it answers queries; a second call while it runs does nothing.

        Raises:
            ScalerError: The port is taken, or it ended or was not ready within 30 s; then the text closes with its log.
        """
        if self._process is not None and self._process.poll() is None:
            return
        self._data_dir.mkdir(parents=True, exist_ok=True)
        config_path = self._data_dir / "prometheus.yml"
        config_path.write_text(self._config, encoding="utf-8")
        attempts = 1 if self._port else _PORT_ATTEMPTS
        for attempt in range(1, attempts + 1):
            port = free_port(self._port)
            log_start = self.log_path.stat().st_size if self.log_path.exists() else 0
            self._process = self._spawn(config_path, port)
            try:
                self._wait_ready(self._process, port)
            except BaseException as error:
                self.kill()
                taken = "address already in use" in self._log_since(log_start)
                if isinstance(error, ScalerError) and taken and attempt < attempts:
                    continue
                raise
            self._port = port
            return

    def stop(self) -> None:
        """End it in order, as Kubernetes would: SIGTERM, then SIGKILL after 10 s. Safe when it does not run."""
        if self._process is None:
            return
        self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(_STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self.kill()
        self._process = None

    def kill(self) -> None:
        """End it at once, as a crash would: SIGKILL, nothing is flushed. Safe when it does not run."""
        if self._process is None:
            return
        self._process.kill()
        self._process.wait()
        self._process = None

    def restart(self) -> None:
        """Stop it where it runs, and start it again on the same port with the samples it had."""
        self.stop()
        self.start()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _spawn(self, config_path: Path, port: int) -> subprocess.Popen[bytes]:
        command = [
            str(self._binary),
            f"--config.file={config_path}",
            f"--storage.tsdb.path={self._data_dir / 'tsdb'}",
            f"--web.listen-address={_HOST}:{port}",
            *self._extra_args,
        ]
        try:
            with self.log_path.open("ab") as log:
                # Its own process group: Ctrl-C in a terminal reaches us alone, and we stop it in order.
                return subprocess.Popen(  # noqa: S603 - a list, no shell; the program is the one the person chose
                    command, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, process_group=0
                )
        except OSError as error:
            raise ScalerError(f"{self._binary} could not be started: {error}") from error

    def _wait_ready(self, process: subprocess.Popen[bytes], port: int) -> None:
        deadline = time.monotonic() + _READY_TIMEOUT_S
        while time.monotonic() < deadline:
            if process.poll() is not None:
                raise ScalerError(
                    f"{self._binary} ended with exit code {process.returncode} before it was ready on port {port}; "
                    f"its log ({self.log_path}) closes with:\n{self._log_tail()}"
                )
            if is_ready(port):
                return
            time.sleep(_READY_POLL_S)
        raise ScalerError(
            f"{self._binary} was not ready on port {port} within {_READY_TIMEOUT_S:g} s; "
            f"its log ({self.log_path}) closes with:\n{self._log_tail()}"
        )

    def _log_since(self, offset: int) -> str:
        return self.log_path.read_bytes()[offset:].decode("utf-8", "replace")

    def _log_tail(self) -> str:
        return "\n".join(self._log_since(0).splitlines()[-_LOG_TAIL_LINES:])


def free_port(wanted: int = 0) -> int:
    """Give a port of 127.0.0.1 that can be bound now: the wanted one, or for 0 any that is free.

    Asking before a server is started keeps a stranger who has the port from passing for that server.

    Raises:
        ScalerError: The wanted port is taken, or may not be used.
    """
    with socket.socket() as probe:
        # As Go's servers do: connections that linger from before a restart do not count.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((_HOST, wanted))
        except OSError as error:
            raise ScalerError(f"port {wanted} on {_HOST} cannot be used ({error}): choose another") from error
        port: int = probe.getsockname()[1]
        return port


def is_ready(port: int) -> bool:
    """Tell whether a Prometheus on this port of 127.0.0.1 answers queries now; takes at most a second."""
    # http.client and not urllib: a proxy of the environment must not stand between us and the loopback.
    connection = http.client.HTTPConnection(_HOST, port, timeout=1.0)
    try:
        connection.request("GET", "/-/ready")
        return connection.getresponse().status == http.HTTPStatus.OK
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()
