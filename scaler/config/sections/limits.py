"""How many replicas there may be: none at all, bounds, steps, spare ones, and cost."""

from pydantic import Field, ValidationInfo, field_validator

from scaler.config.kinds import Duration, HourlyCost, Replicas
from scaler.config.problems import Given, cross_field, several
from scaler.config.queries import Activation, read_activation
from scaler.config.sections.base import Section
from scaler.config.sections.pool import A_WORKLOAD, names_workload
from scaler.model import GATEWAY_ACTIVATION, ROUTER_ACTIVATION
from scaler.units import floor_replicas


class ScaleToZero(Section):
    """What wakes a pool that has no replica. It concerns pools with `minReplicas` 0 only.

    The ScaledObject needs `minReplicaCount: 0`, and its `cooldownPeriod` passes before KEDA removes the last replica.
    Whatever receives requests while there is no replica must hold them, or the request that wakes the pool is lost.
    """

    activation_signal: Activation = Field(
        default=None,
        description="What shows that requests come while there are no replicas. `router`: requests for `modelName` at"
        " vLLM production-stack's router in the rate window. `gateway`: requests for `modelName` in the flow-control"
        " queue of the inference gateway's endpoint picker. `query:NAME`: a query that the operator of the scaler has"
        " named is above 0 for the pool. While it cannot be read, KEDA gets an error and leaves the pool as it is.",
        examples=["router", "gateway", "query:gateway_queue"],
    )

    @field_validator("activation_signal", mode="before")
    @classmethod
    def _activation_is_known(cls, value: object, info: ValidationInfo) -> object:
        return None if value is None else read_activation(value, Given.of(info).queries)

    @field_validator("activation_signal")
    @classmethod
    def _requests_of_a_model(cls, value: str | None, info: ValidationInfo) -> str | None:
        if value in {ROUTER_ACTIVATION, GATEWAY_ACTIVATION} and info.data.get("model_name", "") is None:
            shown = Given.of(info).show("activationSignal", "")
            raise cross_field(f"{shown} needs modelName beside it: requests are counted by model")
        return value


class Limits(Section):
    """How far and how often the pool may change.

    The ScaledObject's own minimum, maximum and HPA behaviour apply as well.
    """

    min_replicas: Replicas = Field(
        default=1,
        ge=0,
        le=10_000,
        description="Never fewer than this. 0 needs `activationSignal`, since without replicas nothing in vLLM's"
        " metrics shows that a request waits for one, and a workload. Give the same number as the ScaledObject's"
        " `minReplicaCount`.",
        examples=["2"],
    )
    max_replicas: Replicas = Field(
        default=100,
        ge=1,
        le=10_000,
        description="Never more than this; the default is KEDA's own. Give the same number as the ScaledObject's"
        " `maxReplicaCount`, so that the record can say when the maximum is what holds the pool back.",
        examples=["40"],
    )
    warm_replicas: Replicas = Field(
        default=0,
        ge=0,
        le=1000,
        description="Spare replicas on top of what is needed, so that a burst finds them started. Each costs what a"
        " replica costs; use them where a replica takes minutes to start and requests cannot wait so long.",
        examples=["1"],
    )
    max_step_up: Replicas = Field(
        default=4,
        ge=1,
        le=10_000,
        description="The most replicas that one decision adds; a pool may always double. The default is what the HPA"
        " allows by itself.",
        examples=["8"],
    )
    max_step_down: Replicas = Field(
        default=1,
        ge=1,
        le=10_000,
        description="The most replicas that one decision removes; one in five may always go, and never more than half."
        " Raise it where the load falls quickly. A step that the HPA would ignore (see `hpaTolerance`) is made as long"
        " as the shortest one that it follows.",
        examples=["2"],
    )
    scale_up_cooldown_seconds: Duration = Field(
        default=30.0,
        ge=0,
        le=86_400,
        description="Time after an increase without another one. Bursts do not wait for it.",
        examples=["1m"],
    )
    scale_down_cooldown_seconds: Duration = Field(
        default=120.0,
        ge=0,
        le=86_400,
        description="Time after a decrease without another one, so that what it did is seen first. Raise it to give up"
        " replicas more slowly.",
        examples=["5m"],
    )

    @field_validator("min_replicas")
    @classmethod
    def _zero_is_known_and_left(cls, value: int, info: ValidationInfo) -> int:
        if value > 0:
            return value
        shown = Given.of(info).show("minReplicas", "0")
        found = []
        if info.data.get("activation_signal", "") is None:
            found.append(f"{shown} needs activationSignal beside it (router, gateway or query:NAME) to wake the pool")
        if not names_workload(info):
            found.append(f"{shown} needs {A_WORKLOAD}: no other series tells that there are no replicas")
        if found:
            raise several(found)
        return value

    @field_validator("max_replicas")
    @classmethod
    def _max_from_min(cls, value: int, info: ValidationInfo) -> int:
        low = info.data.get("min_replicas")
        if low is not None and value < low:
            show = Given.of(info).show
            raise cross_field(f"{show('maxReplicas', str(value))} must not be below {show('minReplicas', str(low))}")
        return value

    @field_validator("warm_replicas")
    @classmethod
    def _warm_within_bounds(cls, value: int, info: ValidationInfo) -> int:
        low, high, show = info.data.get("min_replicas"), info.data.get("max_replicas"), Given.of(info).show
        shown = show("warmReplicas", str(value))
        found = []
        if value and low == 0:
            found.append(f"{shown} needs replicas that always run: make {show('minReplicas', '0')} at least 1")
        if high is not None and value >= high:
            found.append(f"{shown} must be below {show('maxReplicas', str(high))}, so that some are left for the load")
        if found:
            raise several(found)
        return value


class Cost(Section):
    """What replicas cost, in a currency of your choice. With a price, records and metrics say what the pool costs."""

    replica_hourly_cost: HourlyCost | None = Field(
        default=None,
        ge=0.0001,
        le=1_000_000,
        description="What one replica costs in an hour, all of its GPUs and nodes together.",
        examples=["2.5"],
    )
    max_hourly_cost: HourlyCost | None = Field(
        default=None,
        ge=0.0001,
        le=1_000_000_000,
        description="Never more replicas than this pays for. It must pay for one replica, for `minReplicas`, and for"
        " one more than `warmReplicas`.",
        examples=["40"],
        json_schema_extra={"default": "no limit", "only_with": ["replicaHourlyCost"]},
    )

    @field_validator("max_hourly_cost")
    @classmethod
    def _pays_for_the_least(cls, value: float | None, info: ValidationInfo) -> float | None:
        price, low, warm = (info.data.get(key) for key in ("replica_hourly_cost", "min_replicas", "warm_replicas"))
        if value is None or price is None or low is None or warm is None:
            return value  # no limit, or one of them is missing or wrong itself
        least = max(1, low, warm + 1)
        if (paid := floor_replicas(value / price)) < least:
            show = Given.of(info).show
            why = "at least one"
            if warm + 1 == least > 1:
                why = f"{show('warmReplicas', str(warm))} and one for the load"
            elif least > 1:
                why = show("minReplicas", str(low))
            text = (
                f"{show('maxHourlyCost', '')} pays for {paid} at {show('replicaHourlyCost', '')} each, and must pay for"
                f" {why}: {least * price:.10g}"
            )
            raise cross_field(text)
        return value
