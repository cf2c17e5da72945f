"""One metric, one target and the HPA as it comes: the laws that take a few lines of YAML.

All of them go through an HPA without a ``behavior``, so with a tolerance of 10 %, a scale-down window of 300 s, and at
most twice the replicas (or four) in one sync. Of several metrics the one that asks for most counts.
"""

from typing import Final

from scaler.sim.hpa import HpaSpec
from scaler.sim.law import NO_ANSWER, Answer, Seen

WAITING_PER_REPLICA: Final = 5.0
"""Threshold of the production stack's KEDA tutorial."""
KV_USAGE_RATIO: Final = 0.8
"""No document fixes one for an HPA; llm-d calls a replica with that much saturated."""
GPU_UTILISATION: Final = 0.8
"""In the middle of what guides propose, 0.7 to 0.9."""


class InFlight:
    """Running and waiting requests against a share of the slots.

    Source: Google's guide on autoscaling LLM inference on GKE, which scales on the batch size, and llm-d's KEDA path,
    which adds the queue. At a full load the queue counts in full, so it asks for all that waits at once, and replicas
    that are starting are not counted twice, since the sum does not depend on them. Without metrics it keeps still.

    Args:
        slots: Slots of one replica.
        share: Requests in flight for each replica, as a share of its slots.
        min_replicas: Fewest replicas.
        max_replicas: Most replicas.
    """

    tick_s: float | None = None

    def __init__(self, slots: int, share: float, *, min_replicas: int, max_replicas: int) -> None:
        self.hpa: HpaSpec | None = HpaSpec(min_replicas, max_replicas, behavior=None)
        self._target = share * slots

    def answer(self, seen: Seen) -> Answer:
        """Divide the requests in flight by the target."""
        return NO_ANSWER if seen.newest is None else (seen.newest.in_flight / self._target,)


class KedaWaiting:
    """KEDA's Prometheus trigger on waiting requests, if wanted with a second one on the KV cache.

    Source: the production stack's tutorial on KEDA (``vllm:num_requests_waiting``, threshold 5), and the page of KEDA's
    Prometheus scaler: ``ignoreNullValues`` is true by default, so a query without a result counts as 0. At a full load
    without a queue it asks for the minimum, since nobody waits: running requests are not seen. When Prometheus loses
    the series, 0 scales the fleet down to its minimum, as fast as the HPA's window allows.

    Args:
        with_kv_cache: Whether there is a second trigger, on the usage of the KV cache.
        min_replicas: Fewest replicas.
        max_replicas: Most replicas.
    """

    tick_s: float | None = None

    def __init__(self, *, with_kv_cache: bool, min_replicas: int, max_replicas: int) -> None:
        self.hpa: HpaSpec | None = HpaSpec(min_replicas, max_replicas, behavior=None)
        self._with_kv_cache = with_kv_cache

    def answer(self, seen: Seen) -> Answer:
        """Divide the sums by the thresholds; what is not there is 0."""
        newest = seen.newest
        waiting = 0.0 if newest is None else newest.waiting / WAITING_PER_REPLICA
        if not self._with_kv_cache:
            return (waiting,)
        return waiting, 0.0 if newest is None else sum(newest.kv_usage_ratios) / KV_USAGE_RATIO


class GpuUtilisation:
    """GPU utilisation as DCGM reports it, against 0.8.

    Source: Google's guide on autoscaling LLM inference on GKE, which names ``DCGM_FI_DEV_GPU_UTIL`` and its limit: it
    is the share of time in which the GPU did anything. An engine with one request decodes without a pause, so a replica
    reads 1 from the first request on, and the law adds replicas as long as each of them has one. It cannot tell a full
    replica from a nearly empty one. Without metrics it keeps still.

    Args:
        min_replicas: Fewest replicas.
        max_replicas: Most replicas.
    """

    tick_s: float | None = None

    def __init__(self, *, min_replicas: int, max_replicas: int) -> None:
        self.hpa: HpaSpec | None = HpaSpec(min_replicas, max_replicas, behavior=None)

    def answer(self, seen: Seen) -> Answer:
        """Divide the busy GPUs by the target."""
        if seen.newest is None:
            return NO_ANSWER
        return (sum(replica.running > 0 for replica in seen.newest.replicas.values()) / GPU_UTILISATION,)
