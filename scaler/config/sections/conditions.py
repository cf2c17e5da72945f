"""What the pool is not to be blamed for: replicas that start, rollouts, overload that cannot be helped, and the HPA."""

from pydantic import Field

from scaler.config.kinds import Duration, Ratio
from scaler.config.sections.base import Section


class Starting(Section):
    """How replicas come up, and what is said when they cannot keep up.

    A pool is in protection when it needs more replicas than its limits allow, or when replicas do not start. Gateways
    can read that from the scaler's metrics, and shed or slow down work of low priority.
    """

    cold_start_timeout_seconds: Duration = Field(
        default=600.0,
        ge=30,
        le=86_400,
        description="Replicas that have been starting for longer are stuck: no more are asked for, and they no longer"
        " keep the pool from scaling down. Make it clearly longer than pulling the image and loading the model take.",
        examples=["20m"],
    )
    rollout_hold_seconds: Duration = Field(
        default=300.0,
        ge=0,
        le=86_400,
        description="Time after a rollout in which the pool does not scale down: caches of new replicas are empty, and"
        " what the old ones showed says nothing of them.",
        examples=["10m"],
    )
    restart_hold_seconds: Duration = Field(
        default=0.0,
        ge=0,
        le=86_400,
        description="Time after a restart of one of the pool's engines, out of memory or otherwise, in which the pool"
        " does not scale down: what is left would get its load too. 0 is off. Restarts are counted as resets of vLLM's"
        " counters, so this needs no further exporter; while they cannot be read, nothing scales down.",
        examples=["10m"],
    )
    protect_queue_wait_seconds: Duration = Field(
        default=30.0,
        ge=0,
        le=3600,
        description="A pool in protection goes from grade 1 to grade 2 when a request that comes now would wait longer"
        " than this. Set it to what your clients put up with.",
        examples=["10s"],
    )


class Hpa(Section):
    """The HPA that KEDA makes: it ignores small changes, so the value that it gets is chosen to be followed."""

    hpa_tolerance: Ratio = Field(
        default=0.1,
        ge=0,
        le=0.5,
        description="The relative change of the replica count that the HPA ignores; the default is Kubernetes' own."
        " From 10 replicas on it makes some counts unreachable. Set it to 0 when the ScaledObject has"
        ' `scaleUp.tolerance: "0"` and `scaleDown.tolerance: "0"` under'
        " `advanced.horizontalPodAutoscalerConfig.behavior`, which takes Kubernetes 1.35 and KEDA 2.18 or newer, and to"
        " the larger of the two if they differ. 0 without that leaves such counts unreached.",
        examples=["0"],
    )
