"""The service that the faults happen to: in this process, where its decisions can be seen, or in one to be killed."""

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeAlias

from scaler.adapters.clock import Clock
from scaler.adapters.prometheus import Prometheus
from scaler.adapters.reader import MetricsReader, only
from scaler.adapters.telemetry import Telemetry
from scaler.demo.prometheus_process import free_port
from scaler.model import Decision, ReasonCode
from scaler.promql import LabelNames
from scaler.service.app import RunningService, running_service
from tests.faults.fleet import Fleet
from tests.faults.keda import PATIENCE_S, Keda, keda, until
from tests.grpc_service import settings

StartService: TypeAlias = Callable[[], "ServiceProcess"]
SETTINGS: Final = {"evaluation_interval": "1s", "query_timeout": "800ms", "max_response_bytes": "64KiB"}
"""The shortest interval there is, and answers that are soon too long."""


@dataclass
class Scaled:
    """A pool that a service in this process decides for, and the KEDA that asks for it."""

    fleet: Fleet
    service: RunningService
    telemetry: Telemetry
    keda: Keda

    @property
    def decision(self) -> Decision | None:
        """The newest decision."""
        return next((view.decision for view in self.telemetry.pools()), None)

    @property
    def notes(self) -> str:
        """What the newest decision says of its data."""
        return "; ".join(self.decision.observation.notes) if self.decision else ""

    def sample(self, series: str) -> float:
        """A series of the service's own metrics, by its name and labels as they are written; 0 where there is none."""
        rows = self.telemetry.exposition()[0].decode().splitlines()
        return next((float(row.rsplit(" ", 1)[1]) for row in rows if row.startswith(series)), 0.0)

    async def settles(self, replicas: int) -> None:
        """Wait until the past is read, and so many replicas are decided on data and heard by KEDA."""

        def is_settled() -> bool:
            decision = self.decision
            return (
                decision is not None
                and decision.target == replicas
                and decision.usable_at == decision.at
                and decision.reason.code is not ReasonCode.FILLING_HISTORY
            )

        await until(is_settled)
        await self.keda.hears(replicas)

    async def is_blind_for(self, ticks: int, words: str = "") -> None:
        """Wait until the newest so many ticks had nothing to decide on, for a reason that has these words."""

        def is_blind() -> bool:
            decision = self.decision
            if decision is None or decision.usable_at is None or words not in self.notes:
                return False
            return decision.at - decision.usable_at >= ticks

        await until(is_blind)


@asynccontextmanager
async def scaled(url: str, fleet: Fleet, *, clock: Clock | None = None, **changes: Any) -> AsyncIterator[Scaled]:
    """Run a service for a fleet, and a KEDA that asks it."""
    chosen = settings(**(SETTINGS | changes))
    telemetry = Telemetry()
    prometheus = Prometheus(
        url,
        timeout_s=chosen.query_timeout,
        concurrency=chosen.query_concurrency,
        max_response_bytes=chosen.max_response_bytes,
    )
    reader = MetricsReader(only(prometheus), LabelNames(), on_query=telemetry.query_done)
    try:
        async with (
            running_service(chosen, reader=reader, clock=clock, telemetry=telemetry) as service,
            keda([service.grpc_port], fleet) as client,
        ):
            yield Scaled(fleet, service, telemetry, client)
    finally:
        prometheus.close()


class ServiceProcess:
    """``vllm-scaler serve`` as a process of its own, which can be killed and started again on the same ports.

    Args:
        url: The Prometheus.
        log: Where its log goes.
    """

    def __init__(self, url: str, log: Path) -> None:
        self.port = free_port()
        self.http_port = free_port()
        self._log = log
        self._process: subprocess.Popen[bytes] | None = None
        self._command = [
            str(Path(sys.executable).with_name("vllm-scaler")),
            "serve",
            f"--prometheus-url={url}",
            "--grpc-host=127.0.0.1",
            f"--grpc-port={self.port}",
            "--http-host=127.0.0.1",
            f"--http-port={self.http_port}",
            "--evaluation-interval=1s",
        ]

    @property
    def pid(self) -> int:
        """Its number; it must run."""
        assert self._process is not None
        return self._process.pid

    @property
    def log(self) -> str:
        """All that it has said."""
        return self._log.read_text(encoding="utf-8")

    def start(self) -> None:
        """Start it; who asks it sees when it serves."""
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(self._command, stdout=log, stderr=log, env=os.environ)

    def kill(self) -> None:
        """End it at once, as SIGKILL does."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    async def has_logged(self, *words: str) -> None:
        """Wait for a line of its log that has all of these words."""
        deadline = time.monotonic() + PATIENCE_S
        while not any(all(word in line for word in words) for line in self.log.splitlines()):
            assert time.monotonic() < deadline, f"no line with {words} in:\n{self.log}"
            await asyncio.sleep(0.02)
