"""A fleet of vLLM replicas behind a router, as a Deployment runs it, in virtual time.

Requests come from outside at their own times (open loop: nobody waits for an answer before sending the next) and go to
the serving replica with the fewest requests outstanding. Replicas come after a cold start and go after a drain.
"""

import math
import random
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from scaler.sim.engine import Engine, EngineSpec
from scaler.sim.replica import Phase, Replica
from scaler.sim.request import Outcome, Request

# Kubernetes builds random names from these, so that no words come out of them.
_NAME_ALPHABET: Final = "bcdfghjklmnpqrstvwxz2456789"
_TEMPLATE_HASH_LENGTH: Final = 10
_POD_SUFFIX_LENGTH: Final = 5


@dataclass(frozen=True, slots=True)
class FleetSpec:
    """What the replicas are, and how they come and go. Times in seconds."""

    deployment: str
    engine: EngineSpec
    cold_start_s: float
    """From a pod's creation until it serves, on average."""
    cold_start_spread: float = 0.0
    """Share by which cold starts differ, up and down, evenly: 0.2 = 80 % to 120 %."""
    drain_limit_s: float = math.inf
    """A draining replica is killed after this long (terminationGracePeriodSeconds)."""
    max_queued: int = 10_000
    """Requests that the router keeps while nobody serves; further ones are refused."""

    def __post_init__(self) -> None:
        if min(self.cold_start_s, self.drain_limit_s, self.max_queued) < 0 or not 0 <= self.cold_start_spread < 1:
            raise ValueError(f"times and limits of a fleet are zero or more, the spread is from 0 to below 1: {self}")


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
        seed: Names and cold starts come from it.
        start: Time at the start, in seconds.
    """

    def __init__(
        self, spec: FleetSpec, *, replicas: int, arrivals: Iterable[Request], seed: int, start: float = 0.0
    ) -> None:
        self.spec = spec
        self.now = start
        self.spec_replicas = 0
        self.refused = 0
        """Requests that no replica could ever take, or that found the router's queue full."""
        self._arrivals = iter(arrivals)
        self._next = next(self._arrivals, None)
        self._random = random.Random(seed)
        self._template_hash = self._name(_TEMPLATE_HASH_LENGTH)
        self._replicas: list[Replica] = []
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
    def replica_seconds(self) -> float:
        """Time that pods have existed for, starting and draining included: what has to be paid."""
        return self._finished_replica_seconds + sum(self.now - replica.created_at for replica in self._replicas)

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
            spread = self.spec.cold_start_spread
            cold_start_s = self.spec.cold_start_s * self._random.uniform(1 - spread, 1 + spread)
            self._create(ready_at=self.now + cold_start_s)
        # Kubernetes removes the not yet ready first, then the youngest.
        staying.sort(key=lambda each: (each.phase(self.now) is Phase.STARTING, each.ready_at, each.created_at))
        for replica in staying[replicas:]:
            if replica.phase(self.now) is Phase.STARTING:
                self._remove(replica, self.now)
            else:
                replica.draining_since = self.now
        self._remove_drained()

    def advance(self, to: float) -> list[Outcome]:
        """Let time pass until ``to`` and return the requests that ended meanwhile."""
        while True:
            at = min(to, self._next_arrival(), self._next_change())
            for replica in self._replicas:
                self._ended += replica.engine.advance(at)
            self.now = at
            self._remove_drained()
            while self._unrouted and (ready := self._least_outstanding()) is not None:
                self._give(ready, self._unrouted.popleft())
            if self._next is not None and self._next.arrived_at <= at:
                self._route(self._next)
                self._next = next(self._arrivals, None)
            elif at >= to:
                break
        ended, self._ended = self._ended, []
        return ended

    def _next_arrival(self) -> float:
        return math.inf if self._next is None else max(self.now, self._next.arrived_at)

    def _next_change(self) -> float:
        """Return when the next replica begins to serve, or reaches the limit of its drain."""
        times = [math.inf]
        for replica in self._replicas:
            if replica.draining_since is not None:
                times.append(replica.draining_since + self.spec.drain_limit_s)
            elif replica.ready_at > self.now:
                times.append(replica.ready_at)
        return min(times)

    def _route(self, request: Request) -> None:
        replica = self._least_outstanding()
        if request.total_tokens > self.spec.engine.kv_capacity_tokens:
            self._refuse(request)
        elif replica is not None:
            self._give(replica, request)
        elif len(self._unrouted) < self.spec.max_queued:
            self._unrouted.append(request)
        else:
            self._refuse(request)

    def _least_outstanding(self) -> Replica | None:
        serving = [replica for replica in self._replicas if replica.phase(self.now) is Phase.SERVING]
        return min(serving, key=lambda replica: (replica.engine.in_flight, replica.last_routed), default=None)

    def _give(self, replica: Replica, request: Request) -> None:
        self._routed += 1
        replica.last_routed = self._routed
        replica.engine.submit(request, self.now)

    def _refuse(self, request: Request) -> None:
        self.refused += 1
        self._ended.append(
            Outcome(request, replica="", ended_at=self.now, completed=False, ttft_s=None, preemptions=0),
        )

    def _create(self, ready_at: float) -> None:
        name = f"{self.spec.deployment}-{self._template_hash}-{self._name(_POD_SUFFIX_LENGTH)}"
        engine = Engine(self.spec.engine, name=name, started_at=ready_at)
        self._replicas.append(Replica(name, created_at=self.now, ready_at=ready_at, engine=engine))

    def _remove_drained(self) -> None:
        for replica in self.replicas:
            if replica.draining_since is None:
                continue
            if self.now >= replica.draining_since + self.spec.drain_limit_s:
                self._ended += replica.engine.abort(self.now)
            if not replica.engine.in_flight:
                # It may have been empty before anybody looked.
                self._remove(replica, max(replica.draining_since, replica.engine.last_ended_at))

    def _remove(self, replica: Replica, at: float) -> None:
        self._replicas.remove(replica)
        self._finished_replica_seconds += at - replica.created_at

    def _name(self, length: int) -> str:
        return "".join(self._random.choices(_NAME_ALPHABET, k=length))
