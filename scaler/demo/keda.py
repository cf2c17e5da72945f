"""A stand-in for KEDA and its HPA: the same calls over real gRPC, and the HPA's arithmetic on what they answer.

Production differs in pace alone: KEDA polls every 30 s and the HPA looks every 15 s, each with the three calls that are
made here at once for both. The fleet has one replica at least, so what IsActive answers changes nothing but the status;
it is asked because KEDA does, and because its error counts like that of GetMetrics.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

import grpc

from scaler.protos import externalscaler_pb2 as pb
from scaler.protos import externalscaler_pb2_grpc as pb_grpc
from scaler.sim.fleet import DeploymentStatus
from scaler.sim.hpa import HpaController, HpaSpec, answered_value

# KEDA sets no deadline. Here a hung service must not hang the demo.
_TIMEOUT_S: Final = 10.0
# After an error KEDA builds its scaler anew and asks once more at once.
_ATTEMPTS: Final = 2


@dataclass(frozen=True, slots=True)
class Poll:
    """What one round of calls came to."""

    replicas: int
    """The new spec.replicas."""
    value: float | None = None
    """The metric; None when it could not be had."""
    active: bool = False
    error: str = ""
    """What KEDA would write into an event on the ScaledObject."""


class KedaStandIn:
    """KEDA with one ScaledObject, and the HPA that it made of it.

    Args:
        channel: To the scaler.
        namespace: The ScaledObject's namespace.
        scaled_object: Its name.
        metadata: Its trigger's metadata, the scaler's address included.
        hpa: Its limits and behaviour; the target comes from the scaler.
    """

    def __init__(
        self,
        channel: grpc.aio.Channel,
        *,
        namespace: str,
        scaled_object: str,
        metadata: Mapping[str, str],
        hpa: HpaSpec,
    ) -> None:
        self._stub = pb_grpc.ExternalScalerStub(channel)
        self._ref = pb.ScaledObjectRef(name=scaled_object, namespace=namespace, scalerMetadata=metadata)
        self._hpa_spec = hpa
        self._hpa: HpaController | None = None

    async def poll(self, now: float, deployment: DeploymentStatus) -> Poll:
        """Ask the scaler, and do the HPA's sum.

        Args:
            now: Time in seconds, for the HPA's windows.
            deployment: The workload as it is now.
        """
        try:
            value, active = await self._ask_twice()
        except grpc.aio.AioRpcError as error:
            replicas = self._sync(now, deployment, None)
            return Poll(replicas, error=f"{error.code().name}: {error.details()}")
        if value is None:
            return Poll(self._sync(now, deployment, None), active=active, error="no matching metrics found")
        return Poll(self._sync(now, deployment, value), value, active)

    async def _ask_twice(self) -> tuple[float | None, bool]:
        for _ in range(_ATTEMPTS - 1):
            try:
                return await self._ask()
            except grpc.aio.AioRpcError:
                continue
        return await self._ask()

    async def _ask(self) -> tuple[float | None, bool]:
        """Make the three calls; the value is None when the scaler names no metric, or has none."""
        specs = (await self._stub.GetMetricSpec(self._ref, timeout=_TIMEOUT_S)).metricSpecs
        if not specs:
            return None, False
        if self._hpa is None:
            # KEDA writes the target into the HPA when it makes it, and does not look at it again.
            target = answered_value(specs[0].targetSizeFloat, specs[0].targetSize)
            self._hpa = HpaController(replace(self._hpa_spec, target=target))
        request = pb.GetMetricsRequest(scaledObjectRef=self._ref, metricName=specs[0].metricName)
        values = (await self._stub.GetMetrics(request, timeout=_TIMEOUT_S)).metricValues
        active = (await self._stub.IsActive(self._ref, timeout=_TIMEOUT_S)).result
        if not values:
            return None, active
        return sum(answered_value(each.metricValueFloat, each.metricValue) for each in values), active

    def _sync(self, now: float, deployment: DeploymentStatus, value: float | None) -> int:
        if self._hpa is None:
            return deployment.spec_replicas
        return self._hpa.sync(
            now, spec_replicas=deployment.spec_replicas, status_replicas=deployment.replicas, value=value
        )
