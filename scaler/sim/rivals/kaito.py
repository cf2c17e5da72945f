"""KAITO's KEDA scaler: one replica more or fewer, and only when all metrics agree."""

from typing import Final

from scaler.sim.hpa import Behavior, HpaSpec, PolicyKind, ScalingPolicy, ScalingRules
from scaler.sim.law import MEMORY_S, NO_ANSWER, Answer, Seen

# Thresholds of its example with two metrics, and its defaults.
_WAITING_UP: Final = 10.0
_WAITING_DOWN: Final = 1.0
_QUEUE_TIME_UP_S: Final = 30.0
_QUEUE_TIME_DOWN_S: Final = 1.0
_EVALUATION_WINDOW_S: Final = 60.0
_COOLDOWN_S: Final = 300.0
_GROW: Final = 2.0
_SHRINK: Final = 0.5


class Kaito:
    """Waiting requests for each replica, and the mean queue time of the last 300 s; both have to agree.

    Source: the README of keda-kaito-scaler. All ready, more than 10 waiting for each replica, and a queue time above
    30 s: the HPA is asked for twice the replicas, of which its behavior allows one in 300 s, after 60 s. Fewer than 1
    waiting and a queue time below 1 s: half, of which it allows one in 300 s. Else it keeps still. At a full load
    without a queue, and until the queue is long *and* old, it therefore scales down or waits; while a replica starts it
    does not add another. Without metrics it keeps still.

    Args:
        min_replicas: Fewest replicas.
        max_replicas: Most replicas.
    """

    tick_s: float | None = None

    def __init__(self, *, min_replicas: int, max_replicas: int) -> None:
        step = (ScalingPolicy(PolicyKind.PODS, 1, _COOLDOWN_S),)
        self.hpa: HpaSpec | None = HpaSpec(
            min_replicas,
            max_replicas,
            behavior=Behavior(
                ScalingRules(step, window_s=_EVALUATION_WINDOW_S), ScalingRules(step, window_s=_COOLDOWN_S)
            ),
        )

    def answer(self, seen: Seen) -> Answer:
        """Ask for double, half or what there is."""
        replicas, status = seen.live.replicas, seen.status
        if not replicas:
            return NO_ANSWER
        waiting = seen.live.waiting / len(replicas)
        queue_time_s = _mean_queue_time_s(seen)
        if status.ready == status.replicas and waiting > _WAITING_UP and queue_time_s > _QUEUE_TIME_UP_S:
            return (_GROW * status.ready,)
        if waiting < _WAITING_DOWN and queue_time_s < _QUEUE_TIME_DOWN_S:
            return (_SHRINK * status.ready,)
        return (float(status.replicas),)


def _mean_queue_time_s(seen: Seen) -> float:
    """Return the mean over the last 300 s, of the replicas that are there; 0 when nothing ended."""
    past = seen.since(seen.at - MEMORY_S)
    first = {name: replica for scrape in reversed(past) for name, replica in scrape.replicas.items()}
    waited_s, ended = 0.0, 0
    for name, replica in seen.live.replicas.items():
        before = first.get(name)
        waited_s += replica.queue_time_s - (before.queue_time_s if before else 0.0)
        ended += replica.ended - (before.ended if before else 0)
    return waited_s / ended if ended else 0.0
