"""Knative's pod autoscaler (KPA): concurrency over a long window, and over a short one in a panic."""

import math
from typing import Final

from scaler.sim.hpa import HpaSpec
from scaler.sim.law import Answer, Seen
from scaler.sim.rivals.windows import Window

# Defaults of config-autoscaler.
_TARGET_SHARE: Final = 0.7
_STABLE_WINDOW_S: Final = 60.0
_PANIC_SHARE: Final = 0.1
_PANIC_THRESHOLD: Final = 2.0
_MAX_UP_RATE: Final = 1000.0
_MAX_DOWN_RATE: Final = 2.0
_TICK_S: Final = 2.0


class KnativeKpa:
    """Concurrency for each pod.

    Source: Knative's documentation of the KPA and of its concurrency targets, and its autoscaler's algorithm. The
    target is 70 % of ``containerConcurrency``, which is the slots here. The mean of 60 s decides; once the mean of 6 s
    needs twice the ready pods, it panics: then the greater of both counts, and nothing scales down until 60 s have
    passed without it. A step goes to 1000 times the ready pods at most, or down to half. The activator's and the
    queue-proxies' requests count, so a full load is seen as it is. While pods start, the ready ones stay few, which
    keeps it in its panic. It does not wait before it scales down (``scale-down-delay`` is 0). Without metrics it keeps
    still.

    Args:
        slots: Slots of one replica.
        min_replicas: Fewest replicas.
        max_replicas: Most replicas.
    """

    tick_s: float | None = _TICK_S
    hpa: HpaSpec | None = None

    def __init__(self, slots: int, *, min_replicas: int, max_replicas: int) -> None:
        self._target = _TARGET_SHARE * slots
        self._bounds = (min_replicas, max_replicas)
        self._concurrency = Window(_STABLE_WINDOW_S)
        self._panic_since: float | None = None
        self._most_in_panic = 0
        self._has_started = False

    def answer(self, seen: Seen) -> Answer:
        """Average, panic or calm down, and keep within what one step may do."""
        self._concurrency.add(seen.at, seen.live.in_flight + seen.live.unrouted)
        ready = max(1, seen.status.ready)
        if not self._has_started:
            # What it knew is gone when it starts, so it keeps what there is for a while.
            self._has_started = True
            if seen.status.ready > 1:
                self._panic_since, self._most_in_panic = seen.at, seen.status.ready
        stable = math.ceil(self._concurrency.mean / self._target)
        panic = math.ceil(self._concurrency.mean_of_last(_STABLE_WINDOW_S * _PANIC_SHARE) / self._target)
        if panic / ready >= _PANIC_THRESHOLD:
            self._panic_since = seen.at
        elif self._panic_since is not None and seen.at - self._panic_since > _STABLE_WINDOW_S:
            self._panic_since, self._most_in_panic = None, 0
        lowest, highest = math.floor(ready / _MAX_DOWN_RATE), math.ceil(ready * _MAX_UP_RATE)
        wanted = min(max(stable, lowest), highest)
        if self._panic_since is not None:
            wanted = self._most_in_panic = max(wanted, min(max(panic, lowest), highest), self._most_in_panic)
        least, most = self._bounds
        return (min(max(wanted, least), most),)
