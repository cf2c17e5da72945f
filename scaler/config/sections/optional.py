"""The signals that a pool has only when asked for."""

from typing import Final

from pydantic import Field, JsonValue, ValidationInfo, field_validator

from scaler.config.kinds import (
    DurationOrOff,
    EventsPerSecondOrOff,
    Ratio,
    RatioOrOff,
    RequestsOrOff,
    TokensPerSecondOrOff,
)
from scaler.config.problems import Given, cross_field
from scaler.config.queries import CUSTOM_LIMIT, CustomQueries, read_custom_queries
from scaler.config.sections.base import Section
from scaler.config.sections.pool import A_WORKLOAD, names_workload

_THRESHOLDS: Final[list[JsonValue]] = [
    "waitingPerReplica",
    "preemptionsPerSecond",
    "rejectionsPerSecond",
    "promptTokensPerSecondPerReplica",
    "generationTokensPerSecondPerReplica",
    "gpuUtilization",
    "customQueries",
]


class OptionalSignals(Section):
    """Further signals, each of them off until it is given a value. `off` switches one off that a preset has on.

    As with the others, any one of them that stays above its value scales the pool up, and all must agree before it
    scales down; so one that cannot be read keeps the pool from scaling down. Most pools need none: requests in flight,
    KV-cache usage and TTFT show an overload before any of these does.
    """

    waiting_per_replica: RequestsOrOff = Field(
        default=None,
        ge=0.1,
        le=10_000,
        description="Waiting requests for each replica above which more replicas are needed; deferred ones, which more"
        " replicas would not help, do not count. Saturation counts them already: use this where running requests say"
        " little, as in a prefill pool.",
        examples=["4"],
    )
    itl_p95_seconds: DurationOrOff = Field(
        default=None,
        ge=0.01,
        le=60,
        description="The objective for the P95 inter-token latency, the gap between a request's tokens. Choose a bound"
        " of vLLM's histogram (0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2 s). It barely moves where `--max-num-seqs`"
        " limits the batch: then use TTFT.",
        examples=["0.05"],
    )
    queue_time_p95_seconds: DurationOrOff = Field(
        default=None,
        ge=0.3,
        le=3600,
        description="The objective for the P95 time that a request waits in vLLM's queue. vLLM reports it when the"
        " request ends, so TTFT shows the same sooner unless answers are short. The lowest bound of its histogram is"
        " 0.3 s (then 0.5, 0.8, 1, 1.5, 2, 2.5, 5, 10, 15 s).",
        examples=["1"],
    )
    e2e_p95_seconds: DurationOrOff = Field(
        default=None,
        ge=0.3,
        le=3600,
        description="The objective for the P95 time from a request's arrival to its last token. It depends on the"
        " length of answers as much as on the load, and is reported when the request ends. Choose a bound of vLLM's"
        " histogram (2.5, 5, 10, 15, 20, 30, 40, 50, 60, 120 s).",
        examples=["30"],
    )
    preemptions_per_second: EventsPerSecondOrOff = Field(
        default=None,
        ge=0.001,
        le=1000,
        description="Preemptions a second, of the whole pool, above which more replicas are needed. vLLM preempts a"
        " request for want of KV cache and later computes it again. Any preemption keeps the pool from scaling down"
        " anyway.",
        examples=["0.1"],
    )
    rejections_per_second: EventsPerSecondOrOff = Field(
        default=None,
        ge=0.001,
        le=1000,
        description="Requests a second, of the whole pool, that vLLM refuses for a full queue, above which more"
        " replicas are needed. It needs vLLM 0.32 or newer with `--max-num-queued-reqs` or `--max-num-queued-tokens`;"
        " such a limit hides demand from every other signal, so set this wherever there is one.",
        examples=["0.1"],
    )
    prompt_tokens_per_second_per_replica: TokensPerSecondOrOff = Field(
        default=None,
        ge=1,
        le=10_000_000,
        description="Prompt tokens a second that one replica can prefill. A rate cannot rise above what the pool can"
        " do: give about nine tenths of the measured most, or it never asks for more.",
        examples=["8000"],
    )
    generation_tokens_per_second_per_replica: TokensPerSecondOrOff = Field(
        default=None,
        ge=1,
        le=10_000_000,
        description="Tokens a second that one replica can generate. A rate cannot rise above what the pool can do: give"
        " about nine tenths of the measured most, or it never asks for more.",
        examples=["2000"],
    )
    gpu_utilization: RatioOrOff = Field(
        default=None,
        ge=0.05,
        le=0.99,
        description="The mean utilisation of the pool's GPUs (NVIDIA's DCGM exporter) above which more replicas are"
        " needed, while `gpuMemory` is in use too. It is the share of time in which any kernel ran, and nears 1 from"
        " the first request on: a guard, not a measure of load. GPUs are known by their pods, so name the workload.",
        examples=["0.95"],
    )
    gpu_memory: Ratio = Field(
        default=0.8,
        ge=0,
        le=1,
        description="The GPU utilisation asks for more replicas only while at least this share of the GPUs' memory is"
        " in use. vLLM takes its share (`--gpu-memory-utilization`, 0.9) at the start. 0: whatever is in use.",
        examples=["0.85"],
        json_schema_extra={"only_with": ["gpuUtilization"]},
    )
    custom_queries: CustomQueries = Field(
        default=(),
        description="Queries that the operator of the scaler has named in its settings file (`queries`), each with what"
        f" one replica carries of its value: `name=20`, or several with commas between them; at most {CUSTOM_LIMIT}."
        " More replicas are needed when a query's value for the pool is above that number times the replicas.",
        examples=["gateway_queue=20,embedding_backlog=500"],
        json_schema_extra={"default": "none"},
    )
    threshold_scale_down_ratio: Ratio = Field(
        default=0.8,
        ge=0.05,
        le=0.95,
        description="Fewer replicas will do only if each optional signal would keep to this share of its value. It does"
        " not concern latencies: theirs is `latencyScaleDownRatio`.",
        examples=["0.7"],
        json_schema_extra={"only_with": _THRESHOLDS},
    )

    @field_validator("custom_queries", mode="before")
    @classmethod
    def _custom_queries_are_known(cls, value: object, info: ValidationInfo) -> object:
        return value if isinstance(value, tuple) else read_custom_queries(value, Given.of(info).queries)

    @field_validator("gpu_utilization")
    @classmethod
    def _gpus_of_a_workload(cls, value: float | None, info: ValidationInfo) -> float | None:
        if value is not None and not names_workload(info):
            shown = Given.of(info).show("gpuUtilization", "")
            raise cross_field(f"{shown} needs {A_WORKLOAD}: GPUs are known by their pods")
        return value
