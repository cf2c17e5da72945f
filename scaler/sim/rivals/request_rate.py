"""Requests per second against what one replica is measured to carry.

Source: the page of KEDA's Prometheus scaler, whose example is ``sum(rate(http_requests_total[2m]))`` against a
threshold, and SkyServe's ``target_qps_per_replica``. No document says which share of the measured rate to aim at; 0.8
is the usual rule of thumb. The requests are those that come to the router, which is the best case for this law: the
engines count a request when it has ended, so a pool that is full shows its capacity and never more.
"""

from typing import Final

from scaler.sim.hpa import EXACT, HpaSpec
from scaler.sim.law import NO_ANSWER, Answer, Seen
from scaler.sim.prometheus import increase

_WINDOW_S: Final = 120.0
_AIM: Final = 0.8
_RELEASE: Final = 0.6


class RequestRate:
    """Requests per second, one threshold for both directions and no window: what is asked for is done.

    Args:
        capacity_per_s: Requests per second that one replica carries, measured once.
        min_replicas: Fewest replicas.
        max_replicas: Most replicas.
        release: Share of the capacity below which it scales down; without a dead band the one above which it scales up.
    """

    tick_s: float | None = None

    def __init__(
        self, capacity_per_s: float, *, min_replicas: int, max_replicas: int, release: float | None = None
    ) -> None:
        self.hpa: HpaSpec | None = HpaSpec(min_replicas, max_replicas, behavior=EXACT)
        self._capacity_per_s = capacity_per_s
        self._release = _AIM if release is None else release

    def answer(self, seen: Seen) -> Answer:
        """Divide the rate by what one replica is to carry; in between the two thresholds, keep what there is."""
        samples = [(each.at, float(each.arrived)) for each in seen.scraped]
        risen = increase(samples, since=seen.at - _WINDOW_S, until=seen.at)
        if risen is None:
            return NO_ANSWER
        full = risen / _WINDOW_S / self._capacity_per_s
        return (max(full / _AIM, min(full / self._release, float(seen.status.spec_replicas))),)


def with_dead_band(capacity_per_s: float, *, min_replicas: int, max_replicas: int) -> RequestRate:
    """Return the law that scales up above 0.8 of the capacity and down below 0.6, and else keeps still."""
    return RequestRate(capacity_per_s, min_replicas=min_replicas, max_replicas=max_replicas, release=_RELEASE)
