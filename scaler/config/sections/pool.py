"""Which pool is meant, and how its series are read."""

from typing import Final

from pydantic import Field, ValidationInfo, field_validator

from scaler.config.kinds import Duration, KubernetesName, Text
from scaler.config.presets import PresetName, read_preset
from scaler.config.problems import Given
from scaler.config.sections.backend import BackendName, read_backend_name
from scaler.config.sections.base import Section
from scaler.config.selector import MATCHER_LIMIT, Selector, read_selector
from scaler.model import DEFAULT_BACKEND

A_WORKLOAD: Final = "a workload beside it (deployment, statefulSet or leaderWorkerSet)"
"""What is needed, in a sentence."""


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
        f" braces; at most {MATCHER_LIMIT}. Use it when a router exports series of the same names. It does not narrow"
        " kube-state-metrics: where one Prometheus holds several clusters, let the operator of the scaler name a"
        " backend with external labels for each. Labels that the queries set themselves (the namespace, `le`, and names"
        " that begin with `__`) are refused. Regular expressions are RE2, as in Prometheus.",
        examples=['job="vllm",cluster=~"eu-1|eu-2"'],
        json_schema_extra={"default": "no further condition"},
    )

    prometheus: BackendName = Field(
        default=DEFAULT_BACKEND,
        description="The Prometheus that has the pool's series, by the name that the operator of the scaler has given"
        " it in the service's settings (`backends`). All of the pool is read from it: vLLM, kube-state-metrics, named"
        " queries. An address is refused.",
        examples=["eu-1"],
    )

    @field_validator("prometheus", mode="before")
    @classmethod
    def _prometheus_is_known(cls, value: object, info: ValidationInfo) -> str:
        return read_backend_name(value, Given.of(info).backends)

    @field_validator("selector", mode="before")
    @classmethod
    def _selector_is_matchers(cls, value: object, info: ValidationInfo) -> object:
        if isinstance(value, tuple):
            return value
        return read_selector(value, namespace_label=Given.of(info).namespace_label)


def names_workload(info: ValidationInfo) -> bool:
    """Tell whether the pool names its workload, be it well or badly."""
    return any(info.data.get(key, "") is not None for key in ("deployment", "stateful_set", "leader_worker_set"))


class StartingPoint(Section):
    """A preset is a set of defaults for a kind of traffic. Each key that is given goes before the preset's value."""

    preset: PresetName | None = Field(
        default=None,
        description="The preset to start from; the record of each decision names it. Without one, the defaults of this"
        " page hold.",
        examples=["chat"],
    )

    @field_validator("preset", mode="before")
    @classmethod
    def _preset_is_known(cls, value: object) -> object:
        return None if value is None else read_preset(value)


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
