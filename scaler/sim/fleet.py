"""A fleet of vLLM replicas behind a router, as a Deployment runs it, in virtual time.

Requests come from outside at their own times (open loop) or when their client has its last answer (closed loop), and
the router gives each to a serving replica. Replicas come after a cold start and go after a drain; some never start,
some find no node, some fail.

State. Everything that can happen at a replica has an entry on the agenda, at its time or earlier: between two entries
no request ends and no replica changes, so time passes in one go. An entry too many does no harm.
"""

import enum
import heapq
import itertools
import math
import random
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

from scaler.sim.engine import Engine, EngineSpec
from scaler.sim.replica import Phase, Replica
from scaler.sim.request import Outcome, Request

# Kubernetes builds random names from these, so that no words come out of them.
_NAME_ALPHABET: Final = "bcdfghjklmnpqrstvwxz2456789"
_TEMPLATE_HASH_LENGTH: Final = 10
_POD_SUFFIX_LENGTH: Final = 5
# The kubelet waits this long before it starts a failed container again, doubles it each time, and stops doubling there.
_BACK_OFF_S: Final = 10.0
_LONGEST_BACK_OFF_S: Final = 300.0


class Routing(enum.StrEnum):
    """Which serving replica gets a request."""

    LEAST_OUTSTANDING = "least-outstanding"
    """The one with the fewest requests in flight."""
    RANDOM = "random"
    """Any, whatever it has to do: a router without a view of its replicas, or a Service."""


@dataclass(frozen=True, slots=True)
class FleetSpec:
    """What the replicas are, and how they come and go. Times in seconds."""

    deployment: str
    engine: EngineSpec
    cold_start_s: float
    """From a pod's scheduling until it serves, on average."""
    cold_start_spread: float = 0.0
    """Share by which cold starts differ, up and down, evenly: 0.2 = 80 % to 120 %."""
    drain_limit_s: float = math.inf
    """A draining replica is killed after this long (terminationGracePeriodSeconds)."""
    max_queued: int = 10_000
    """Requests that the router keeps while nobody serves; further ones are refused."""
    routing: Routing = Routing.LEAST_OUTSTANDING
    nodes: int | None = None
    """Pods that find a node, draining ones included; further ones are unschedulable until one goes. None = no limit."""
    start_failure_share: float = 0.0
    """Share of starts that fail when they would be ready and are tried again after a back-off; 1 = none succeeds."""
    pull_stall_share: float = 0.0
    """Share of pods whose image takes ``pull_stall_s`` longer to come."""
    pull_stall_s: float = 0.0
    mean_life_s: float = math.inf
    """A serving replica fails after this long on average, at any time alike; a new pod takes its place."""

    def __post_init__(self) -> None:
        times = (self.cold_start_s, self.drain_limit_s, self.max_queued, self.pull_stall_s, self.nodes or 0)
        if min(times) < 0 or not 0 <= self.cold_start_spread < 1:
            raise ValueError(f"times and limits of a fleet are zero or more, the spread is from 0 to below 1: {self}")
        if not (0 <= self.start_failure_share <= 1 and 0 <= self.pull_stall_share <= 1 and self.mean_life_s > 0):
            raise ValueError(f"shares of a fleet are from 0 to 1, and its replicas live for more than no time: {self}")


@dataclass(frozen=True, slots=True)
class DeploymentStatus:
    """What the Deployment says of itself. Draining replicas are no longer counted, as in Kubernetes."""

    spec_replicas: int
    replicas: int
    ready: int
    generation: int
    """Raised by one at each change of the specification."""


class Fleet:
    """The fleet.

    Args:
        spec: What its replicas are.
        replicas: Replicas that serve at the start.
        arrivals: The requests in the order of their arrival; they may be without end.
        seed: Names, cold starts, faults and random routing come from it.
        start: Time at the start, in seconds.
        follow_up: Takes each outcome and gives the request that its client sends next, not before the outcome's end.
    """

    def __init__(
        self,
        spec: FleetSpec,
        *,
        replicas: int,
        arrivals: Iterable[Request],
        seed: int,
        start: float = 0.0,
        follow_up: Callable[[Outcome], Request | None] | None = None,
    ) -> None:
        self.spec = spec
        self.now = start
        self.spec_replicas = 0
        self.arrived = 0
        """Requests that have come so far, refused ones included."""
        self.refused = 0
        """Requests that no replica could ever take, or that found the router's queue full."""
        self.failed_replicas = 0
        """Replicas that failed while they served or drained."""
        self.events = 0
        """Arrivals, and moments at which a batch or a replica may have changed: what has to be worked through."""
        self._arrivals = iter(arrivals)
        self._next = next(self._arrivals, None)
        self._follow_up = follow_up
        self._answers: list[tuple[float, int, Request]] = []
        """Requests that follow an outcome, by their arrival."""
        self._random = random.Random(seed)
        # Sources of their own, so that faults and routing leave names and cold starts as they are without them.
        self._faults = random.Random(f"faults {seed}")
        self._routes = random.Random(f"routes {seed}")
        self._template_hash = self._name(_TEMPLATE_HASH_LENGTH)
        self._replicas: list[Replica] = []
        self._serving: list[Replica] = []
        self._agenda: list[tuple[float, int, Replica]] = []
        self._entries = itertools.count()
        self._fed: dict[Replica, None] = {}
        """Replicas that were given requests at this moment."""
        self._unrouted: deque[Request] = deque()
        self._routed = 0
        self._generation = 0
        self._finished_replica_seconds = 0.0
        self._ended: list[Outcome] = []
        for _ in range(replicas):
            self._create(ready_at=start)
        self.scale(replicas)

    @property
    def replicas(self) -> tuple[Replica, ...]:
        """All pods that exist now, the oldest first."""
        return tuple(self._replicas)

    @property
    def running(self) -> int:
        """Requests in batches."""
        return sum(replica.engine.running for replica in self._replicas)

    @property
    def waiting(self) -> int:
        """Requests in queues, the router's included."""
        return sum(replica.engine.waiting for replica in self._replicas) + len(self._unrouted)

    @property
    def unschedulable(self) -> int:
        """Pods for which there is no node."""
        return sum(not replica.scheduled for replica in self._replicas)

    @property
    def replica_seconds(self) -> float:
        """Time that pods have had a node for, starting and draining included: what has to be paid."""
        return self._finished_replica_seconds + sum(
            self.now - replica.scheduled_at for replica in self._replicas if replica.scheduled
        )

    @property
    def awaiting_first_token(self) -> list[float]:
        """Arrival times of the requests that have no token yet."""
        queued = [request.arrived_at for request in self._unrouted]
        return queued + [at for replica in self._replicas for at in replica.engine.awaiting_first_token]

    def status(self) -> DeploymentStatus:
        """Return the Deployment's counts now."""
        phases = [replica.phase(self.now) for replica in self._replicas]
        ready = phases.count(Phase.SERVING)
        return DeploymentStatus(self.spec_replicas, ready + phases.count(Phase.STARTING), ready, self._generation)

    def scale(self, replicas: int) -> None:
        """Set spec.replicas: pods are created or told to go at once, those that do not serve yet first."""
        if replicas < 0:
            raise ValueError(f"a Deployment has zero or more replicas, not {replicas}")
        if replicas != self.spec_replicas:
            self.spec_replicas = replicas
            self._generation += 1
        staying = [replica for replica in self._replicas if replica.draining_since is None]
        for _ in range(replicas - len(staying)):
            self._create()
        # Kubernetes removes the not yet ready first, then the youngest.
        staying.sort(key=lambda each: (each.phase(self.now) is Phase.STARTING, each.ready_at, each.created_at))
        for replica in staying[replicas:]:
            if replica.phase(self.now) is Phase.STARTING:
                self._remove(replica, self.now)
            else:
                replica.draining_since = self.now
                self._note(self.now + self.spec.drain_limit_s, replica)
                self._see(replica)
        self._list_serving()

    def advance(self, to: float) -> list[Outcome]:
        """Let time pass until ``to`` and return the requests that ended meanwhile."""
        while True:
            # What was given out at this moment goes into batches before time goes on.
            for replica in self._fed:
                self._work(replica)
            self._fed.clear()
            at = min(to, self._next_arrival(), self._agenda[0][0] if self._agenda else math.inf)
            done = at >= to
            self.now = at
            while self._agenda and self._agenda[0][0] <= at:
                done = False
                self._see(heapq.heappop(self._agenda)[2])
            while self._unrouted and self._serving:
                self._give(self._choose(), self._unrouted.popleft())
            while (request := self._arrival(at)) is not None:
                done = False
                self._route(request)
            if done and not self._fed:
                break
        for replica in self._replicas:
            self._ended += replica.engine.advance(to)
        ended, self._ended = self._ended, []
        return ended

    def _next_arrival(self) -> float:
        first = math.inf if self._next is None else self._next.arrived_at
        if self._answers:
            first = min(first, self._answers[0][0])
        return max(self.now, first)

    def _arrival(self, at: float) -> Request | None:
        """Take the next request that has arrived by ``at``."""
        if self._answers and self._answers[0][0] <= at:
            return heapq.heappop(self._answers)[2]
        if self._next is None or self._next.arrived_at > at:
            return None
        request, self._next = self._next, next(self._arrivals, None)
        return request

    def _end(self, outcomes: Iterable[Outcome]) -> None:
        """Record outcomes, and let their clients send on."""
        for outcome in outcomes:
            self._ended.append(outcome)
            request = self._follow_up(outcome) if self._follow_up else None
            if request is not None:
                heapq.heappush(self._answers, (request.arrived_at, next(self._entries), request))

    def _note(self, at: float, replica: Replica) -> None:
        if at < math.inf:
            heapq.heappush(self._agenda, (at, next(self._entries), replica))

    def _work(self, replica: Replica) -> None:
        """Let a replica's engine work until now, and note when its batch may change next."""
        engine = replica.engine
        if engine.due <= self.now:
            self._end(engine.advance(self.now))
        if engine.due != replica.noted:
            replica.noted = engine.due
            self._note(engine.due, replica)

    def _see(self, replica: Replica) -> None:
        """Do what is due at a replica now."""
        self.events += 1
        if replica.gone:
            return
        if replica.engine.due <= self.now:
            self._work(replica)
        if replica.fails_at <= self.now:
            self._fail(replica)
        elif replica.draining_since is not None:
            if self.now >= replica.draining_since + self.spec.drain_limit_s:
                self._end(replica.engine.abort(self.now))
            if not replica.engine.in_flight:
                # It may have been empty before anybody looked.
                self._remove(replica, max(replica.draining_since, replica.engine.last_ended_at))
        elif replica.ready_at == self.now:
            self._list_serving()

    def _fail(self, replica: Replica) -> None:
        """Lose a replica with everything in it; the Deployment makes a new pod at once, unless it was to go anyway."""
        self.failed_replicas += 1
        self._end(replica.engine.abort(self.now))
        self._remove(replica, self.now)
        if replica.draining_since is None:
            self._create()
        self._list_serving()

    def _route(self, request: Request) -> None:
        self.arrived += 1
        self.events += 1
        if not self.spec.engine.holds(request):
            self._refuse(request)
        elif self._serving:
            self._give(self._choose(), request)
        elif len(self._unrouted) < self.spec.max_queued:
            self._unrouted.append(request)
        else:
            self._refuse(request)

    def _choose(self) -> Replica:
        if self.spec.routing is Routing.RANDOM:
            return self._routes.choice(self._serving)
        return min(self._serving, key=lambda replica: (replica.engine.in_flight, replica.last_routed))

    def _give(self, replica: Replica, request: Request) -> None:
        self._routed += 1
        replica.last_routed = self._routed
        replica.engine.submit(request, self.now)
        self._fed[replica] = None

    def _refuse(self, request: Request) -> None:
        self.refused += 1
        outcome = Outcome(request, replica="", ended_at=self.now, completed=False, ttft_s=None, preemptions=0)
        self._end([outcome])

    def _create(self, ready_at: float | None = None) -> None:
        """Make a pod; it starts when it finds a node, or is ready at a given time."""
        has_node = self.spec.nodes is None or sum(each.scheduled for each in self._replicas) < self.spec.nodes
        if ready_at is None and has_node:
            ready_at = self.now + self._start_s()
        name = f"{self.spec.deployment}-{self._template_hash}-{self._name(_POD_SUFFIX_LENGTH)}"
        engine = Engine(self.spec.engine, name=name, started_at=self.now)
        replica = Replica(name, created_at=self.now, ready_at=math.inf, engine=engine)
        self._replicas.append(replica)
        if ready_at is not None:
            self._schedule(replica, ready_at)

    def _schedule(self, replica: Replica, ready_at: float) -> None:
        """Give a pod a node."""
        replica.scheduled_at, replica.ready_at = self.now, ready_at
        replica.engine.started_at = ready_at
        self._note(ready_at, replica)
        if self.spec.mean_life_s < math.inf:
            replica.fails_at = ready_at + self._faults.expovariate(1 / self.spec.mean_life_s)
            self._note(replica.fails_at, replica)

    def _start_s(self) -> float:
        """Draw how long a pod takes from its node to its first request; infinity when it never gets there."""
        spec = self.spec
        cold_start_s = spec.cold_start_s * self._random.uniform(1 - spec.cold_start_spread, 1 + spec.cold_start_spread)
        if spec.start_failure_share == 1:
            return math.inf
        total_s = cold_start_s
        if spec.pull_stall_share and self._faults.random() < spec.pull_stall_share:
            total_s += spec.pull_stall_s
        back_off_s = _BACK_OFF_S
        while spec.start_failure_share and self._faults.random() < spec.start_failure_share:
            total_s += back_off_s + cold_start_s
            back_off_s = min(2 * back_off_s, _LONGEST_BACK_OFF_S)
        return total_s

    def _remove(self, replica: Replica, at: float) -> None:
        self._replicas.remove(replica)
        replica.gone = True
        if not replica.scheduled:
            return
        self._finished_replica_seconds += at - replica.scheduled_at
        waiting = next((each for each in self._replicas if not each.scheduled), None)
        if waiting is not None:
            self._schedule(waiting, self.now + self._start_s())

    def _list_serving(self) -> None:
        self._serving = [each for each in self._replicas if each.phase(self.now) is Phase.SERVING]

    def _name(self, length: int) -> str:
        return "".join(self._random.choices(_NAME_ALPHABET, k=length))
