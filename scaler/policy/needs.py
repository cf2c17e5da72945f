"""How many replicas each signal asks for. Everything is in replicas, so that signals of any unit can be compared.

Each signal turns one observation into a ``Need``:

- ``up``: the replicas below which the signal's promise is broken; it speaks for scaling up.
- ``down``: the replicas above which there is room; it speaks against scaling further down. Never below ``up``.

The formulas, with R running, Q waiting, x = R + Q in flight, S slots a replica, m serving replicas:

- saturation: up = ceil(x / (U S)), down = ceil(max(x / (D S), (x + z sqrt(x)) / (U S))). Requests in flight fluctuate
  by about their square root, so that a count that only just fits would be asked for again a moment later.
- KV cache: K = the sum of the replicas' usage; up = ceil(K / 0.9), down = ceil(K / 0.7). A full replica with a queue
  hides demand: then K counts (R + Q) / R times.
- TTFT: r = (T - base) / (SLO - base); up = ceil(m0 min(1.5, r)) while r > 1 and there is work; down = the smallest
  count at which r is predicted to stay under 0.6, and not below what latency asked for at about this load before.
"""

import math
from dataclasses import dataclass
from typing import Final, NamedTuple

from scaler.model import Absent, Observation, PoolPolicy, Reading
from scaler.units import ceil_replicas, format_duration, format_number

FLOOR_LOAD_RATIO: Final = 0.8
"""A load below this share of the one that broke the latency is another load: what it needed no longer binds."""
KV_FULL_RATIO: Final = 0.9
"""A replica above this holds requests back for want of KV cache, so its usage no longer shows the demand."""
TTFT_STEP_RATIO: Final = 1.5
"""One look at a latency can say "more", not "how much more": half as many again at most."""
PREDICTED_UTILISATION_LIMIT: Final = 0.98
"""Where the queueing formula diverges: no fewer replicas than keep requests in flight below this share of the slots."""


class Need(NamedTuple):
    """Replicas that one signal asks for at one tick; None = no vote."""

    up: int | None
    down: int | None


NO_VOTE: Final = Need(None, None)
NO_NEED: Final = Need(0, 0)


@dataclass(frozen=True, slots=True)
class Assessment:
    """One signal's newest value and what it asks for; ``note`` says why there is no vote up, where there is none."""

    value: Reading
    need: Need
    note: str = ""


@dataclass(frozen=True, slots=True)
class TtftContext:
    """What TTFT needs to know beside the newest observation.

    Args:
        base_s: The smallest TTFT with an empty queue and few running: what more replicas cannot mend.
        fewest_serving: The smallest serving count in the rate window (m0), so that a step whose replicas have just
            started is not taken again for latencies from before.
        drain_s: When the queue that the latencies stem from will be gone, in seconds; None = it is not shrinking.
        floor: What latency asked for last, or None.
    """

    base_s: float
    fewest_serving: int | None
    drain_s: float | None
    floor: "LatencyFloor | None" = None


@dataclass(frozen=True, slots=True)
class LatencyFloor:
    """The replicas that an increase for latency went to, and the requests in flight that it was for."""

    replicas: int
    in_flight: float


def in_flight(observation: Observation) -> Reading:
    """Return x = running + waiting, in requests; missing when either is."""
    if isinstance(observation.running, Absent) or isinstance(observation.waiting, Absent):
        return Absent.MISSING
    return observation.running + observation.waiting


def saturation(policy: PoolPolicy, observation: Observation) -> Assessment:
    """Assess requests in flight against the pool's slots.

    Worked: 41 in flight, 4 slots, U 1.0, D 0.8, z 2: up = ceil(41 / 4) = 11; down = ceil(max(41 / 3.2, (41 + 2 x 6.4)
    / 4)) = ceil(max(12.81, 13.45)) = 14.
    """
    x = in_flight(observation)
    if isinstance(x, Absent):
        return Assessment(x, NO_VOTE, "requests running or waiting are missing")
    up_slots = policy.scale_up_saturation * policy.slots_per_replica
    down_slots = policy.scale_down_saturation * policy.slots_per_replica
    noisy = x + policy.scale_down_noise * math.sqrt(x)
    return Assessment(x, Need(ceil_replicas(x / up_slots), ceil_replicas(max(x / down_slots, noisy / up_slots))))


def saturation_release_threshold(policy: PoolPolicy, replicas: int) -> float:
    """Return the most requests in flight that one replica fewer may be left with.

    It inverts the saturation's down-need. Worked: 14 replicas of 4 slots with the defaults: D gives 0.8 x 4 x 13 =
    41.6, the noise x + 2 sqrt(x) <= 52 gives 39.44, so 39.44.
    """
    left = max(0, replicas - 1) * policy.slots_per_replica
    half = policy.scale_down_noise / 2
    root = math.sqrt(half * half + policy.scale_up_saturation * left) - half
    return min(policy.scale_down_saturation * left, root * root)


def kv_cache(policy: PoolPolicy, observation: Observation) -> Assessment:
    """Assess KV-cache usage; the value is the mean ratio of the replicas that report it.

    Worked: usage 0.95, 0.93, 0.98 with 12 running and 6 waiting: K = 2.86 x 18 / 12 = 4.29, up = ceil(4.29 / 0.9) = 5,
    down = ceil(4.29 / 0.7) = 7.
    """
    ratios = observation.kv_usage_ratios
    if isinstance(ratios, Absent) or not ratios:
        return Assessment(Absent.MISSING, NO_VOTE, "KV-cache usage is missing")
    mean = math.fsum(ratios) / len(ratios)
    serving = observation.serving
    replicas = len(ratios) if isinstance(serving, Absent) else max(len(ratios), serving)
    used = mean * replicas
    if ratios[-1] > KV_FULL_RATIO:
        used *= _hidden_demand(observation)
    return Assessment(
        mean, Need(ceil_replicas(used / policy.kv_cache_scale_up), ceil_replicas(used / policy.kv_cache_scale_down))
    )


def _hidden_demand(observation: Observation) -> float:
    """Return how many times the running requests are in flight: 12 running, 6 waiting: 1.5; 1 where unknown."""
    running, waiting = observation.running, observation.waiting
    if isinstance(running, Absent) or isinstance(waiting, Absent):
        return 1.0
    return max(1.0, (running + waiting) / max(running, 1.0))


def ttft_p95(policy: PoolPolicy, observation: Observation, context: TtftContext) -> Assessment:
    """Assess P95 time to first token against its SLO, gated by work: a quantile lingers after the load has gone.

    Worked: T 4 s, SLO 2.5 s, base 0.5 s, 4 replicas: r = 3.5 / 2 = 1.75, up = ceil(4 x 1.5) = 6.
    """
    ttft = observation.ttft_p95_s
    if ttft is Absent.NO_TRAFFIC:
        return Assessment(ttft, NO_NEED)
    serving, x = observation.serving, in_flight(observation)
    if isinstance(ttft, Absent):
        return Assessment(ttft, NO_VOTE, "P95 TTFT is missing")
    if isinstance(serving, Absent) or serving < 1:
        return Assessment(ttft, NO_VOTE, "no replica reports metrics")
    room = policy.ttft_p95_s - context.base_s
    if room <= 0:
        note = (
            f"P95 TTFT is {format_duration(context.base_s)} even with an empty queue, the SLO"
            f" {format_duration(policy.ttft_p95_s)}: more replicas cannot mend that"
        )
        return Assessment(ttft, Need(0, _floor(context, x)), note)
    ratio = max(0.0, (ttft - context.base_s) / room)
    replicas = int(serving)
    note = _ttft_gate(policy, observation, context) if ratio > 1 else ""
    up = 0
    if ratio > 1 and not note:
        fewest = replicas if context.fewest_serving is None else context.fewest_serving
        up = ceil_replicas(fewest * min(TTFT_STEP_RATIO, ratio))
    if isinstance(x, Absent):
        return Assessment(ttft, Need(up, None), note)
    down = max(up, _floor(context, x), _ttft_down_need(policy, ratio, ttft, x, replicas))
    return Assessment(ttft, Need(up, down), note)


def _floor(context: TtftContext, x: Reading) -> int:
    """Return what latency asked for before, while the load is still about the one it was for; else 0."""
    floor = context.floor
    if floor is None or (not isinstance(x, Absent) and x < FLOOR_LOAD_RATIO * floor.in_flight):
        return 0
    return floor.replicas


def _ttft_gate(policy: PoolPolicy, observation: Observation, context: TtftContext) -> str:
    """Return why a TTFT above its SLO does not ask for replicas, or "" if it does."""
    samples = observation.ttft_samples
    if isinstance(samples, Absent) or samples < policy.latency_min_samples:
        seen = "unknown" if isinstance(samples, Absent) else format_number(samples)
        return f"too few first tokens in the window to judge TTFT: {seen} of {policy.latency_min_samples}"
    running, waiting, serving = observation.running, observation.waiting, observation.serving
    if isinstance(running, Absent) or isinstance(waiting, Absent) or isinstance(serving, Absent):
        return "the load behind the TTFT is unknown"
    if waiting <= 0 and running < policy.latency_min_saturation * policy.slots_per_replica * serving:
        return "the TTFT is of requests that are gone: nothing waits and few run"
    if context.drain_s is not None and context.drain_s <= policy.drain_horizon_s:
        if waiting <= 0:
            return "the TTFT is of a queue that is gone"
        return f"the queue behind the TTFT will be gone in about {format_duration(math.ceil(context.drain_s))}"
    return ""


def _ttft_down_need(policy: PoolPolicy, ratio: float, ttft_s: float, x: float, serving: int) -> int:
    """Return the fewest replicas at which TTFT is predicted to keep well within its SLO.

    The waiting part of a latency grows as g = q / (1 - q), q the share of slots in use: r' = r g' / g. The base may
    hold some waiting too, if the pool was never quiet. Even if all of T were waiting, T' = T g' / g must leave half of
    the room to the SLO.

    Worked: SLO 2.5 s, T 0.25 s, r 0.1, 8 in flight on 4 replicas of 4 slots, so q 0.5, g 1: r' <= 0.6 allows g' = 6,
    T' <= 1.375 s allows g' = 5.5, so q' = 0.846 and 8 / (4 x 0.846) = 2.36: 3 replicas.
    """
    if x <= 0:
        return 0
    q = x / (policy.slots_per_replica * serving)
    if ratio > policy.latency_scale_down_ratio or q >= PREDICTED_UTILISATION_LIMIT:
        return serving
    g = q / (1 - q)
    by_ratio = g * policy.latency_scale_down_ratio / ratio if ratio > 0 else math.inf
    by_ttft = g * (ttft_s + policy.ttft_p95_s) / (2 * ttft_s) if ttft_s > 0 else math.inf
    allowed = min(by_ratio, by_ttft)
    highest = PREDICTED_UTILISATION_LIMIT
    if allowed < math.inf:
        highest = min(highest, allowed / (1 + allowed))
    return min(serving, max(1, ceil_replicas(x / (policy.slots_per_replica * highest))))
