"""For how long signals must ask."""

from pydantic import Field

from scaler.config.kinds import Ticks
from scaler.config.sections.base import Section


class Windows(Section):
    """For how long a signal must ask before it is heard.

    One tick is the service's evaluation interval, 15 s by default. Scaling up needs one signal all through its up
    window (one tick out of line in four is forgiven). Scaling down needs all signals, all through their down windows.
    A burst (more in flight than noise explains, or a certain growth) waits for no window. Optional signals have the
    general windows.
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
        " the longer a replica takes to start. A pool that scaled down too soon several times waits up to 8 times as"
        " long by itself.",
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
        json_schema_extra={"default": "scaleUpWindows", "only_with": ["kvCacheScaleUp"]},
    )
    kv_cache_scale_down_windows: Ticks | None = Field(
        default=None,
        ge=1,
        le=240,
        description="`scaleDownWindows` for the KV-cache signal alone.",
        examples=["40"],
        json_schema_extra={"default": "scaleDownWindows", "only_with": ["kvCacheScaleUp"]},
    )
    ttft_scale_up_windows: Ticks | None = Field(
        default=None,
        ge=1,
        le=240,
        description="`scaleUpWindows` for the TTFT signal alone. Lengthen it where a single slow minute is no reason to"
        " scale.",
        examples=["8"],
        json_schema_extra={"default": "scaleUpWindows", "only_with": ["ttftP95Seconds"]},
    )
    ttft_scale_down_windows: Ticks | None = Field(
        default=None,
        ge=1,
        le=240,
        description="`scaleDownWindows` for the TTFT signal alone.",
        examples=["40"],
        json_schema_extra={"default": "scaleDownWindows", "only_with": ["ttftP95Seconds"]},
    )
