"""How many replicas each signal asks for. Everything is in replicas, so that signals of any unit can be compared.

Each signal turns one observation into a ``Need``:

- ``up``: the replicas below which the signal's promise is broken; it speaks for scaling up.
- ``down``: the replicas above which there is room; it speaks against scaling further down. Never below ``up``.

The formulas, with R running, Q waiting (of each replica's as many as it has slots at most), x = R + Q in flight, S
slots a replica, m serving replicas, and F further requests that are on their way (``growth``), mostly none:

- saturation: up = ceil((x + F) / (U S)), down = ceil(max(x / (D S), (x + z sqrt(x)) / (U S))). Requests in flight
  fluctuate by about their square root, so that a count that only just fits would be asked for again a moment later.
- KV cache: K = the sum of the replicas' usage; up = ceil(K / 0.9), down = ceil(K / 0.7). A full replica with a queue
  hides demand: then K counts (R + Q + F) / R times.
- latency, T its P95: r = (T - base) / (SLO - base); up = ceil(m0 min(1.5, r)) while r > 1 and there is work; down =
  the smallest count at which r is predicted to stay under 0.6, and not below what latency asked for at about this load.
- capacity: a total of the pool, v, over what one replica carries: up = ceil(v / up capacity), down likewise.
- intensity: a level v that more replicas lower: up = ceil(m0 min(1.5, v / threshold)) while above it; down = m while
  above the release level, else none.
"""

import math
from dataclasses import dataclass
from typing import Final, NamedTuple

from scaler.model import Absent, Extra, Observation, PoolPolicy, Reading, SignalName, SignalPolicy
from scaler.policy import wedges
from scaler.units import ceil_replicas, format_duration, format_number

CERTAIN_DEVIATIONS: Final = 3.0
"""Requests in flight scatter by their square root; beyond three times that it is no noise."""
FLOOR_LOAD_RATIO: Final = 0.8
"""A load below this share of the one that broke the latency is another load: what it needed no longer binds."""
KV_FULL_RATIO: Final = 0.9
"""A replica above this holds requests back for want of KV cache, so its usage no longer shows the demand."""
LATENCY_STEPS: Final = 4
"""A latency that the load in flight does not explain is met in steps of one in so many replicas."""
STRANDED_SHARE: Final = 0.05
"""If more than one request in twenty waits where it is stuck, a P95 is that of those."""
STEP_RATIO: Final = 1.5
"""One look at a latency or a level can say "more", not "how much more": half as many again at most."""
PREDICTED_UTILISATION_LIMIT: Final = 0.98
"""Where the queueing formula diverges: no fewer replicas than keep requests in flight below this share of the slots."""


class Need(NamedTuple):
    """Replicas that one signal asks for at one tick; None = no vote."""

    up: int | None
    down: int | None


class Growth(NamedTuple):
    """Requests that come in a second beyond those that are served, and how many more in flight they will make."""

    per_s: float
    served_per_s: float
    further: float


NO_GROWTH: Final = Growth(0.0, 0.0, 0.0)
NO_VOTE: Final = Need(None, None)
NO_NEED: Final = Need(0, 0)


class Assessment(NamedTuple):
    """One signal's newest value and what it asks for.

    ``note`` says why there is no vote up, where there is none, and what counts besides the value, where something does.
    """

    value: Reading
    need: Need
    note: str = ""


@dataclass(frozen=True, slots=True)
class LatencyFloor:
    """The replicas that an increase for latency went to, and the requests in flight that it was for."""

    replicas: int
    in_flight: float


class LatencyContext(NamedTuple):
    """What a latency needs to know beside the newest observation.

    Args:
        base_s: The smallest with an empty queue and few running: what more replicas cannot mend.
        fewest_serving: The smallest serving count in the rate window (m0), so that a step whose replicas have just
            started is not taken again for latencies from before.
        drain_s: When the queue that the latencies stem from will be gone, in seconds; None = it is not shrinking.
        floor: What latency asked for last, or None.
        futile: Whether earlier increases for it did not lower it.
    """

    base_s: float = 0.0
    fewest_serving: int | None = None
    drain_s: float | None = None
    floor: LatencyFloor | None = None
    futile: bool = False


def in_flight(observation: Observation) -> Reading:
    """Return x = running + waiting, in requests; missing when either is."""
    if isinstance(observation.running, Absent) or isinstance(observation.waiting, Absent):
        return Absent.MISSING
    return observation.running + observation.waiting


def saturation(
    policy: PoolPolicy, signal: SignalPolicy, observation: Observation, coming: Growth = NO_GROWTH
) -> Assessment:
    """Assess requests in flight against the pool's slots, those included that are on their way.

    Worked: 41 in flight, 4 slots, U 1.0, D 0.8, z 2: up = ceil(41 / 4) = 11; down = ceil(max(41 / 3.2, (41 + 2 x 6.4)
    / 4)) = ceil(max(12.81, 13.45)) = 14.
    """
    x = in_flight(observation)
    if isinstance(x, Absent):
        return Assessment(x, NO_VOTE, "requests running or waiting are missing")
    up = saturation_up_need(policy, signal, x + coming.further)
    note = ""
    if coming.further > 0:
        note = (
            f"{format_number(coming.per_s)} requests/s come beyond the {format_number(coming.served_per_s)} that are"
            f" served: {format_number(math.ceil(coming.further))} more in flight are on their way"
        )
    return Assessment(x, Need(up, max(up, saturation_down_need(policy, signal, x))), note)


def saturation_up_need(policy: PoolPolicy, signal: SignalPolicy, x: float) -> int:
    """Return the replicas below which ``x`` requests in flight wait for one another; see ``saturation``."""
    return ceil_replicas(x / (signal.scale_up * policy.slots_per_replica))


def saturation_down_need(policy: PoolPolicy, signal: SignalPolicy, x: float) -> int:
    """Return the replicas that ``x`` requests in flight can be left with; see ``saturation``."""
    slots = policy.slots_per_replica
    noisy = x + policy.scale_down_noise * math.sqrt(x)
    return ceil_replicas(max(x / (signal.scale_down * slots), noisy / (signal.scale_up * slots)))


def certain_saturation_need(policy: PoolPolicy, signal: SignalPolicy, x: float) -> int:
    """Return the replicas that ``x`` requests in flight need even if as many of them as noise explains are left out.

    Worked: 80 in flight, 16 slots, U 0.9: ceil((80 - 3 x 8.94) / 14.4) = ceil(3.69) = 4, where 80 / 14.4 asks for 6.
    """
    sure = x - CERTAIN_DEVIATIONS * math.sqrt(x)
    return saturation_up_need(policy, signal, sure)


def saturation_release_threshold(policy: PoolPolicy, signal: SignalPolicy, replicas: int) -> float:
    """Return the most requests in flight that one replica fewer may be left with.

    It inverts the saturation's down-need. Worked: 14 replicas of 4 slots with the defaults: D gives 0.8 x 4 x 13 =
    41.6, the noise x + 2 sqrt(x) <= 52 gives 39.44, so 39.44.
    """
    left = max(0, replicas - 1) * policy.slots_per_replica
    half = policy.scale_down_noise / 2
    root = math.sqrt(half * half + signal.scale_up * left) - half
    return min(signal.scale_down * left, root * root)


def kv_cache(signal: SignalPolicy, observation: Observation, coming: Growth = NO_GROWTH) -> Assessment:
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
        used *= _hidden_demand(observation, coming)
    return Assessment(mean, Need(ceil_replicas(used / signal.scale_up), ceil_replicas(used / signal.scale_down)))


def _hidden_demand(observation: Observation, coming: Growth) -> float:
    """Return how many times the running requests are in flight or on their way; 1 where unknown.

    Worked: 12 running, 6 waiting: 1.5; with 6 more that come: 2.
    """
    running, waiting = observation.running, observation.waiting
    if isinstance(running, Absent) or isinstance(waiting, Absent):
        return 1.0
    return max(1.0, (running + waiting + coming.further) / max(running, 1.0))


def capacity(signal: SignalPolicy, value: Reading) -> Assessment:
    """Assess a total of the pool against what one replica carries.

    Worked: 9,000 prompt tokens/s, 2,000 a replica, released at 1,600: up = ceil(4.5) = 5, down = ceil(5.63) = 6.
    """
    if value is Absent.NO_TRAFFIC:
        return Assessment(value, NO_NEED)
    if isinstance(value, Absent):
        return Assessment(value, NO_VOTE, f"{signal.name} is missing")
    return Assessment(value, Need(ceil_replicas(value / signal.scale_up), ceil_replicas(value / signal.scale_down)))


def intensity(signal: SignalPolicy, observation: Observation, reading: Extra, fewest_serving: int | None) -> Assessment:
    """Assess a level that more replicas lower; it asks for more only while its support suffices.

    Worked: 0.3 preemptions/s, threshold 0.2, 4 replicas: up = ceil(4 x 1.5) = 6; while above the release level, down =
    the replicas that serve, or up.
    """
    serving, value, support = observation.serving, reading.value, reading.support
    if value is Absent.NO_TRAFFIC:
        return Assessment(value, NO_NEED)
    if isinstance(value, Absent):
        return Assessment(value, NO_VOTE, f"{signal.name} is missing")
    if isinstance(serving, Absent) or serving < 1:
        return Assessment(value, NO_VOTE, "no replica reports metrics")
    up, note = 0, ""
    if value > signal.scale_up:
        if signal.min_support and (isinstance(support, Absent) or support < signal.min_support):
            seen = "unknown" if isinstance(support, Absent) else format_number(support)
            needed = format_number(signal.min_support)
            note = f"{signal.name} alone is no reason: its support is {seen}, and {needed} is needed"
        else:
            fewest = int(serving) if fewest_serving is None else fewest_serving
            up = ceil_replicas(fewest * min(STEP_RATIO, value / signal.scale_up))
    down = int(serving) if value > signal.scale_down else 0
    return Assessment(value, Need(up, max(up, down)), note)


def latency(
    policy: PoolPolicy,
    signal: SignalPolicy,
    observation: Observation,
    reading: Extra,
    context: LatencyContext,
) -> Assessment:
    """Assess a P95 against its objective, gated by work: a quantile lingers after the load has gone.

    Args:
        policy: The pool.
        signal: The latency and its objective.
        observation: The load behind it.
        reading: The P95, seconds, and the samples behind it.
        context: What the past adds.

    Worked: T 4 s, SLO 2.5 s, base 0.5 s, 4 replicas: r = 3.5 / 2 = 1.75, up = ceil(4 x 1.5) = 6.
    """
    value, support = reading.value, reading.support
    if value is Absent.NO_TRAFFIC:
        return Assessment(value, NO_NEED)
    serving, x = observation.serving, in_flight(observation)
    if isinstance(value, Absent):
        return Assessment(value, NO_VOTE, f"{signal.name} is missing")
    if isinstance(serving, Absent) or serving < 1:
        return Assessment(value, NO_VOTE, "no replica reports metrics")
    floor = _floor(context, x)
    room = signal.scale_up - context.base_s
    if room <= 0:
        note = (
            f"{signal.name} is {format_duration(context.base_s)} even in a quiet pool, the objective"
            f" {format_duration(signal.scale_up)}: more replicas cannot mend that"
        )
        return Assessment(value, Need(0, floor), note)
    ratio = max(0.0, (value - context.base_s) / room)
    replicas = int(serving)
    note = _latency_gate(policy, signal, observation, support, context) if ratio > 1 else ""
    up = 0
    if ratio > 1 and not note:
        fewest = replicas if context.fewest_serving is None else context.fewest_serving
        up = min(ceil_replicas(fewest * min(STEP_RATIO, ratio)), _latency_limit(policy, x, fewest))
    if isinstance(x, Absent):
        return Assessment(value, Need(up, None), note)
    down = max(up, floor, _latency_down_need(policy, signal, ratio=ratio, value_s=value, x=x, serving=replicas))
    return Assessment(value, Need(up, down), note)


def _latency_limit(policy: PoolPolicy, x: Reading, fewest: int) -> int:
    """Return the most replicas that a latency may ask for.

    Requests that wait are counted by the saturation already. So a latency asks for no more than the saturation would
    let the pool keep, and else for steps that can each be judged: a quarter more, one at least.

    Worked: 41 in flight keep 14 replicas of 4 slots; with 8 serving the limit is 14, with 20 it is 25.
    """
    step = fewest + max(1, fewest // LATENCY_STEPS)
    if isinstance(x, Absent):
        return step
    return max(step, saturation_down_need(policy, policy.signals[0], x))


def _floor(context: LatencyContext, x: Reading) -> int:
    """Return what latency asked for before, while the load is still about the one it was for; else 0."""
    floor = context.floor
    if floor is None or (not isinstance(x, Absent) and x < FLOOR_LOAD_RATIO * floor.in_flight):
        return 0
    return floor.replicas


def _latency_gate(
    policy: PoolPolicy, signal: SignalPolicy, observation: Observation, support: Reading, context: LatencyContext
) -> str:
    """Return why a latency above its objective does not ask for replicas, or "" if it does."""
    name = signal.name
    if isinstance(support, Absent) or support < signal.min_support:
        seen = "unknown" if isinstance(support, Absent) else format_number(support)
        return f"too few samples in the window to judge {name}: {seen} of {format_number(signal.min_support)}"
    running, waiting, serving = observation.running, observation.waiting, observation.serving
    if isinstance(running, Absent) or isinstance(waiting, Absent) or isinstance(serving, Absent):
        return f"the load behind {name} is unknown"
    slots = policy.slots_per_replica * serving
    is_idle = running + waiting <= slots and running < policy.latency_min_saturation * slots
    if is_idle and waiting <= 0:
        return f"{name} is of requests that are gone: nothing waits and few run"
    stranded = wedges.stranded(observation.replicas, policy.slots_per_replica)
    # Requests that wait are in every latency but the one between tokens.
    is_stuck = stranded > STRANDED_SHARE * support and name != SignalName.ITL_P95
    if is_stuck or (is_idle and wedges.has_room(observation, policy.slots_per_replica)):
        return f"{name} is of a queue that other replicas have room for: more replicas cannot mend routing"
    if context.drain_s is not None and context.drain_s <= policy.drain_horizon_s:
        when = f"will be gone in about {format_duration(math.ceil(context.drain_s))}" if waiting > 0 else "is gone"
        return f"the queue behind {name} {when}"
    return f"two increases did not lower {name} by a tenth, so it asks for no more" if context.futile else ""


def _latency_down_need(
    policy: PoolPolicy, signal: SignalPolicy, *, ratio: float, value_s: float, x: float, serving: int
) -> int:
    """Return the fewest replicas at which a latency is predicted to keep well within its objective.

    The waiting part of a latency grows as g = q / (1 - q), q the share of slots in use: r' = r g' / g. The base may
    hold some waiting too, if the pool was never quiet. Even if all of T were waiting, T' = T g' / g must leave half of
    the room to the objective.

    Worked: SLO 2.5 s, T 0.25 s, r 0.1, 8 in flight on 4 replicas of 4 slots, so q 0.5, g 1: r' <= 0.6 allows g' = 6,
    T' <= 1.375 s allows g' = 5.5, so q' = 0.846 and 8 / (4 x 0.846) = 2.36: 3 replicas.
    """
    if x <= 0:
        return 0
    q = x / (policy.slots_per_replica * serving)
    if ratio > signal.scale_down or q >= PREDICTED_UTILISATION_LIMIT:
        return serving
    g = q / (1 - q)
    by_ratio = g * signal.scale_down / ratio if ratio > 0 else math.inf
    by_value = g * (value_s + signal.scale_up) / (2 * value_s) if value_s > 0 else math.inf
    allowed = min(by_ratio, by_value)
    highest = PREDICTED_UTILISATION_LIMIT
    if allowed < math.inf:
        highest = min(highest, allowed / (1 + allowed))
    return min(serving, max(1, ceil_replicas(x / (policy.slots_per_replica * highest))))
