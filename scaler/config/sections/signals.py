"""The signals that every pool has: saturation, KV cache and TTFT."""

from typing import Final

from pydantic import Field, ValidationInfo, field_validator
from pydantic.config import JsonDict

from scaler.config.kinds import Duration, DurationOrOff, Number, Ratio, RatioOrOff, Samples, Slots
from scaler.config.sections.base import Section, not_below

FEW_SLOTS: Final = 16
"""Below this, one queued request is a large part of a replica's load, and 0.9 of the slots is no whole request less."""


class Capacity(Section):
    """What one replica can carry. This is the setting that matters most; measure it rather than guess it.

    Saturation is requests in flight (running and waiting) divided by slots. It tells of overload before any latency
    does, so it must be there for every decision.
    """

    slots_per_replica: Slots = Field(
        ge=1,
        le=65536,
        description="How many requests one replica carries at the same time within its latency objective. Find it with"
        " `vllm-scaler capacity`: the requests in flight at the largest arrival rate that meets the objective. It is at"
        " most vLLM's `--max-num-seqs` times the engines of one replica, and usually well below.",
        examples=["16"],
    )
    scale_up_saturation: Ratio | None = Field(
        default=None,
        ge=0.05,
        le=2,
        description="Above this saturation more replicas are needed. Lower it to keep room for bursts; above 1 requests"
        " are made to wait.",
        examples=["0.85"],
        json_schema_extra={"default": f"1 below {FEW_SLOTS} slots per replica, 0.9 from {FEW_SLOTS} on"},
    )
    scale_down_saturation: Ratio = Field(
        default=0.8,
        ge=0.05,
        le=2,
        description="Fewer replicas will do only if they would be at or below this saturation. Must be below"
        " `scaleUpSaturation`: between the two nothing changes. Lower it if the pool scales down and soon up again.",
        examples=["0.7"],
    )
    scale_down_noise: Number = Field(
        default=3.0,
        ge=0,
        le=10,
        description="How much random fluctuation fewer replicas must still have room for, in square roots of the"
        " requests in flight (about standard deviations). 0 leaves none; raise it for bursty traffic.",
        examples=["4"],
    )

    @property
    def up_saturation(self) -> float:
        """The scale-up saturation in force."""
        return _up_saturation(self.scale_up_saturation, self.slots_per_replica)

    @field_validator("scale_down_saturation")
    @classmethod
    def _saturation_dead_band(cls, value: float, info: ValidationInfo) -> float:
        if not {"slots_per_replica", "scale_up_saturation"} <= info.data.keys():
            return value  # one of them is wrong itself
        up = _up_saturation(info.data["scale_up_saturation"], info.data["slots_per_replica"])
        if value >= up:
            raise not_below(info, "scaleDownSaturation", value, "scaleUpSaturation", up)
        return value


class KvCache(Section):
    """How full the replicas' KV caches may be. Long prompts fill a replica before its slots do."""

    kv_cache_scale_up: RatioOrOff = Field(
        default=0.9,
        ge=0.05,
        le=1,
        description="Above this KV-cache usage more replicas are needed. Lower it if requests are preempted before the"
        " pool scales. `off` leaves KV-cache usage out, for pools whose caches say little of their load.",
        examples=["0.85"],
    )
    kv_cache_scale_down: Ratio = Field(
        default=0.7,
        ge=0.05,
        le=1,
        description="Fewer replicas will do only if their KV caches would be used no more than this. Must be below"
        " `kvCacheScaleUp`.",
        examples=["0.6"],
        json_schema_extra={"only_with": ["kvCacheScaleUp"]},
    )

    @field_validator("kv_cache_scale_down")
    @classmethod
    def _kv_cache_dead_band(cls, value: float, info: ValidationInfo) -> float:
        up = info.data.get("kv_cache_scale_up")
        if up is not None and value >= up:
            raise not_below(info, "kvCacheScaleDown", value, "kvCacheScaleUp", up)
        return value


_OF_LATENCIES: Final[JsonDict] = {
    "only_with": ["ttftP95Seconds", "itlP95Seconds", "queueTimeP95Seconds", "e2eP95Seconds"]
}


class Latency(Section):
    """The latency objective. A quantile lags on the way up and lingers on the way down, so it is heard only with load.

    TTFT is the time to first token, as vLLM measures it: from a request's arrival, its wait included. What follows its
    objective here holds for the other latencies as well (`itlP95Seconds`, `queueTimeP95Seconds`, `e2eP95Seconds`).
    """

    ttft_p95_seconds: DurationOrOff = Field(
        default=2.5,
        ge=0.01,
        le=3600,
        description="The objective for the P95 time to first token; above it more replicas are needed. Choose a bound"
        " of vLLM's histogram (0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 20 s), because between bounds Prometheus only"
        " estimates. `off` leaves TTFT out.",
        examples=["1"],
    )
    latency_min_saturation: Ratio = Field(
        default=0.5,
        ge=0,
        le=1,
        description="A latency above its objective is heard only while requests wait or running requests fill at least"
        " this share of the slots. Lower it if few requests are enough to make a replica slow.",
        examples=["0.3"],
        json_schema_extra=_OF_LATENCIES,
    )
    latency_min_samples: Samples = Field(
        default=20,
        ge=1,
        le=100_000,
        description="How many observations of a latency the rate window must hold before their P95 is believed. With"
        " fewer than 20 a P95 is the slowest request.",
        examples=["50"],
        json_schema_extra=_OF_LATENCIES,
    )
    latency_scale_down_ratio: Ratio = Field(
        default=0.6,
        ge=0.05,
        le=0.95,
        description="Fewer replicas will do only if each predicted latency keeps to this share of its objective. Raise"
        " it if a pool with steady latency never scales down.",
        examples=["0.7"],
        json_schema_extra=_OF_LATENCIES,
    )
    drain_horizon_seconds: Duration = Field(
        default=60.0,
        ge=0,
        le=3600,
        description="A latency above its objective is not heard while its queue is shrinking fast enough to be gone"
        " within this time, since new replicas would come too late for it. 0 switches this off.",
        examples=["90s"],
        json_schema_extra=_OF_LATENCIES,
    )


def _up_saturation(given: float | None, slots: int) -> float:
    default = 1.0 if slots < FEW_SLOTS else 0.9
    return default if given is None else given
