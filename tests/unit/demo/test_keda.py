"""The stand-in for KEDA, against a scaler that answers what a test tells it to."""

from collections.abc import AsyncIterator
from typing import Any

import grpc
import pytest

from scaler.demo.keda import KedaStandIn, Poll
from scaler.protos import externalscaler_pb2 as pb
from scaler.protos import externalscaler_pb2_grpc as pb_grpc
from scaler.sim.fleet import DeploymentStatus
from scaler.sim.hpa import EXACT, HpaSpec

METADATA = {"scalerAddress": "127.0.0.1:1", "deployment": "vllm"}
NOW = DeploymentStatus(spec_replicas=2, replicas=2, ready=2, generation=1)


class Scaler(pb_grpc.ExternalScalerServicer):
    def __init__(self) -> None:
        self.calls: list[tuple[str, Any]] = []
        self.specs = [pb.MetricSpec(metricName="target-replicas", targetSize=1, targetSizeFloat=1.0)]
        self.values = [pb.MetricValue(metricName="target-replicas", metricValue=5, metricValueFloat=5.0)]
        self.failures: dict[str, int] = {}

    async def _called(self, name: str, request: Any, context: Any) -> None:
        self.calls.append((name, request))
        if self.failures.get(name, 0):
            self.failures[name] -= 1
            await context.abort(grpc.StatusCode.UNAVAILABLE, f"no data for {name}")

    async def GetMetricSpec(self, request: Any, context: Any) -> Any:  # noqa: N802 - the protocol's name
        await self._called("GetMetricSpec", request, context)
        return pb.GetMetricSpecResponse(metricSpecs=self.specs)

    async def GetMetrics(self, request: Any, context: Any) -> Any:  # noqa: N802 - the protocol's name
        await self._called("GetMetrics", request, context)
        return pb.GetMetricsResponse(metricValues=self.values)

    async def IsActive(self, request: Any, context: Any) -> Any:  # noqa: N802 - the protocol's name
        await self._called("IsActive", request, context)
        return pb.IsActiveResponse(result=True)


@pytest.fixture
def scaler() -> Scaler:
    return Scaler()


@pytest.fixture
async def keda(scaler: Scaler) -> AsyncIterator[KedaStandIn]:
    server = grpc.aio.server()
    pb_grpc.add_ExternalScalerServicer_to_server(scaler, server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        yield KedaStandIn(
            channel, namespace="demo", scaled_object="vllm", metadata=METADATA, hpa=HpaSpec(2, 10, behavior=EXACT)
        )
    await server.stop(None)


async def test_it_asks_in_kedas_order_with_the_whole_metadata(keda: KedaStandIn, scaler: Scaler) -> None:
    poll = await keda.poll(0.0, NOW)

    assert poll == Poll(replicas=5, value=5.0, active=True)
    assert [name for name, _ in scaler.calls] == ["GetMetricSpec", "GetMetrics", "IsActive"]
    ref = scaler.calls[0][1]
    assert (ref.namespace, ref.name, dict(ref.scalerMetadata)) == ("demo", "vllm", METADATA)
    assert scaler.calls[1][1].metricName == "target-replicas"
    assert scaler.calls[1][1].scaledObjectRef == scaler.calls[2][1] == ref


async def test_the_integer_counts_when_the_float_is_not_above_zero(keda: KedaStandIn, scaler: Scaler) -> None:
    scaler.values = [pb.MetricValue(metricValue=4, metricValueFloat=float("nan"))]

    assert (await keda.poll(0.0, NOW)).value == 4.0


async def test_values_are_summed_and_divided_by_the_target_of_the_first_answer(
    keda: KedaStandIn, scaler: Scaler
) -> None:
    scaler.specs = [pb.MetricSpec(metricName="x", targetSizeFloat=2.0)]
    scaler.values = [pb.MetricValue(metricValueFloat=5.0), pb.MetricValue(metricValueFloat=6.0)]
    assert (await keda.poll(0.0, NOW)).replicas == 6

    scaler.specs = [pb.MetricSpec(metricName="x", targetSizeFloat=1.0)]
    assert (await keda.poll(60.0, NOW)).replicas == 6, "the HPA keeps the target that it was made with"


@pytest.mark.parametrize("call", ["GetMetricSpec", "GetMetrics", "IsActive"])
async def test_one_error_is_asked_over(keda: KedaStandIn, scaler: Scaler, call: str) -> None:
    scaler.failures = {call: 1}

    assert (await keda.poll(0.0, NOW)) == Poll(replicas=5, value=5.0, active=True)


@pytest.mark.parametrize("call", ["GetMetricSpec", "GetMetrics", "IsActive"])
async def test_a_lasting_error_holds_the_replicas_and_is_shown(keda: KedaStandIn, scaler: Scaler, call: str) -> None:
    await keda.poll(0.0, NOW)
    scaler.failures = {call: 2}

    poll = await keda.poll(2.0, DeploymentStatus(spec_replicas=7, replicas=7, ready=7, generation=2))

    assert poll == Poll(replicas=7, error=f"UNAVAILABLE: no data for {call}")


@pytest.mark.parametrize("empty", ["specs", "values"])
async def test_no_metric_is_an_error_and_not_zero(keda: KedaStandIn, scaler: Scaler, empty: str) -> None:
    setattr(scaler, empty, [])

    poll = await keda.poll(0.0, NOW)

    assert (poll.replicas, poll.value, poll.error) == (2, None, "no matching metrics found")


async def test_replicas_outside_the_limits_are_brought_back_even_without_a_metric(
    keda: KedaStandIn, scaler: Scaler
) -> None:
    await keda.poll(0.0, NOW)
    scaler.failures = {"GetMetrics": 2}

    assert (await keda.poll(2.0, DeploymentStatus(12, 12, 12, 1))).replicas == 10
