"""Replicas that have requests waiting and produce next to nothing: more replicas do not cure them.

Such a replica stays ready and keeps its queue, for minutes or for good. Its queue is not demand that others could
serve, so it counts for at most its slots, and the record names it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from scaler.model import Absent, ReplicaLoad

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


def excess_queue(watches: Sequence[WedgeWatch], replicas: Sequence[ReplicaLoad], slots: int, now: float) -> float:
    """Return how many waiting requests no further replica could serve.

    A wedged replica counts for its slots. And while any replica has room, what waits at another is where the router put
    it: more replicas would not get it either, so a queue counts for the slots of its replica at most.
    """
    wedged = {entry.name for entry in watches if entry.is_wedged(now)}
    has_room = any(one.in_flight < slots and one.name not in wedged for one in replicas)
    excess = 0.0
    for one in replicas:
        if one.name in wedged:
            excess += min(one.waiting, max(0.0, one.in_flight - slots))
        elif has_room:
            excess += max(0.0, one.waiting - slots)
    return excess
