"""The experiment that this project began with: a fleet at constant full load, and two laws that scale it.

Clients send a request, wait for the answer and send the next, so the fleet is as full at the end as at the beginning.
The right number of replicas never changes; a law that changes it anyway is fooled by what it looks at. The request rate
fools: it says how fast answers come, which is the same for a fleet that is just busy and for one with a long queue.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import quantiles
from typing import Final

from scaler.model import PoolPolicy
from scaler.sim.closed_loop import Change, Run, Setup, run
from scaler.sim.engine import EngineSpec
from scaler.sim.fleet import Fleet, FleetSpec, Routing
from scaler.sim.hpa import EXACT, HpaSpec
from scaler.sim.prometheus import increase
from scaler.sim.request import Outcome
from scaler.sim.workload import ClosedLoop, TokenLengths

SLOTS: Final = 4
MOST_REPLICAS: Final = 2
CLIENTS: Final = (4, 8, 16, 32, 64)
REQUESTS: Final = 128
"""Of all clients together."""

_ENGINE: Final = EngineSpec(
    slots=SLOTS, kv_capacity_tokens=100_000, step_s=0.1, step_per_sequence_s=0.0025, prefill_tokens_per_s=4000.0
)
_FLEET: Final = FleetSpec("vllm", _ENGINE, cold_start_s=15.0)
_PROMPT: Final = TokenLengths(median=200, spread=0.3, longest=1000)
# 300 steps of 110 ms with a full batch: 33 s. Answers of one length, as benchmarks ask for, end almost together, so
# that requests come in lumps even though the load is the same all the time.
_OUTPUT: Final = TokenLengths(median=300, spread=0.02, longest=1000)
# Four clients on one replica take 128 / 4 x 33 s; everything else takes less time.
_LONGEST_S: Final = 1500.0


@dataclass(frozen=True, slots=True)
class RateLaw:
    """A law on Prometheus' rate of requests: two replicas above one threshold, one below another."""

    up_rate: float
    down_rate: float
    window_s: float = 10.0
    every_s: float = 5.0
    """How often it looks, and how often the count of requests is scraped."""


@dataclass(frozen=True, slots=True)
class Served:
    """What came of the requests."""

    requests_per_s: float
    median_s: float
    """Of the times from a request to its whole answer."""
    p95_s: float


def load(clients: int) -> ClosedLoop:
    """Return so many clients."""
    return ClosedLoop(clients, REQUESTS, _PROMPT, _OUTPUT, duration_s=_LONGEST_S)


def served(outcomes: Sequence[Outcome]) -> Served:
    """Sum up; the time ends with the last answer."""
    cuts = quantiles([outcome.e2e_s for outcome in outcomes], n=20)
    return Served(len(outcomes) / max(outcome.ended_at for outcome in outcomes), cuts[9], cuts[18])


def fixed(replicas: int, clients: int, *, seed: int, routing: Routing = Routing.LEAST_OUTSTANDING) -> Served:
    """Serve with a count of replicas that nobody changes."""
    stream = load(clients).open(seed)
    fleet = Fleet(
        replace(_FLEET, routing=routing),
        replicas=replicas,
        arrivals=stream.arrivals,
        follow_up=stream.follow_up,
        seed=seed,
    )
    return served(fleet.advance(_LONGEST_S))


def by_rate(law: RateLaw, clients: int, *, seed: int) -> tuple[Change, ...]:
    """Let a law on the request rate scale from one replica, and return its changes while all clients have requests."""
    stream = load(clients).open(seed)
    fleet = Fleet(_FLEET, replicas=1, arrivals=stream.arrivals, follow_up=stream.follow_up, seed=seed)
    samples = [(0.0, 0.0)]
    changes = []
    while fleet.arrived < REQUESTS:
        fleet.advance(fleet.now + law.every_s)
        samples.append((fleet.now, float(fleet.arrived)))
        risen = increase(samples, since=fleet.now - law.window_s, until=fleet.now) or 0.0
        rate = risen / law.window_s
        before = fleet.spec_replicas
        after = MOST_REPLICAS if rate > law.up_rate else 1 if rate < law.down_rate else before
        if after != before:
            changes.append(Change(fleet.now, before, after))
            fleet.scale(after)
    return tuple(changes)


def by_saturation(policy: PoolPolicy, clients: int, *, seed: int) -> tuple[Run, tuple[Change, ...]]:
    """Let the live law scale from one replica, and return the run and the changes while all clients have requests.

    Args:
        policy: The pool's settings; its slots and limits are overridden.
        clients: How many.
        seed: The same seed gives the same run.
    """
    setup = Setup(
        replace(policy, slots_per_replica=SLOTS, max_replicas=MOST_REPLICAS),
        _FLEET,
        HpaSpec(1, MOST_REPLICAS, behavior=EXACT),
    )
    found = run(setup, load(clients), replicas=1, seed=seed)
    last_sent = max(outcome.request.arrived_at for outcome in found.outcomes)
    return found, tuple(change for change in found.changes if change.at <= last_sent)
