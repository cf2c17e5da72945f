"""The whole loop in virtual time: traffic, fleet, Prometheus, a law, KEDA and the HPA, and back to the fleet.

Everything that happens has a grid of its own, as in a cluster: scrapes, ticks, KEDA's polls and the HPA's syncs fall at
different moments, so what each of them knows is some seconds old. The service's law is the very one that runs live.
"""

import enum
import math
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final

from scaler.model import Decision, PoolPolicy
from scaler.sim.fleet import Fleet, FleetSpec
from scaler.sim.hpa import HpaController, HpaSpec
from scaler.sim.law import MEMORY_S, NO_ANSWER, Answer, Law, Seen
from scaler.sim.live import LiveLaw
from scaler.sim.observe import FleetScrape, WorkloadScrape, scrape
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
    """When each part of the loop looks. Ticks fall on multiples of the law's own interval."""

    scrape: Grid = Grid(15.0, 4.0)
    """Prometheus scrapes the replicas."""
    workload_scrape: Grid = Grid(30.0, 11.0)
    """Prometheus scrapes kube-state-metrics, which charts do less often."""
    poll: Grid | None = None
    """KEDA polls, and the HPA gets what it saw last (useCachedMetrics); None: each sync asks the service."""
    sync: Grid = Grid(15.0, 8.0)
    """The HPA's syncs."""
    record: Grid = Grid(15.0)
    """When the truth is written down, for reports."""


@dataclass(frozen=True, slots=True)
class Setup:
    """A pool and everything that scales it."""

    policy: PoolPolicy
    fleet: FleetSpec
    hpa: HpaSpec
    timing: Timing = Timing()


@dataclass(frozen=True, slots=True)
class Moment:
    """The truth about the fleet at one moment, and what the law said last of what could be seen."""

    at: float
    rate: float
    """Requests that have come since the moment before, per second."""
    running: int
    waiting: int
    """Requests in queues, the router's included."""
    requested: int
    serving: int
    """Ready replicas; those that drain are not among them."""
    answer: Answer
    decision: Decision | None = None
    """The newest decision of the service's own law."""


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
    RECORD = 4
    SYNC = 5


def run(setup: Setup, traffic: Load, *, replicas: int, seed: int) -> Run:
    """Let the service's law scale a pool from time 0 until the traffic's end.

    Args:
        setup: The pool.
        traffic: Its load.
        replicas: Replicas that serve at the start.
        seed: The same seed gives the same run.
    """
    law = LiveLaw(setup.policy, setup.hpa)
    return play(law, setup.fleet, traffic, timing=setup.timing, replicas=replicas, seed=seed)


def play(law: Law, fleet: FleetSpec, load: Load, *, timing: Timing, replicas: int, seed: int) -> Run:
    """Let a law scale a fleet from time 0 until the traffic's end.

    Args:
        law: The law, which has not been used before.
        fleet: What it scales.
        load: The traffic.
        timing: When each part of the loop looks.
        replicas: Replicas that serve at the start.
        seed: The same seed gives the same run; the requests depend on nothing else, so laws can be compared on them.
    """
    loop = _Loop(law, fleet, load, timing, replicas, seed)
    outcomes: list[Outcome] = []
    end = load.duration_s
    for at, step in sorted(_steps(law, timing, end)):
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


def _steps(law: Law, timing: Timing, end: float) -> Iterator[tuple[float, _Step]]:
    grids = {
        _Step.SCRAPE: timing.scrape,
        _Step.SCRAPE_WORKLOAD: timing.workload_scrape,
        _Step.TICK: timing.sync if law.tick_s is None else Grid(law.tick_s),
        _Step.POLL: timing.poll,
        _Step.RECORD: timing.record,
        _Step.SYNC: None if law.hpa is None else timing.sync,
    }
    for step, grid in grids.items():
        if grid is not None:
            for at in grid.until(end):
                yield at, step


@dataclass(slots=True)
class _Loop:
    """The parts of the loop, and what each of them remembers."""

    law: Law
    spec: FleetSpec
    load: Load
    timing: Timing
    replicas: int
    seed: int
    fleet: Fleet = field(init=False)
    hpa: HpaController | None = field(init=False)
    scrapes: deque[FleetScrape] = field(default_factory=deque)
    workload: WorkloadScrape | None = None
    published: Answer = NO_ANSWER
    """What the law answers."""
    polled: Answer = NO_ANSWER
    """What KEDA got last."""
    recorded: int = 0
    """Requests that had come at the last record."""
    moments: list[Moment] = field(default_factory=list)
    changes: list[Change] = field(default_factory=list)

    def __post_init__(self) -> None:
        stream = self.load.open(self.seed)
        self.fleet = Fleet(
            self.spec,
            replicas=self.replicas,
            arrivals=stream.arrivals,
            follow_up=stream.follow_up,
            seed=self.seed,
        )
        self.hpa = None if self.law.hpa is None else HpaController(self.law.hpa)

    def do(self, step: _Step) -> None:
        """Let one thing happen now."""
        match step:
            case _Step.SCRAPE:
                self.scrapes.append(scrape(self.fleet))
                while self.scrapes[0].at <= self.fleet.now - MEMORY_S:
                    self.scrapes.popleft()
            case _Step.SCRAPE_WORKLOAD:
                self.workload = WorkloadScrape(self.fleet.now, self.fleet.status())
            case _Step.TICK:
                self._tick()
            case _Step.POLL:
                self.polled = self.published
            case _Step.RECORD:
                self._record()
            case _Step.SYNC:
                self._sync()

    def _tick(self) -> None:
        seen = Seen(self.fleet.now, scrape(self.fleet), self.scrapes, self.workload, self.fleet.status())
        self.published = self.law.answer(seen)
        if self.hpa is None and self.published[0] is not None:
            self._scale(math.ceil(self.published[0]))

    def _record(self) -> None:
        fleet, status = self.fleet, self.fleet.status()
        self.moments.append(
            Moment(
                at=fleet.now,
                rate=(fleet.arrived - self.recorded) / self.timing.record.interval_s,
                running=fleet.running,
                waiting=fleet.waiting,
                requested=status.spec_replicas,
                serving=status.ready,
                answer=self.published,
                decision=self.law.decision if isinstance(self.law, LiveLaw) else None,
            )
        )
        self.recorded = fleet.arrived

    def _sync(self) -> None:
        status = self.fleet.status()
        value, *further = self.published if self.timing.poll is None else self.polled
        if self.hpa is not None:
            self._scale(
                self.hpa.sync(
                    self.fleet.now,
                    spec_replicas=status.spec_replicas,
                    status_replicas=status.replicas,
                    value=value,
                    further=further,
                )
            )

    def _scale(self, replicas: int) -> None:
        before = self.fleet.spec_replicas
        if replicas != before:
            self.changes.append(Change(self.fleet.now, before, replicas))
            self.fleet.scale(replicas)
