"""One run of the demo: everything started in order, watched while it lasts, and stopped whatever happens.

Order of the start: the fleet's pages, Prometheus, the service, the stand-in for KEDA. The traffic starts once the
service has seen the fleet. All of it ends in the opposite order: on time, by a signal, or by an error.
"""

import asyncio
import logging
import signal
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import AsyncExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

import grpc
from rich.console import Console

from scaler.adapters import logs
from scaler.adapters.prometheus import Prometheus
from scaler.adapters.reader import MetricsReader, only
from scaler.adapters.telemetry import Telemetry
from scaler.config.server import ServerSettings
from scaler.demo import scenario
from scaler.demo.cluster import DemoCluster, prometheus_config
from scaler.demo.intro import introduction, write_requests
from scaler.demo.keda import KedaStandIn, Poll
from scaler.demo.prometheus_process import PrometheusProcess, find_prometheus, free_port
from scaler.demo.record import RunRecord
from scaler.demo.scenario import Scenario
from scaler.demo.view import Frame, View
from scaler.demo.web import HOST, PageServer
from scaler.errors import ScalerError
from scaler.model import Decision
from scaler.promql import LabelNames
from scaler.service.app import RunningService, running_service
from scaler.sim.fleet import Fleet
from scaler.sim.replica import Phase
from scaler.sim.workload import poisson_arrivals
from scaler.units import format_duration

# Prometheus takes up to 5 s to hand new targets to its scraper, and up to 5 s to take them; the rest is a busy machine.
_WARM_UP_S: Final = 40.0
_FRAME_S: Final = 0.25
_KEPT_IN: Final = Path("demo-output")


@dataclass(frozen=True, slots=True)
class Outage:
    """Prometheus is killed so many seconds after the start, and started again so many seconds later."""

    start_s: float
    length_s: float


@dataclass(frozen=True, slots=True)
class DemoOptions:
    """What a person may choose. A port of 0 takes any free one."""

    duration_s: float
    seed: int
    grpc_port: int = 0
    http_port: int = 0
    prometheus_port: int = 0
    outage: Outage | None = None
    keep: bool = False
    """Keep the folder with settings, samples and logs."""


def run(options: DemoOptions, console: Console) -> None:
    """Play the demo; when it returns, or raises, nothing of it is left running.

    SIGINT, SIGTERM and SIGHUP end it early and in order, with its summary.

    Args:
        options: What was chosen.
        console: Where it is shown.

    Raises:
        ScalerError: Prometheus is missing or does not start, a port is taken, or the fleet is not seen.
    """
    binary = find_prometheus()
    with _folder(keep=options.keep) as folder, _logs_in(folder / "scaler.log"):
        asyncio.run(_play(options, binary, folder, console))


class _Stopwatch:
    """The fleet's clock: it stands at 0 until the traffic starts."""

    def __init__(self) -> None:
        self._started_at: float | None = None

    def start(self) -> None:
        self._started_at = time.monotonic()

    def elapsed(self) -> float:
        return 0.0 if self._started_at is None else time.monotonic() - self._started_at


async def _play(options: DemoOptions, binary: Path, folder: Path, console: Console) -> None:
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    plan = scenario.scenario(options.duration_s)
    watch = _Stopwatch()
    cluster = _cluster(plan, options.seed, watch)
    async with AsyncExitStack() as stack:
        pages = PageServer(cluster.page)
        await pages.start()
        stack.push_async_callback(pages.stop)
        # Chosen before the service is there: Prometheus has to know where to scrape it.
        options = replace(options, http_port=free_port(options.http_port))
        prometheus = PrometheusProcess(
            binary,
            config=prometheus_config(
                pages.url,
                scaler_url=f"http://{HOST}:{options.http_port}",
                scrape_interval_s=scenario.SCRAPE_INTERVAL_S,
            ),
            data_dir=folder / "prometheus",
            port=options.prometheus_port,
        )
        stack.push_async_callback(asyncio.to_thread, prometheus.stop)
        console.print("Starting Prometheus ...", style="dim")
        await asyncio.to_thread(prometheus.start)
        telemetry = Telemetry()
        service = await _start_service(stack, options, prometheus.url, telemetry)
        address = f"{HOST}:{service.grpc_port}"
        # Not through a proxy of the environment: everything is on this machine.
        channel = grpc.aio.insecure_channel(address, options=[("grpc.enable_http_proxy", 0)])
        stack.push_async_callback(channel.close, 0)
        metadata = {"scalerAddress": address, **plan.metadata}
        keda = KedaStandIn(
            channel,
            namespace=scenario.NAMESPACE,
            scaled_object=scenario.SCALED_OBJECT,
            metadata=metadata,
            hpa=plan.hpa,
        )
        requests = write_requests(folder, metadata)
        console.out(
            introduction(
                plan,
                scaler_address=address,
                scaler_url=f"http://{HOST}:{service.http_port}",
                prometheus_url=prometheus.url,
                fleet_url=pages.url,
                requests=requests,
                folder=folder,
                keep=options.keep,
            ),
            highlight=False,
        )
        stage = _Stage(options, plan, cluster, watch, prometheus, service, telemetry, keda)
        if not await stage.warm_up(stop):
            console.out("Stopped before the traffic started.", highlight=False)
            return
        with View(console) as view:
            await stage.play(stop, view)
        console.out("\n".join(["", *stage.record.summary(cluster.fleet)]), highlight=False)
        if options.keep:
            console.out(f"kept in              {folder}", highlight=False)


def _cluster(plan: Scenario, seed: int, watch: _Stopwatch) -> DemoCluster:
    arrivals = poisson_arrivals(plan.profile, prompt=plan.prompt, output=plan.output, seed=seed)
    return DemoCluster(
        Fleet(plan.fleet, replicas=plan.min_replicas, arrivals=arrivals, seed=seed),
        namespace=scenario.NAMESPACE,
        model_name=scenario.MODEL_NAME,
        elapsed=watch.elapsed,
        started_at=time.time(),
    )


async def _start_service(
    stack: AsyncExitStack, options: DemoOptions, prometheus_url: str, telemetry: Telemetry
) -> RunningService:
    settings = ServerSettings(
        prometheus_url=prometheus_url,
        evaluation_interval=scenario.EVALUATION_INTERVAL_S,
        grpc_host=HOST,
        grpc_port=options.grpc_port,
        http_host=HOST,
        http_port=options.http_port,
        # Nobody but the stand-in has calls under way.
        shutdown_grace=1.0,
    )
    client = Prometheus(
        settings.prometheus_url,
        timeout_s=settings.query_timeout,
        concurrency=settings.query_concurrency,
        max_response_bytes=settings.max_response_bytes,
    )
    stack.callback(client.close)
    names = LabelNames(settings.namespace_label, settings.pod_label, settings.instance_label)
    reader = MetricsReader(only(client), names, on_query=telemetry.query_done)
    return await stack.enter_async_context(running_service(settings, reader=reader, telemetry=telemetry))


@dataclass(slots=True, eq=False)
class _Stage:
    """The demo while it runs."""

    options: DemoOptions
    plan: Scenario
    cluster: DemoCluster
    watch: _Stopwatch
    prometheus: PrometheusProcess
    service: RunningService
    telemetry: Telemetry
    keda: KedaStandIn
    record: RunRecord = field(init=False)
    _poll: Poll = field(init=False)
    _prometheus_up: bool = True

    def __post_init__(self) -> None:
        self._poll = Poll(self.plan.min_replicas)
        self.record = RunRecord(
            self.plan.profile,
            ttft_slo_s=self.plan.ttft_slo_s,
            settle_s=self.plan.settle_s,
            replicas=self.plan.min_replicas,
        )

    async def warm_up(self, stop: asyncio.Event) -> bool:
        """Poll until the service has seen the whole fleet; False when it was stopped before.

        Raises:
            ScalerError: It saw nothing for too long.
        """
        deadline = time.monotonic() + _WARM_UP_S
        while not stop.is_set():
            await self._poll_once()
            decision = self._decision()
            if decision is not None and decision.observation.serving == self.plan.min_replicas:
                return True
            if time.monotonic() > deadline:
                seen = self._poll.error or ("nothing was decided" if decision is None else decision.reason.text)
                raise ScalerError(
                    f"the scaler has not seen the simulated fleet within {format_duration(_WARM_UP_S)} ({seen}); "
                    f"run again with --keep and read {self.prometheus.log_path.name} and scaler.log"
                )
            await _wait(stop, _FRAME_S)
        return False

    async def play(self, stop: asyncio.Event, view: View) -> None:
        """Let the traffic come, until its end or ``stop``.

        Raises:
            ScalerError: Prometheus did not come back after its outage.
        """
        self.watch.start()
        loops = [asyncio.create_task(self._poll_forever()), asyncio.create_task(self._watch_forever(view))]
        if self.options.outage is not None:
            loops.append(asyncio.create_task(self._suffer(self.options.outage)))
        stopped = asyncio.create_task(_wait(stop, self.options.duration_s))
        try:
            await _first_of(stopped, *loops, self.service.loops)
        finally:
            for task in (stopped, *loops):
                task.cancel()
            await asyncio.wait((stopped, *loops))
        self._catch_up()
        view.show(self._frame())

    async def _poll_forever(self) -> None:
        while True:
            began = time.monotonic()
            await self._poll_once()
            await asyncio.sleep(max(0.0, began + scenario.POLL_INTERVAL_S - time.monotonic()))

    async def _poll_once(self) -> None:
        fleet = self.cluster.fleet
        self._poll = await self.keda.poll(time.monotonic(), fleet.status())
        self._catch_up()
        if self._poll.replicas != fleet.spec_replicas:
            self.record.add_change(fleet.now, self._poll.replicas)
            fleet.scale(self._poll.replicas)

    async def _watch_forever(self, view: View) -> None:
        while True:
            self._catch_up()
            view.show(self._frame())
            await asyncio.sleep(_FRAME_S)

    async def _suffer(self, outage: Outage) -> None:
        """Kill Prometheus, and start it again, as a crash in a cluster would."""
        await asyncio.sleep(outage.start_s)
        self._prometheus_up = False
        await _to_its_end(self.prometheus.kill)
        await asyncio.sleep(outage.length_s)
        await _to_its_end(self.prometheus.start)
        self._prometheus_up = True
        await asyncio.Event().wait()

    def _catch_up(self) -> None:
        self.record.add_outcomes(self.cluster.catch_up())
        fleet = self.cluster.fleet
        self.record.see(fleet.running + fleet.waiting, self._decision())

    def _decision(self) -> Decision | None:
        return next((view.decision for view in self.telemetry.pools()), None)

    def _frame(self) -> Frame:
        fleet, profile = self.cluster.fleet, self.plan.profile
        phases = [replica.phase(fleet.now) for replica in fleet.replicas]
        serving = phases.count(Phase.SERVING)
        phase, _ = profile.phase_at(fleet.now)
        return Frame(
            elapsed_s=fleet.now,
            duration_s=profile.duration_s,
            phase=phase.name,
            rate=profile.rate_at(fleet.now),
            running=fleet.running,
            waiting=fleet.waiting,
            slots=serving * self.plan.slots_per_replica,
            serving=serving,
            starting=phases.count(Phase.STARTING),
            draining=phases.count(Phase.DRAINING),
            requested=fleet.spec_replicas,
            ttft_slo_s=self.plan.ttft_slo_s,
            decision=self._decision(),
            polled_value=self._poll.value,
            poll_error=self._poll.error,
            prometheus_up=self._prometheus_up,
            changes=self.record.changes,
        )


async def _wait(stop: asyncio.Event, seconds: float) -> None:
    """Wait for a while, or until ``stop``."""
    try:
        async with asyncio.timeout(seconds):
            await stop.wait()
    except TimeoutError:
        pass


async def _to_its_end(call: Callable[[], None]) -> None:
    """Run a blocking call in a thread; when cancelled, wait for it: a Prometheus half started could not be stopped."""
    done = asyncio.create_task(asyncio.to_thread(call))
    try:
        await asyncio.shield(done)
    except asyncio.CancelledError:
        await asyncio.wait((done,))
        raise


async def _first_of(stopped: asyncio.Task[None], *loops: asyncio.Task[None]) -> None:
    """Wait for the end, and raise what ended a loop before it."""
    await asyncio.wait((stopped, *loops), return_when=asyncio.FIRST_COMPLETED)
    for loop in loops:
        if loop.done():
            loop.result()


@contextmanager
def _folder(*, keep: bool) -> Iterator[Path]:
    """Give a folder for the run: one that stays, in demo-output, or one that goes with it."""
    if keep:
        folder = (_KEPT_IN / time.strftime("%Y%m%d-%H%M%S")).absolute()
        folder.mkdir(parents=True)
        yield folder
        return
    with tempfile.TemporaryDirectory(prefix="vllm-scaler-demo-") as name:
        yield Path(name)


@contextmanager
def _logs_in(path: Path) -> Iterator[None]:
    """Send all logs to a file, where they do not run through the view."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    with path.open("w", encoding="utf-8") as file:
        logs.configure("info", "json", file)
        try:
            yield
        finally:
            root.handlers[:] = handlers
            root.setLevel(level)
