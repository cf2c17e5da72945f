"""The keys of a trigger: what each one means, its default and its range.

This is the one source of truth: validation, error texts and docs/reference/trigger-metadata.md all follow from it. A
class is a section of that page and its docstring the section's introduction; a field's snake_case name is the key's
camelCase one. Checks across keys stand in the section of the keys that they compare; their names differ, since all
sections end in one class.
"""

from typing import ClassVar, Final

from pydantic import BaseModel, ConfigDict, Field, ValidationInfo, field_validator
from pydantic.alias_generators import to_camel

from scaler.config.kinds import Duration, KubernetesName, Number, Ratio, Replicas, Samples, Slots, Text, Ticks
from scaler.config.problems import Given, cross_field
from scaler.config.selector import MATCHER_LIMIT, Selector, read_selector
from scaler.units import format_number

FEW_SLOTS: Final = 16
"""Below this, one queued request is a large part of a replica's load, and 0.9 of the slots is no whole request less."""


class Section(BaseModel):
    """What the sections of a trigger's metadata have in common."""

    model_config: ClassVar[ConfigDict] = ConfigDict(frozen=True, extra="forbid", alias_generator=to_camel)


class Pool(Section):
    """Which series in Prometheus belong to the pool. The namespace is always the ScaledObject's own.

    Give `modelName`, or the workload (`deployment`, `statefulSet` or `leaderWorkerSet`), or both. Name the workload
    wherever kube-state-metrics runs: only then are requested replicas, starting replicas and rollouts known.
    """

    model_name: Text | None = Field(
        default=None,
        description="The `model_name` label of the pool's vLLM series: the first `--served-model-name`, else the model"
        " as it was given to vLLM. Set it when the series have no usable `pod` label, or when several models run in"
        " one workload.",
        examples=["meta-llama/Llama-3.1-8B-Instruct"],
    )
    deployment: KubernetesName | None = Field(
        default=None,
        description="The Deployment that the ScaledObject scales. Its pods are the pool's replicas.",
        examples=["vllm-llama"],
    )
    stateful_set: KubernetesName | None = Field(
        default=None,
        description="The StatefulSet that the ScaledObject scales, in place of `deployment`.",
        examples=["vllm-llama"],
    )
    leader_worker_set: KubernetesName | None = Field(
        default=None,
        description="The LeaderWorkerSet that the ScaledObject scales, in place of `deployment`. One group of pods is"
        " one replica.",
        examples=["vllm-deepseek"],
    )
    selector: Selector = Field(
        default=(),
        description="Further label matchers that the pool's vLLM series must meet, in PromQL form, with or without"
        f" braces; at most {MATCHER_LIMIT}. Use it when one Prometheus holds several clusters, or when a router"
        " exports series of the same names. Labels that the queries set themselves (the namespace, `le`, and names"
        " that begin with `__`) are refused. Regular expressions are RE2, as in Prometheus.",
        examples=['job="vllm",cluster=~"eu-1|eu-2"'],
        json_schema_extra={"default": "no further condition"},
    )

    @field_validator("selector", mode="before")
    @classmethod
    def _selector_is_matchers(cls, value: object, info: ValidationInfo) -> object:
        if isinstance(value, tuple):
            return value
        return read_selector(value, namespace_label=Given.of(info).namespace_label)


class Capacity(Section):
    """What one replica can carry. This is the setting that matters most; measure it rather than guess it.

    Saturation is requests in flight (running and waiting) divided by slots. It tells of overload before any latency
    does, so it must be there for every decision.
    """

    slots_per_replica: Slots = Field(
        ge=1,
        le=65536,
        description="How many requests one replica carries at the same time within its latency objective. Find it with"
        " `vllm bench serve`: the highest concurrency that still meets the objective. It is at most vLLM's"
        " `--max-num-seqs` times the engines of one replica, and usually well below.",
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
        default=2.0,
        ge=0,
        le=10,
        description="How much random fluctuation fewer replicas must still have room for, in square roots of the"
        " requests in flight (about standard deviations). 0 leaves none; raise it for bursty traffic.",
        examples=["3"],
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
            raise _not_below(info, "scaleDownSaturation", value, "scaleUpSaturation", up)
        return value


class KvCache(Section):
    """How full the replicas' KV caches may be. Long prompts fill a replica before its slots do."""

    kv_cache_scale_up: Ratio = Field(
        default=0.9,
        ge=0.05,
        le=1,
        description="Above this KV-cache usage more replicas are needed. Lower it if requests are preempted before the"
        " pool scales.",
        examples=["0.85"],
    )
    kv_cache_scale_down: Ratio = Field(
        default=0.7,
        ge=0.05,
        le=1,
        description="Fewer replicas will do only if their KV caches would be used no more than this. Must be below"
        " `kvCacheScaleUp`.",
        examples=["0.6"],
    )

    @field_validator("kv_cache_scale_down")
    @classmethod
    def _kv_cache_dead_band(cls, value: float, info: ValidationInfo) -> float:
        up = info.data.get("kv_cache_scale_up")
        if up is not None and value >= up:
            raise _not_below(info, "kvCacheScaleDown", value, "kvCacheScaleUp", up)
        return value


class Latency(Section):
    """The latency objective. A quantile lags on the way up and lingers on the way down, so it is heard only with load.

    TTFT is the time to first token, as vLLM measures it: from a request's arrival, its wait included.
    """

    ttft_p95_seconds: Duration = Field(
        default=2.5,
        ge=0.01,
        le=3600,
        description="The objective for the P95 time to first token; above it more replicas are needed. Choose a bound"
        " of vLLM's histogram (0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 20 s), because between bounds Prometheus only"
        " estimates.",
        examples=["1"],
    )
    latency_min_saturation: Ratio = Field(
        default=0.5,
        ge=0,
        le=1,
        description="A latency above its objective is heard only while requests wait or running requests fill at least"
        " this share of the slots. Lower it if few requests are enough to make a replica slow.",
        examples=["0.3"],
    )
    latency_min_samples: Samples = Field(
        default=20,
        ge=1,
        le=100_000,
        description="How many first tokens the rate window must hold before their P95 is believed. With fewer than 20"
        " a P95 is the slowest request.",
        examples=["50"],
    )
    latency_scale_down_ratio: Ratio = Field(
        default=0.6,
        ge=0.05,
        le=0.95,
        description="Fewer replicas will do only if the predicted latency keeps to this share of the objective. Raise"
        " it if a pool with steady latency never scales down.",
        examples=["0.7"],
    )
    drain_horizon_seconds: Duration = Field(
        default=60.0,
        ge=0,
        le=3600,
        description="A latency above its objective is not heard while its queue is shrinking fast enough to be gone"
        " within this time, since new replicas would come too late for it. 0 switches this off.",
        examples=["90s"],
    )


class Windows(Section):
    """For how long a signal must ask before it is heard.

    One tick is the service's evaluation interval, 15 s by default. Scaling up needs one signal all through its up
    window (one tick out of line in four is forgiven). Scaling down needs all signals, all through their down windows.
    A burst (twice the replicas needed at once) waits for no window.
    """

    scale_up_windows: Ticks = Field(
        default=4,
        ge=1,
        le=240,
        description="Ticks for which a signal must ask for more replicas. Fewer follow load sooner and reverse more"
        " often: 2 ticks doubled the reversals for the same attainment.",
        examples=["6"],
    )
    scale_down_windows: Ticks = Field(
        default=20,
        ge=1,
        le=240,
        description="Ticks for which fewer replicas must do. Make it longer than the gaps in your traffic, and longer"
        " the longer a replica takes to start.",
        examples=["40"],
    )
    saturation_scale_up_windows: Ticks | None = Field(
        default=None,
        ge=1,
        le=240,
        description="`scaleUpWindows` for the saturation signal alone. Shorten it where load rises fast.",
        examples=["2"],
        json_schema_extra={"default": "scaleUpWindows"},
    )
    saturation_scale_down_windows: Ticks | None = Field(
        default=None,
        ge=1,
        le=240,
        description="`scaleDownWindows` for the saturation signal alone.",
        examples=["40"],
        json_schema_extra={"default": "scaleDownWindows"},
    )
    kv_cache_scale_up_windows: Ticks | None = Field(
        default=None,
        ge=1,
        le=240,
        description="`scaleUpWindows` for the KV-cache signal alone. Lengthen it where single long prompts fill a"
        " cache for a moment.",
        examples=["6"],
        json_schema_extra={"default": "scaleUpWindows"},
    )
    kv_cache_scale_down_windows: Ticks | None = Field(
        default=None,
        ge=1,
        le=240,
        description="`scaleDownWindows` for the KV-cache signal alone.",
        examples=["40"],
        json_schema_extra={"default": "scaleDownWindows"},
    )
    ttft_scale_up_windows: Ticks | None = Field(
        default=None,
        ge=1,
        le=240,
        description="`scaleUpWindows` for the TTFT signal alone. Lengthen it where a single slow minute is no reason to"
        " scale.",
        examples=["8"],
        json_schema_extra={"default": "scaleUpWindows"},
    )
    ttft_scale_down_windows: Ticks | None = Field(
        default=None,
        ge=1,
        le=240,
        description="`scaleDownWindows` for the TTFT signal alone.",
        examples=["40"],
        json_schema_extra={"default": "scaleDownWindows"},
    )


class Limits(Section):
    """How far and how often the pool may change.

    The ScaledObject's own minimum, maximum and HPA behaviour apply as well.
    """

    min_replicas: Replicas = Field(
        default=1,
        ge=1,
        le=10_000,
        description="Never fewer than this. It is at least 1: without replicas nothing here shows that a request"
        " waits for one. Give the same number as the ScaledObject's `minReplicaCount`.",
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
        description="The most replicas that one decision removes, and never more than half. Raise it for large pools"
        " whose load falls quickly.",
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
        default=60.0,
        ge=0,
        le=86_400,
        description="Time after a decrease without another one. Raise it to give up replicas more slowly.",
        examples=["5m"],
    )

    @field_validator("max_replicas")
    @classmethod
    def _max_from_min(cls, value: int, info: ValidationInfo) -> int:
        low = info.data.get("min_replicas")
        if low is not None and value < low:
            show = Given.of(info).show
            raise cross_field(f"{show('maxReplicas', str(value))} must not be below {show('minReplicas', str(low))}")
        return value


class Reading(Section):
    """How the pool's series are read. Change these only if Prometheus scrapes the pool less often than every 15 s."""

    rate_window_seconds: Duration = Field(
        default=60.0,
        ge=10,
        le=900,
        description="The window of rates and quantiles. Make it at least four scrape intervals; a longer one is"
        " steadier, and slower to notice and to forget.",
        examples=["2m"],
    )
    stale_after_seconds: Duration = Field(
        default=90.0,
        ge=5,
        le=300,
        description="A replica whose newest sample is older than this does not count as serving. Make it at least three"
        " scrape intervals. Prometheus itself forgets a series after 5 min.",
        examples=["3m"],
    )


SECTIONS: Final[tuple[tuple[str, type[Section]], ...]] = (
    ("Finding the pool", Pool),
    ("Capacity and saturation", Capacity),
    ("KV cache", KvCache),
    ("Latency", Latency),
    ("Windows", Windows),
    ("Limits", Limits),
    ("Reading Prometheus", Reading),
)
"""The sections in the order of the reference page, with their titles."""


class TriggerMetadata(Pool, Capacity, KvCache, Latency, Windows, Limits, Reading):
    """All keys of a trigger, read and checked."""


FIELDS: Final = {to_camel(name): field for _, section in SECTIONS for name, field in section.model_fields.items()}
"""Every key as users write it, in the order of the reference page."""


def _up_saturation(given: float | None, slots: int) -> float:
    default = 1.0 if slots < FEW_SLOTS else 0.9
    return default if given is None else given


def _not_below(info: ValidationInfo, down_key: str, down: float, up_key: str, up: float) -> Exception:
    show = Given.of(info).show
    shown_down, shown_up = show(down_key, format_number(down)), show(up_key, format_number(up))
    return cross_field(f"{shown_down} must be below {shown_up}, so that a dead band lies between them")
