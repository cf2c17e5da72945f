"""The whole loop in virtual time: traffic, fleet, Prometheus, the law, KEDA and the HPA, and back to the fleet.

Everything that happens has a grid of its own, as in a cluster: scrapes, ticks, KEDA's polls and the HPA's syncs fall at
different moments, so what each of them knows is some seconds old. The law is the very one that the service runs.
"""

import enum
import math
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final

from scaler.model import Decision, PoolPolicy
from scaler.policy.decide import advance
from scaler.policy.history import History
from scaler.sim.fleet import Fleet, FleetSpec
from scaler.sim.hpa import HpaController, HpaSpec, answered_value
from scaler.sim.observe import FleetScrape, WorkloadScrape, observe, scrape
from scaler.sim.request import Outcome, Slo
from scaler.sim.workload import Load

# After its end the traffic's last requests are let run out, for at most so long.
_RUN_OUT_S: Final = 7200.0
_HOUR_S: Final = 3600.0


@dataclass(frozen=True, slots=True)
class Grid:
    """The moments ``offset_s``, ``offset_s + interval_s`` and so on, in seconds."""

    interval_s: float
    offset_s: float = 0.0

    def __post_init__(self) -> None:
        if self.interval_s <= 0 or self.offset_s < 0:
            raise ValueError(f"an interval is above zero and an offset is zero or more: {self}")

    def until(self, end: float) -> Iterator[float]:
        """Yield the moments before ``end``."""
        for index in range(math.ceil((end - self.offset_s) / self.interval_s)):
            yield self.offset_s + index * self.interval_s


@dataclass(frozen=True, slots=True)
class Timing:
    """When each part of the loop looks. Ticks fall on multiples of the policy's own interval."""

    scrape: Grid = Grid(15.0, 4.0)
    """Prometheus scrapes the replicas."""
    workload_scrape: Grid = Grid(30.0, 11.0)
    """Prometheus scrapes kube-state-metrics, which charts do less often."""
    poll: Grid | None = None
    """KEDA polls, and the HPA gets what it saw last (useCachedMetrics); None: each sync asks the service."""
    sync: Grid = Grid(15.0, 8.0)
    """The HPA's syncs."""


@dataclass(frozen=True, slots=True)
class Setup:
    """A pool and everything that scales it."""

    policy: PoolPolicy
    fleet: FleetSpec
    hpa: HpaSpec
    timing: Timing = Timing()


@dataclass(frozen=True, slots=True)
class Moment:
    """One tick: the truth about the fleet, and what was decided of what could be seen."""

    at: float
    rate: float
    """Requests that arrived since the tick before, per second."""
    running: int
    waiting: int
    """Requests in queues, the router's included."""
    requested: int
    serving: int
    """Ready replicas; those that drain are not among them."""
    decision: Decision


@dataclass(frozen=True, slots=True)
class Change:
    """A change of spec.replicas."""

    at: float
    before: int
    after: int

    @property
    def is_up(self) -> bool:
        """Whether it was an increase."""
        return self.after > self.before


@dataclass(frozen=True, slots=True)
class Run:
    """What came of it."""

    moments: tuple[Moment, ...]
    changes: tuple[Change, ...]
    outcomes: tuple[Outcome, ...]
    """Every request that ended, those included that ended after the traffic did."""
    unserved: int
    """Requests that had not ended long after the traffic did."""
    replica_hours: float
    """Of all pods until the traffic's end, starting and draining ones included."""

    @property
    def replicas(self) -> int:
        """spec.replicas at the end."""
        return self.changes[-1].after if self.changes else self.moments[-1].requested

    def changes_from(self, at: float) -> tuple[Change, ...]:
        """Return the changes at or after a moment."""
        return tuple(change for change in self.changes if change.at >= at)

    def attainment(self, ttft_objective_s: float) -> float:
        """Return the share of all requests that had their first token within the objective; 1 when there were none."""
        return self._share(
            sum(outcome.ttft_s is not None and outcome.ttft_s <= ttft_objective_s for outcome in self.outcomes)
        )

    def joint_attainment(self, slo: Slo) -> float:
        """Return the share of all requests that were served within every objective; 1 when there were none."""
        return self._share(sum(outcome.meets(slo) for outcome in self.outcomes))

    def _share(self, met: int) -> float:
        everybody = len(self.outcomes) + self.unserved
        return met / everybody if everybody else 1.0


def reversals(changes: tuple[Change, ...]) -> int:
    """Count the changes that go against the one before. Worked: 2 -> 5 -> 4 -> 3 -> 4 has two."""
    return sum(before.is_up is not after.is_up for before, after in pairwise(changes))


class _Step(enum.IntEnum):
    """What can happen at a moment, in the order in which it does when several fall on one."""

    SCRAPE = 0
    SCRAPE_WORKLOAD = 1
    TICK = 2
    POLL = 3
    SYNC = 4


def run(setup: Setup, traffic: Load, *, replicas: int, seed: int) -> Run:
    """Run the loop from time 0 until the traffic's end.

    Args:
        setup: The pool.
        traffic: Its load.
        replicas: Replicas that serve at the start.
        seed: The same seed gives the same run.
    """
    loop = _Loop(setup, traffic, replicas, seed)
    outcomes: list[Outcome] = []
    end = traffic.duration_s
    for at, step in sorted(_steps(setup, end)):
        outcomes += loop.fleet.advance(at)
        loop.do(step)
    outcomes += loop.fleet.advance(end)
    replica_hours = loop.fleet.replica_seconds / _HOUR_S
    outcomes += loop.fleet.advance(end + _RUN_OUT_S)
    return Run(
        moments=tuple(loop.moments),
        changes=tuple(loop.changes),
        outcomes=tuple(outcomes),
        unserved=loop.fleet.running + loop.fleet.waiting,
        replica_hours=replica_hours,
    )


def _steps(setup: Setup, end: float) -> Iterator[tuple[float, _Step]]:
    timing = setup.timing
    grids = {
        _Step.SCRAPE: timing.scrape,
        _Step.SCRAPE_WORKLOAD: timing.workload_scrape,
        _Step.TICK: Grid(setup.policy.tick_s),
        _Step.POLL: timing.poll,
        _Step.SYNC: timing.sync,
    }
    for step, grid in grids.items():
        if grid is not None:
            for at in grid.until(end):
                yield at, step


@dataclass(slots=True)
class _Loop:
    """The parts of the loop, and what each of them remembers."""

    setup: Setup
    traffic: Load
    replicas: int
    seed: int
    fleet: Fleet = field(init=False)
    hpa: HpaController = field(init=False)
    history: History = field(default_factory=History)
    scrapes: deque[FleetScrape] = field(default_factory=deque)
    workload: WorkloadScrape | None = None
    published: float | None = None
    """What the service answers."""
    polled: float | None = None
    """What KEDA got last."""
    arrived: int = 0
    """Requests that had arrived at the last tick."""
    moments: list[Moment] = field(default_factory=list)
    changes: list[Change] = field(default_factory=list)

    def __post_init__(self) -> None:
        stream = self.traffic.open(self.seed)
        self.fleet = Fleet(
            self.setup.fleet,
            replicas=self.replicas,
            arrivals=stream.arrivals,
            follow_up=stream.follow_up,
            seed=self.seed,
        )
        self.hpa = HpaController(self.setup.hpa)

    def do(self, step: _Step) -> None:
        """Let one thing happen now."""
        match step:
            case _Step.SCRAPE:
                self.scrapes.append(scrape(self.fleet))
                while self.scrapes[0].at <= self.fleet.now - self.setup.policy.locator.rate_window_s:
                    self.scrapes.popleft()
            case _Step.SCRAPE_WORKLOAD:
                self.workload = WorkloadScrape(self.fleet.now, self.fleet.status())
            case _Step.TICK:
                self._tick()
            case _Step.POLL:
                self.polled = self.published
            case _Step.SYNC:
                self._sync()

    def _tick(self) -> None:
        fleet, policy = self.fleet, self.setup.policy
        observation = observe(policy.locator, self.scrapes, self.workload, fleet.now)
        self.history, decision = advance(policy, self.history, observation)
        value = decision.reported_value
        self.published = None if value is None else answered_value(value, math.ceil(value))
        status = fleet.status()
        arrived, self.arrived = fleet.arrived - self.arrived, fleet.arrived
        self.moments.append(
            Moment(
                at=fleet.now,
                rate=arrived / policy.tick_s,
                running=fleet.running,
                waiting=fleet.waiting,
                requested=status.spec_replicas,
                serving=status.ready,
                decision=decision,
            )
        )

    def _sync(self) -> None:
        status = self.fleet.status()
        replicas = self.hpa.sync(
            self.fleet.now,
            spec_replicas=status.spec_replicas,
            status_replicas=status.replicas,
            value=self.published if self.setup.timing.poll is None else self.polled,
        )
        if replicas != status.spec_replicas:
            self.changes.append(Change(self.fleet.now, status.spec_replicas, replicas))
            self.fleet.scale(replicas)
