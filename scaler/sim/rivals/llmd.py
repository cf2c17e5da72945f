"""llm-d's workload variant autoscaler: its saturation analyzer, one replica at a time."""

from typing import Final, NamedTuple

from scaler.sim.hpa import Behavior, HpaSpec, PolicyKind, ScalingPolicy, ScalingRules
from scaler.sim.law import NO_ANSWER, Answer, Seen

# Defaults of its ConfigMap, of its reconcile interval, and of the HPA that its chart makes.
_KV_SATURATED_RATIO: Final = 0.8
_QUEUE_SATURATED: Final = 5.0
_KV_SPARE: Final = 0.1
_QUEUE_SPARE: Final = 3.0
_PEAK_WINDOW_S: Final = 60.0
_TICK_S: Final = 60.0
_STABILISATION_S: Final = 240.0
_STEP: Final = ScalingPolicy(PolicyKind.PODS, 10, 150.0)
# A second replica must be there to take over.
_FEWEST_TO_SHRINK: Final = 2


class _Load(NamedTuple):
    kv_usage_ratio: float
    waiting: float


class LlmdSaturation:
    """Spare KV cache and spare queue of the replicas that are not saturated.

    Source: the saturation analyzer's page in the documentation of llm-d's workload variant autoscaler, and its page on
    the HPA. Every 60 s it takes each replica's peaks of the last minute, and of the replicas below 0.8 of the cache and
    5 waiting the mean of what is spare up to there: one replica more when that is less than 0.1 or 3; one fewer when
    the others could take over and still have that much; else the replicas that report. The HPA holds both back for
    240 s. A full batch without a queue is not saturated unless the cache is. While replicas start it adds none. Without
    metrics it keeps still. Its newer analyzer, which counts tokens, is not modelled.

    Args:
        min_replicas: Fewest replicas.
        max_replicas: Most replicas.
    """

    tick_s: float | None = _TICK_S

    def __init__(self, *, min_replicas: int, max_replicas: int) -> None:
        rules = ScalingRules((_STEP,), window_s=_STABILISATION_S)
        self.hpa: HpaSpec | None = HpaSpec(min_replicas, max_replicas, behavior=Behavior(rules, rules))

    def answer(self, seen: Seen) -> Answer:
        """Compare what is spare now, and what would be with one replica fewer."""
        loads = _peaks(seen)
        if not loads:
            return NO_ANSWER
        if seen.status.ready < seen.status.spec_replicas:
            return (float(seen.status.spec_replicas),)
        fit = [load for load in loads if load.kv_usage_ratio < _KV_SATURATED_RATIO and load.waiting < _QUEUE_SATURATED]
        if not fit or not _is_spare(fit, len(fit)):
            return (float(len(loads) + 1),)
        if len(fit) >= _FEWEST_TO_SHRINK and _is_spare(fit, len(fit) - 1):
            return (float(len(loads) - 1),)
        return (float(len(loads)),)


def _peaks(seen: Seen) -> list[_Load]:
    """Return the highest usage and the longest queue of the last minute of each replica that still reports."""
    if seen.newest is None:
        return []
    past = seen.since(seen.at - _PEAK_WINDOW_S)
    found = []
    for name in seen.newest.replicas:
        scrapes = [each.replicas[name] for each in past if name in each.replicas]
        if scrapes:
            found.append(_Load(max(one.kv_usage_ratio for one in scrapes), max(one.waiting for one in scrapes)))
    return found


def _is_spare(loads: list[_Load], replicas: int) -> bool:
    """Tell whether the loads, spread over so many replicas, leave what has to be spare."""
    spare_kv = _KV_SATURATED_RATIO - sum(load.kv_usage_ratio for load in loads) / replicas
    spare_queue = _QUEUE_SATURATED - sum(load.waiting for load in loads) / replicas
    return spare_kv >= _KV_SPARE and spare_queue >= _QUEUE_SPARE
