"""AIBrix's own pod autoscaler (APA): the mean of a metric against its target, with a tolerance each way."""

import math
from typing import Final

from scaler.sim.hpa import HpaSpec
from scaler.sim.law import NO_ANSWER, Answer, Seen
from scaler.sim.rivals.windows import Window

# Defaults of the PodAutoscaler; the target is the one of its APA sample.
_KV_USAGE_RATIO: Final = 0.5
_WINDOW_S: Final = 180.0
_TOLERANCE: Final = 0.1
_MAX_UP_RATE: Final = 2.0
_MAX_DOWN_RATE: Final = 2.0
_DOWN_WINDOW_S: Final = 300.0
_TICK_S: Final = 10.0


class AibrixApa:
    """KV-cache usage, a mean over 180 s, against 0.5.

    Source: AIBrix's documentation of metric-based autoscaling and its APA sample. Above 1.1 times the target, or below
    0.9, the count changes in proportion, to twice or to half at most; the greatest recommendation of 300 s holds
    against a scale-down. The proportion is taken of the requested count though only serving pods are measured, so while
    pods start it asks for more at each look, and multiplies. At a full load a cache that is not full hides the queue.
    Without metrics it keeps still.

    Args:
        min_replicas: Fewest replicas.
        max_replicas: Most replicas.
    """

    tick_s: float | None = _TICK_S
    hpa: HpaSpec | None = None

    def __init__(self, *, min_replicas: int, max_replicas: int) -> None:
        self._bounds = (min_replicas, max_replicas)
        self._usage = Window(_WINDOW_S)
        self._recommended = Window(_DOWN_WINDOW_S)

    def answer(self, seen: Seen) -> Answer:
        """Scale the requested count by usage over target."""
        ratios = seen.live.kv_usage_ratios
        if not ratios:
            return NO_ANSWER
        self._usage.add(seen.at, sum(ratios) / len(ratios))
        current = seen.status.spec_replicas
        proportion = self._usage.mean / _KV_USAGE_RATIO
        wanted = current
        if proportion > 1 + _TOLERANCE:
            wanted = min(math.ceil(current * proportion), math.ceil(current * _MAX_UP_RATE))
        elif proportion < 1 - _TOLERANCE:
            wanted = max(math.ceil(current * proportion), math.floor(current / _MAX_DOWN_RATE))
        least, most = self._bounds
        wanted = min(max(wanted, least), most)
        self._recommended.add(seen.at, wanted)
        return (wanted if wanted >= current else min(current, self._recommended.highest),)
