"""The arena: every law on the same requests, fleet and cold start, each carried out as it is in reality.

A workload says what comes, to which fleet, and what a request has to meet. A contestant is a name and how its law is
made: laws remember, so each run has a new one. What a law is told is what a person knows beforehand: the slots, the
bounds, the objective, and the requests per second that a load test of one replica shows.
"""

import itertools
import math
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from scaler.model import PoolPolicy
from scaler.sim.closed_loop import Grid, Run, Timing, play
from scaler.sim.fleet import FleetSpec
from scaler.sim.hpa import EXACT, HpaSpec
from scaler.sim.law import Law
from scaler.sim.live import LiveLaw
from scaler.sim.request import Slo
from scaler.sim.rivals.aibrix import AibrixApa
from scaler.sim.rivals.bounds import Demand, Fixed, Oracle, capacity_per_s, demand
from scaler.sim.rivals.hpa_metrics import GpuUtilisation, InFlight, KedaWaiting
from scaler.sim.rivals.kaito import Kaito
from scaler.sim.rivals.knative import KnativeKpa
from scaler.sim.rivals.llmd import LlmdSaturation
from scaler.sim.rivals.ray_serve import RayServe
from scaler.sim.rivals.request_rate import RequestRate, with_dead_band
from scaler.sim.workload import Load

OURS: Final = "vllm-scaler"
ORACLE: Final = "oracle"
FIXED: Final = "fixed"
BOUNDS: Final = frozenset({ORACLE, FIXED})
"""Not rivals: one knows the future, the other its peak."""
MIN_REPLICAS: Final = 1
_START_SHARE: Final = 0.8
_START_S: Final = 300.0
_LOAD_TEST: Final = 500
"""Requests of a load test."""


@dataclass(frozen=True)
class Workload:
    """What comes, to which fleet, and what a request has to meet."""

    name: str
    load: Load
    fleet: FleetSpec
    slo: Slo
    step_at_s: float | None = None
    """When the load jumps up, if it does."""
    is_constant: bool = False

    @property
    def slots(self) -> int:
        """What a person tells the laws of a replica: the requests that it carries at once."""
        return self.fleet.engine.slots

    @cached_property
    def capacity_per_s(self) -> float:
        """Requests per second of one replica in a load test with the first requests of the workload."""
        return capacity_per_s(itertools.islice(self.load.open(seed=0).arrivals, _LOAD_TEST), self.fleet.engine)

    def needs(self, seed: int) -> Demand:
        """Return what the traffic of a seed will need."""
        return demand(self.load.open(seed).arrivals, self.fleet.engine, self.load.duration_s)

    @cached_property
    def start_replicas(self) -> int:
        """Replicas at the start, for all laws: what the first minutes need, with a fifth to spare."""
        early = self.needs(seed=0).replicas[: math.ceil(_START_S)]
        return max(MIN_REPLICAS, math.ceil(sum(early) / len(early) / _START_SHARE))

    @cached_property
    def max_replicas(self) -> int:
        """Twice what the peak needs, and ten at least: room for mistakes, as a quota would leave."""
        return max(10, 2 * math.ceil(self.needs(seed=0).peak))


@dataclass(frozen=True, slots=True)
class Contestant:
    """A law by name, and how it is made for a workload and a seed."""

    name: str
    make: Callable[[Workload, int], Law]


PolicyOf = Callable[[Workload], PoolPolicy]
"""From a workload to what a trigger's metadata for it says."""


def contestants(policy_of: PolicyOf) -> Mapping[str, Contestant]:
    """Return all laws by name, ours first.

    Args:
        policy_of: What a user of ours would write for a workload.
    """
    made: dict[str, Callable[[Workload, int], Law]] = {
        OURS: lambda at, _: LiveLaw(policy_of(at), our_hpa(at.max_replicas)),
        "request-rate": lambda at, _: RequestRate(at.capacity_per_s, **_bounds(at)),
        "request-rate-band": lambda at, _: with_dead_band(at.capacity_per_s, **_bounds(at)),
        "hpa-in-flight-0.7": lambda at, _: InFlight(at.slots, 0.7, **_bounds(at)),
        "hpa-in-flight-0.9": lambda at, _: InFlight(at.slots, 0.9, **_bounds(at)),
        "keda-waiting": lambda at, _: KedaWaiting(with_kv_cache=False, **_bounds(at)),
        "keda-waiting-kv": lambda at, _: KedaWaiting(with_kv_cache=True, **_bounds(at)),
        "knative-kpa": lambda at, _: KnativeKpa(at.slots, **_bounds(at)),
        "aibrix-apa": lambda at, _: AibrixApa(**_bounds(at)),
        "ray-serve": lambda at, _: RayServe(at.slots, **_bounds(at)),
        "kaito": lambda at, _: Kaito(**_bounds(at)),
        "llm-d": lambda at, _: LlmdSaturation(**_bounds(at)),
        "gpu-utilisation": lambda at, _: GpuUtilisation(**_bounds(at)),
        FIXED: lambda at, seed: Fixed(max(MIN_REPLICAS, math.ceil(at.needs(seed).peak))),
        ORACLE: lambda at, seed: Oracle(
            at.needs(seed), at.fleet.cold_start_s * (1 + at.fleet.cold_start_spread), **_bounds(at)
        ),
    }
    return {name: Contestant(name, make) for name, make in made.items()}


def our_hpa(max_replicas: int) -> HpaSpec:
    """Return the HPA of our manifests."""
    return HpaSpec(MIN_REPLICAS, max_replicas, behavior=EXACT)


def compete(workload: Workload, contestant: Contestant, seed: int) -> Run:
    """Run one law on one workload.

    The seed chooses the requests, the cold starts, and when scrapes and syncs fall; all laws have the same of each.
    """
    chosen = random.Random(f"timing {seed}")
    timing = Timing(
        scrape=Grid(15.0, chosen.uniform(0, 15)),
        workload_scrape=Grid(30.0, chosen.uniform(0, 30)),
        sync=Grid(15.0, chosen.uniform(0, 15)),
    )
    return play(
        contestant.make(workload, seed),
        workload.fleet,
        workload.load,
        timing=timing,
        replicas=workload.start_replicas,
        seed=seed,
    )


def _bounds(workload: Workload) -> dict[str, int]:
    return {"min_replicas": MIN_REPLICAS, "max_replicas": workload.max_replicas}
