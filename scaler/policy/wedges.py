"""Queues that more replicas do not shorten: what waits at a replica stays there, and at a wedged one for good.

A wedged replica has requests waiting and produces next to nothing. It stays ready, for minutes or until it is
restarted. The record names it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from scaler.model import Absent, Observation, ReplicaLoad

WEDGED_AFTER_S: Final = 60.0
"""A long prefill may keep a replica from producing for a while; a minute is no prefill."""
NORMAL_SHARE: Final = 0.05
"""A replica below this share of its own recent normal produces next to nothing."""
_NORMAL_WEIGHT: Final = 0.1
"""Weight of the newest pace in the recent normal: it follows within some ten ticks."""


@dataclass(frozen=True, slots=True)
class WedgeWatch:
    """What is remembered of one replica: its recent normal, tokens/s, and since when it has produced nearly nothing."""

    name: str
    normal_tokens_per_s: float
    silent_since: float | None = None

    def is_wedged(self, now: float) -> bool:
        """Tell whether it has been silent for long enough."""
        return self.silent_since is not None and now - self.silent_since >= WEDGED_AFTER_S


def watch(watches: Sequence[WedgeWatch], replicas: Sequence[ReplicaLoad], now: float) -> tuple[WedgeWatch, ...]:
    """Return what is remembered after looking at the replicas that serve now; those that are gone are forgotten."""
    known = {entry.name: entry for entry in watches}
    return tuple(
        _looked_at(known.get(replica.name), replica, replica.generation_tokens_per_s, now)
        for replica in replicas
        if not isinstance(replica.generation_tokens_per_s, Absent)
    )


def _looked_at(before: WedgeWatch | None, replica: ReplicaLoad, pace: float, now: float) -> WedgeWatch:
    normal = pace if before is None else before.normal_tokens_per_s
    if replica.waiting > 0 and pace <= NORMAL_SHARE * normal:
        since = before.silent_since if before is not None else None
        # Silence is not taken into the normal: it must not become one.
        return WedgeWatch(replica.name, normal, now if since is None else since)
    return WedgeWatch(replica.name, normal + _NORMAL_WEIGHT * (pace - normal))


def wedged(watches: Sequence[WedgeWatch], now: float) -> frozenset[str]:
    """Return the names of the replicas that are wedged."""
    return frozenset(entry.name for entry in watches if entry.is_wedged(now))


def excess_queue(watches: Sequence[WedgeWatch], replicas: Sequence[ReplicaLoad], slots: int, now: float) -> float:
    """Return how many waiting requests no further replica could serve.

    A wedged replica counts for its slots. Elsewhere what waits stays where the router put it, so that more replicas
    would not get it either: they take what comes while that replica has its hands full. So a queue counts for the slots
    of its replica at most: while it lasts, one further replica does that one's work. What is still to come is counted
    by ``growth``.
    """
    stuck = wedged(watches, now)
    excess = 0.0
    for one in replicas:
        if one.name in stuck:
            excess += min(one.waiting, max(0.0, one.in_flight - slots))
        else:
            excess += max(0.0, one.waiting - slots)
    return excess


def has_room(observation: Observation, slots: int) -> bool:
    """Tell whether a request that comes now finds a free slot somewhere; True where that is unknown."""
    running, waiting, serving = observation.running, observation.waiting, observation.serving
    if observation.replicas:
        is_unknown = not isinstance(serving, Absent) and len(observation.replicas) < serving
        return is_unknown or any(_has_room(one, slots) for one in observation.replicas)
    if isinstance(running, Absent) or isinstance(waiting, Absent) or isinstance(serving, Absent):
        return True
    return running + waiting < slots * serving


def stranded(replicas: Sequence[ReplicaLoad], slots: int) -> float:
    """Return how many requests wait at full replicas while most of the others have room: there they stay.

    So of two pools the one with the longer queue may be the one whose latency asks for less.
    """
    if 2 * sum(_has_room(one, slots) for one in replicas) <= len(replicas):
        return 0.0
    return sum(one.waiting for one in replicas if one.in_flight > slots)


def _has_room(replica: ReplicaLoad, slots: int) -> bool:
    # One whose KV cache is full has slots left, and a queue.
    return replica.waiting == 0 and replica.running < slots
