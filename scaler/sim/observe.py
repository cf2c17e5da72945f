"""From a simulated fleet to an observation, as the service reads it through Prometheus.

A scrape is what Prometheus stores of one moment; an observation is made of the scrapes that lie within the rate window.
So gauges are as old as the last scrape, a rate covers its window whoever has gone meanwhile, and what no replica shows
(requests that wait at the router, pods that still load their model) is not seen.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from scaler.model import Absent, Extra, Observation, PoolLocator, Reading, ReplicaLoad, SignalName
from scaler.policy.buckets import LATENCY_BOUNDS_S, TTFT_BOUNDS_S
from scaler.sim.fleet import DeploymentStatus, Fleet
from scaler.sim.prometheus import histogram_quantile, increase
from scaler.sim.replica import Phase

_P95: Final = 0.95
# First tokens are always read.
_FURTHER_BOUNDS_S: Final[Mapping[str, tuple[float, ...]]] = {
    name: bounds for name, bounds in LATENCY_BOUNDS_S.items() if name is not SignalName.TTFT_P95
}
SIMULATED_EXTRAS: Final = frozenset({SignalName.PROMPT_TOKENS, *_FURTHER_BOUNDS_S})
"""Readings that only some pools ask for, and that a simulated fleet has."""


@dataclass(frozen=True, slots=True)
class ReplicaScrape:
    """What one replica's /metrics page shows: gauges, and counters since its start."""

    running: int
    waiting: int
    kv_usage_ratio: float
    ttft_buckets: tuple[int, ...]
    """First tokens at or below each bound of ``TTFT_BOUNDS_S``, and all of them."""
    further_buckets: Mapping[str, tuple[int, ...]] = field(default_factory=dict, kw_only=True)
    """The same of the latencies that only some pools ask for, by signal."""
    prompt_tokens: int = field(default=0, kw_only=True)
    generation_tokens: int
    preemptions: int
    queue_time_s: float = 0.0
    """Seconds that requests which have ended had waited for a place in the batch, added up."""
    ended: int = 0
    """Requests that have ended."""

    @property
    def in_flight(self) -> int:
        """Requests in the batch and in the queue."""
        return self.running + self.waiting


@dataclass(frozen=True, slots=True)
class FleetScrape:
    """The replicas that answered at one time, by name, and what the router in front of them counts."""

    at: float
    replicas: Mapping[str, ReplicaScrape]
    arrived: int = 0
    """Requests that have come to the router since its start."""
    unrouted: int = 0
    """Requests that the router keeps since no replica serves."""

    @property
    def waiting(self) -> int:
        """Requests in the queues of all replicas."""
        return sum(replica.waiting for replica in self.replicas.values())

    @property
    def in_flight(self) -> int:
        """Requests in all replicas."""
        return sum(replica.in_flight for replica in self.replicas.values())

    @property
    def kv_usage_ratios(self) -> tuple[float, ...]:
        """KV-cache usage of each replica."""
        return tuple(replica.kv_usage_ratio for replica in self.replicas.values())


@dataclass(frozen=True, slots=True)
class WorkloadScrape:
    """What kube-state-metrics showed of the Deployment at one time."""

    at: float
    status: DeploymentStatus


_Series: TypeAlias = list[tuple[float, ReplicaScrape]]
"""One replica's scrapes in the rate window, the oldest first."""


def scrape(fleet: Fleet) -> FleetScrape:
    """Scrape the router and every replica now; one that drains still answers, one that starts does not."""
    found = {}
    for replica in fleet.replicas:
        if replica.phase(fleet.now) is not Phase.STARTING:
            engine = replica.engine
            found[replica.name] = ReplicaScrape(
                running=engine.running,
                waiting=engine.waiting,
                kv_usage_ratio=engine.kv_usage_ratio,
                ttft_buckets=engine.stats.time_to_first_token.cumulative(),
                further_buckets={
                    SignalName.ITL_P95: engine.stats.inter_token_latency.cumulative(),
                    SignalName.QUEUE_TIME_P95: engine.stats.queue_time.cumulative(),
                    SignalName.E2E_P95: engine.stats.e2e_latency.cumulative(),
                },
                prompt_tokens=engine.stats.prompt_tokens,
                generation_tokens=engine.stats.generation_tokens,
                preemptions=engine.stats.preemptions,
                queue_time_s=engine.stats.queue_time.total,
                ended=engine.stats.queue_time.count,
            )
    in_engines = sum(replica.engine.waiting for replica in fleet.replicas)
    return FleetScrape(fleet.now, found, arrived=fleet.arrived, unrouted=fleet.waiting - in_engines)


def observe(
    locator: PoolLocator, scrapes: Iterable[FleetScrape], workload: WorkloadScrape | None, at: float
) -> Observation:
    """Make the observation of one tick.

    Args:
        locator: The pool, for its rate window and the age at which a sample no longer counts.
        scrapes: The scrapes so far, the oldest first; those before the rate window may be left out.
        workload: The newest scrape of kube-state-metrics, or None before the first.
        at: The tick, not before any of the scrapes.
    """
    known = list(scrapes)
    window = _Window(_by_replica(known, since=at - locator.rate_window_s), at, locator.rate_window_s)
    fresh = bool(known) and at - known[-1].at <= locator.stale_after_s
    present = known[-1].replicas if fresh else {}
    status = workload.status if workload is not None and at - workload.at <= locator.stale_after_s else None
    tokens = window.increases(lambda replica: replica.generation_tokens)
    ttft = window.p95(TTFT_BOUNDS_S, lambda replica: replica.ttft_buckets)
    return Observation(
        at=at,
        running=_total(replica.running for replica in present.values()),
        waiting=_total(replica.waiting for replica in present.values()),
        kv_usage_ratios=tuple(sorted(replica.kv_usage_ratio for replica in present.values())) or Absent.MISSING,
        ttft_p95_s=ttft.value,
        ttft_samples=ttft.support,
        generation_tokens_per_s=_total(risen / locator.rate_window_s for risen in tokens.values()),
        preemptions=_total(window.increases(lambda replica: replica.preemptions).values()),
        serving=float(len(present)),
        requested=Absent.MISSING if status is None else float(status.spec_replicas),
        ready=Absent.MISSING if status is None else float(status.ready),
        # The Deployment's template never changes here.
        outdated=Absent.MISSING if status is None else 0.0,
        newest_sample_age_s=at - known[-1].at if present else Absent.MISSING,
        replicas=tuple(
            ReplicaLoad(
                name,
                running=float(replica.running),
                waiting=float(replica.waiting),
                generation_tokens_per_s=tokens[name] / locator.rate_window_s if name in tokens else Absent.MISSING,
            )
            for name, replica in sorted(present.items())
        ),
        extras={name: window.reading(name) for name in locator.extras},
    )


@dataclass(frozen=True, slots=True)
class _Window:
    """The rate window (until - length_s, until]."""

    series: Mapping[str, _Series]
    until: float
    length_s: float

    def increases(self, counter: Callable[[ReplicaScrape], float]) -> dict[str, float]:
        """Return by how much a counter rose, for each replica with two scrapes in the window."""
        since = self.until - self.length_s
        found = {}
        for name, scrapes in self.series.items():
            samples = [(at, counter(replica)) for at, replica in scrapes]
            risen = increase(samples, since=since, until=self.until)
            if risen is not None:
                found[name] = risen
        return found

    def p95(self, bounds: Sequence[float], buckets_of: Callable[[ReplicaScrape], tuple[int, ...]]) -> Extra:
        """Return the P95 of a histogram, and how many values are behind it."""

        def bucket(index: int) -> Callable[[ReplicaScrape], float]:
            return lambda replica: buckets_of(replica)[index]

        counts = [sum(self.increases(bucket(index)).values()) for index in range(len(bounds) + 1)]
        p95_s = histogram_quantile(_P95, bounds, counts)
        if all(len(scrapes) == 1 for scrapes in self.series.values()):
            return Extra(Absent.MISSING)
        return Extra(Absent.NO_TRAFFIC if math.isnan(p95_s) else p95_s, counts[-1])

    def reading(self, name: str) -> Extra:
        """Return a reading that only some pools ask for; missing when it is not simulated."""
        if name == SignalName.PROMPT_TOKENS:
            risen = self.increases(lambda replica: replica.prompt_tokens).values()
            return Extra(_total(each / self.length_s for each in risen))
        if name not in _FURTHER_BOUNDS_S:
            return Extra(Absent.MISSING)
        return self.p95(_FURTHER_BOUNDS_S[name], lambda replica: replica.further_buckets[name])


def _by_replica(scrapes: Sequence[FleetScrape], *, since: float) -> dict[str, _Series]:
    found: dict[str, _Series] = {}
    for each in scrapes:
        if each.at > since:
            for name, replica in each.replicas.items():
                found.setdefault(name, []).append((each.at, replica))
    return found


def _total(values: Iterable[float]) -> Reading:
    """Add up; of nothing there is no sum."""
    found = list(values)
    return float(sum(found)) if found else Absent.MISSING
