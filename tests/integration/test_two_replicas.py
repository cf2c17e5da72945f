"""Replicas of the service on one Prometheus: started at different times, or anew in the middle of a scale-up."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

import grpc
import pytest

from scaler.adapters.prometheus import Prometheus
from scaler.adapters.reader import MetricsReader, only
from scaler.adapters.telemetry import Telemetry
from scaler.model import ReasonCode
from scaler.promql import LabelNames
from scaler.protos import externalscaler_pb2_grpc as pb_grpc
from scaler.service.app import running_service
from tests.fakes import eventually
from tests.grpc_service import metrics_of, ref, settings
from tests.scraped_pages import Page, Target, capture, deployment
from tests.scraped_prometheus import scraped_prometheus

Published: TypeAlias = tuple[int | None, float | None, ReasonCode]

METADATA = {
    "modelName": "tiny-llama",
    "scaleUpWindows": "4",
    "scaleDownWindows": "6",
    "rateWindowSeconds": "10",
}
# The load and the fleet by seconds since the start; the fleet follows by script, whatever is decided.
RISE_S, GROWN_S, FALL_S, END_S = 5.0, 13.0, 20.0, 32.0
# Scrapes of a busy machine are stored this long after the tick at the latest.
LATE_S = 0.4
WAIT_S = 60.0

pytestmark = pytest.mark.timeout(180)


class LateClock:
    """A clock that is behind, so that what was scraped just before a tick is stored when the tick is read."""

    def now(self) -> float:
        return time.time() - LATE_S

    def monotonic(self) -> float:
        return time.monotonic()

    async def sleep_until(self, at: float) -> None:
        await asyncio.sleep(max(0.0, at - self.now()))


@dataclass
class Script:
    """What is scraped, by the time since ``began``; steady before."""

    began: float = field(default_factory=lambda: time.time() + 3600)

    @property
    def seconds(self) -> float:
        return time.time() - self.began

    @property
    def replicas(self) -> int:
        return 6 if self.seconds >= GROWN_S else 4

    def engine(self, number: int) -> Page:
        page = capture("under_load")
        series = 'vllm:num_requests_{}{{engine="0",model_name="tiny-llama"}} '
        running, waiting = series.format("running"), series.format("waiting")
        for nobody_waits in (f"{waiting}16.0", 'reason="capacity"} 16.0'):
            assert nobody_waits in page
            page = page.replace(nobody_waits, nobody_waits.replace("16.0", "0.0"))
        assert f"{running}4.0" in page

        def text(_scrape: int) -> str | None:
            load = 12.0 if self.seconds < RISE_S else 22.0 if self.seconds < FALL_S else 4.0
            if number >= self.replicas:
                return None
            return page.replace(f"{running}4.0", f"{running}{load / self.replicas}")

        return text

    def state(self, _scrape: int) -> str:
        return deployment("serving", self.replicas, self.replicas, self.replicas, self.replicas)

    def targets(self) -> list[Target]:
        pods = []
        for number, letter in enumerate("bcdfgh"):
            labels = {
                "namespace": "serving",
                "pod": f"vllm-7d4b9c5f6d-bbbb{letter}",
                "instance": f"10.0.0.{number}:8000",
            }
            pods.append(Target(labels, self.engine(number)))
        return [*pods, Target({"instance": "ksm:8080"}, self.state)]


@asynccontextmanager
async def replica(url: str) -> AsyncIterator[dict[float, Published]]:
    """Run a replica of the service that KEDA asks, and give what it has published for each tick."""
    published: dict[float, Published] = {}
    telemetry = Telemetry()
    prometheus = Prometheus(url, timeout_s=5.0, concurrency=4, max_response_bytes=64 << 20)
    reader = MetricsReader(only(prometheus), LabelNames())
    every_second = settings(evaluation_interval="1s", query_timeout="1s")
    try:
        async with (
            running_service(every_second, reader=reader, clock=LateClock(), telemetry=telemetry) as service,
            grpc.aio.insecure_channel(f"127.0.0.1:{service.grpc_port}") as channel,
        ):
            await pb_grpc.ExternalScalerStub(channel).GetMetrics(metrics_of(ref("vllm", **METADATA)))
            watching = asyncio.create_task(watch(telemetry, published))
            try:
                yield published
            finally:
                watching.cancel()
    finally:
        prometheus.close()


async def watch(telemetry: Telemetry, published: dict[float, Published]) -> None:
    while True:  # cancelled with the replica
        for view in telemetry.pools():
            if (decision := view.decision) is not None:
                published[decision.at] = decision.target, decision.reported_value, decision.reason.code
        await asyncio.sleep(0.01)


def decided(published: dict[float, Published]) -> dict[float, Published]:
    """What was published once the past was read."""
    return {at: what for at, what in published.items() if what[2] is not ReasonCode.FILLING_HISTORY}


async def test_replicas_publish_the_same_for_the_same_tick_whenever_they_started(tmp_path: Path) -> None:
    script = Script()
    with scraped_prometheus(script.targets(), tmp_path) as scraped:
        async with AsyncExitStack() as stack:
            first = await stack.enter_async_context(replica(scraped.url))
            await eventually(lambda: len(decided(first)) >= 2, WAIT_S)
            script.began = time.time()
            await eventually(lambda: script.seconds > RISE_S + 3, WAIT_S)
            # The load has risen, and its window is half full: one more starts, and is stopped in the scale-up.
            async with replica(scraped.url) as killed:
                await eventually(lambda: ReasonCode.NEED_ABOVE in {what[2] for what in killed.values()}, WAIT_S)
            restarted = await stack.enter_async_context(replica(scraped.url))
            await eventually(lambda: script.seconds > FALL_S + 3, WAIT_S)
            last = await stack.enter_async_context(replica(scraped.url))
            await eventually(lambda: script.seconds > END_S, WAIT_S)
    lived = decided(first)
    for name, other, least in (("killed", killed, 1), ("restarted", restarted, 10), ("last", last, 4)):
        seen = decided(other)
        common = seen.keys() & lived.keys()
        assert len(common) >= least, name
        assert {at: seen[at] for at in common} == {at: lived[at] for at in common}, name
    assert {what[2] for what in lived.values()} > {ReasonCode.NEED_ABOVE, ReasonCode.NEED_BELOW}
    assert max(target or 0 for target, _, _ in lived.values()) == 6
    assert lived[max(lived)][0] == 5
