"""What the laws are measured against: a count that never changes, and one that knows what will come."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Final

from scaler.sim.engine import EngineSpec
from scaler.sim.hpa import HpaSpec
from scaler.sim.law import Answer, Seen
from scaler.sim.request import Request

_TICK_S: Final = 15.0
# No engine admits requests into all of its cache.
_USABLE_SHARE: Final = 0.9
# The work of a prefill may be spread over so long and still be in time.
_PREFILL_SPREAD_S: Final = 5


class Fixed:
    """A count that a person chose; nothing is read.

    Args:
        replicas: The count.
    """

    tick_s: float | None = _TICK_S
    hpa: HpaSpec | None = None

    def __init__(self, replicas: int) -> None:
        self._replicas = replicas

    def answer(self, seen: Seen) -> Answer:  # noqa: ARG002 - a law's signature; this one looks at nothing
        """Say the count."""
        return (float(self._replicas),)


@dataclass(frozen=True, slots=True)
class Demand:
    """What the traffic needs in each second from 0 on, in replicas and fractions of them."""

    replicas: Sequence[float]

    def highest(self, since: float, until: float) -> float:
        """Return the greatest need within a span; 0 after the traffic's end."""
        first = min(len(self.replicas), max(0, math.floor(since)))
        return max(self.replicas[first : max(first, math.ceil(until)) + 1], default=0.0)

    @property
    def mean(self) -> float:
        """The mean need over the whole traffic."""
        return sum(self.replicas) / len(self.replicas) if self.replicas else 0.0

    @property
    def peak(self) -> float:
        """The greatest need."""
        return max(self.replicas, default=0.0)


def demand(requests: Iterable[Request], engine: EngineSpec, duration_s: float) -> Demand:
    """Return the need if each request began when it came, at the pace of a full batch.

    A replica is needed for each ``slots`` requests at work or for each full cache of their tokens, whichever is more,
    and besides for each second of prefill in a second, since a prefill holds everybody up. Worked: 8 requests at a time
    that last 10 s each on 4 slots need 2, and a little for their prompts.

    Args:
        requests: The traffic.
        engine: What one replica can do.
        duration_s: The traffic's length, seconds.
    """
    seconds = math.ceil(duration_s) + 1
    at_work, tokens, prefill_s = ([0.0] * (seconds + 1) for _ in range(3))
    for request in requests:
        took_s, lasts_s = _times(request, engine)
        first = min(seconds, int(request.arrived_at))
        last = min(seconds, int(request.arrived_at + lasts_s) + 1)
        # Of a request that ends within the second in which it came, only the part counts that it is there.
        share = min(1.0, lasts_s)
        held = share * _held_tokens(request)
        for series, amount in ((at_work, share), (tokens, held)):
            series[first] += amount
            series[last] -= amount
        for second in range(first, min(seconds, first + _PREFILL_SPREAD_S)):
            prefill_s[second] += took_s / _PREFILL_SPREAD_S
    usable = engine.kv_capacity_tokens * _USABLE_SHARE
    return Demand(
        [
            max(busy / engine.slots, held / usable) + spent
            for busy, held, spent in zip(accumulate(at_work), accumulate(tokens), prefill_s, strict=True)
        ][:seconds]
    )


def capacity_per_s(requests: Iterable[Request], engine: EngineSpec) -> float:
    """Return how many of such requests one replica serves in a second, as a load test shows it.

    Worked: requests that last 10 s each on 4 slots, 0.1 s of it prefill, and hold little: 1 / (2.5 + 0.1) = 0.38/s.
    """
    usable = engine.kv_capacity_tokens * _USABLE_SHARE
    count, busy, held, spent = 0, 0.0, 0.0, 0.0
    for request in requests:
        took_s, lasts_s = _times(request, engine)
        count += 1
        busy += lasts_s / engine.slots
        held += lasts_s * _held_tokens(request) / usable
        spent += took_s
    if not count:
        raise ValueError("a load test takes at least one request")
    return count / (max(busy, held) + spent)


def _times(request: Request, engine: EngineSpec) -> tuple[float, float]:
    """Return how long a request's prefill takes alone, and the whole of it in a full batch, in seconds."""
    held = min(engine.kv_capacity_tokens, engine.slots * _held_tokens(request))
    token_s = engine.step_s + engine.step_per_sequence_s * engine.slots + engine.step_per_kv_token_s * held
    took_s = request.prompt_tokens / engine.prefill_tokens_per_s
    return took_s, took_s + request.output_tokens * token_s


def _held_tokens(request: Request) -> float:
    """Return the tokens that a request holds in the cache on average."""
    return request.prompt_tokens + request.output_tokens / 2


class Oracle:
    """A law that knows every request in advance and has the same cold start: the bound for all that cannot know.

    A replica is there when it is needed, since it was asked for a cold start before, and it goes when it is not needed
    again within a cold start, since another could not come sooner.

    Args:
        demand: What the traffic will need.
        cold_start_s: The longest that a replica takes to serve.
        min_replicas: Fewest replicas.
        max_replicas: Most replicas.
    """

    tick_s: float | None = _TICK_S
    hpa: HpaSpec | None = None

    def __init__(self, demand: Demand, cold_start_s: float, *, min_replicas: int, max_replicas: int) -> None:
        self._demand = demand
        self._ahead_s = cold_start_s + _TICK_S
        self._bounds = (min_replicas, max_replicas)

    def answer(self, seen: Seen) -> Answer:
        """Look as far ahead as a replica takes to come."""
        least, most = self._bounds
        wanted = math.ceil(self._demand.highest(seen.at, seen.at + self._ahead_s))
        return (float(min(max(wanted, least), most)),)
