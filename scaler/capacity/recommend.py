"""From a capacity to a trigger: slots per replica by Little's law, thresholds, and what a token costs."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

import yaml

from scaler.capacity.slo import DEFAULT_ATTAINMENT, Slo
from scaler.capacity.sweep import Capacity
from scaler.model import SignalName
from scaler.policy.buckets import LATENCY_BOUNDS_S
from scaler.units import floor_replicas, format_duration, format_number

KV_CACHE_SCALE_UP: Final = 0.9
"""The law's default: a cache this full is at its limit."""
_SCALE_DOWN: Final = 0.8
"""As the default scaleDownSaturation relates to a scaleUpSaturation of 1."""
_LEAST_SATURATION: Final = 0.05
"""The smallest saturation that a trigger takes."""
_MEASURED_MOST: Final = 0.9
"""A rate of tokens cannot rise above what a replica can do, so a threshold stays below the most that was seen."""
_FEW: Final = 4
"""Below this, rounding down costs a quarter of the capacity or more."""
_TTFT_RANGE_S: Final = (0.01, 3600.0)
"""What a trigger takes."""
_SECONDS_PER_HOUR: Final = 3600
_MILLION: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class Server:
    """How one replica runs, as far as it is known; and what it costs."""

    max_num_seqs: int | None = None
    """vLLM's --max-num-seqs, of each engine."""
    engines: int = 1
    """Data-parallel engines in a replica."""
    kv_cache_tokens: int | None = None
    """Tokens that fit into the replica's KV caches."""
    hourly_cost: float | None = None

    def __post_init__(self) -> None:
        given = (self.max_num_seqs, self.engines, self.kv_cache_tokens, self.hourly_cost)
        if any(value is not None and not 0 < value < math.inf for value in given):
            raise ValueError(f"sizes and costs of a replica are above 0: {self}")


@dataclass(frozen=True, slots=True)
class Cost:
    """What a million tokens cost at the capacity, in the currency of the hourly cost."""

    output: float
    all: float
    """Prompt and output tokens together."""


@dataclass(frozen=True, slots=True)
class Advice:
    """Settings for one pool, and the reasons."""

    in_flight: float
    """By Little's law."""
    slots: int
    kv_usage_ratio: float | None
    """Of one replica at its capacity; None when its KV cache is not known."""
    ttft_p95_s: float | None
    prompt_tokens_per_s: float
    """Per replica at its capacity, and at most nine tenths of what any run reached."""
    generation_tokens_per_s: float
    cost: Cost | None
    settings: Mapping[str, str]
    """Keys and values for the trigger's metadata."""
    notes: tuple[str, ...]


def recommend(
    capacity: Capacity, slo: Slo, *, server: Server, most_tokens_per_s: tuple[float, float] = (math.inf, math.inf)
) -> Advice | None:
    """Turn a capacity into settings.

    Little's law: requests in flight = rate x mean time in the system. Worked: 4 requests/s that stay 5.2 s on average
    are 20.8 in flight, so 20 slots.

    Args:
        capacity: What a replica carries.
        slo: What it was held to.
        server: How the replica runs.
        most_tokens_per_s: Highest rates of prompt and output tokens that were measured.

    Returns:
        The settings; None when the results hold no time in the system.
    """
    in_flight = capacity.level.in_flight
    if in_flight is None:
        return None
    notes: list[str] = []
    slots, usage = _slots(in_flight, capacity.tokens_in_flight, server, notes)
    settings = {"slotsPerReplica": str(slots)} | _saturation(in_flight, slots, notes)
    ttft = _ttft(capacity, slo, notes)
    settings["ttftP95Seconds"] = "off" if ttft is None else f"{ttft:g}"
    if usage is not None:
        settings["kvCacheScaleUp"] = f"{KV_CACHE_SCALE_UP:g}"
    if server.hourly_cost is not None:
        settings["replicaHourlyCost"] = f"{server.hourly_cost:g}"
    prompt, output = (capacity.level.rate * capacity.per_request(kind) for kind in ("prompt", "output"))
    return Advice(
        in_flight=in_flight,
        slots=slots,
        kv_usage_ratio=usage,
        ttft_p95_s=ttft,
        prompt_tokens_per_s=min(prompt, _MEASURED_MOST * most_tokens_per_s[0]),
        generation_tokens_per_s=min(output, _MEASURED_MOST * most_tokens_per_s[1]),
        cost=_cost(server.hourly_cost, prompt, output),
        settings=settings,
        notes=tuple(notes),
    )


def _slots(in_flight: float, tokens: float | None, server: Server, notes: list[str]) -> tuple[int, float | None]:
    """Return the slots, within what the replica can hold, and its KV-cache usage with the measured load."""
    slots = floor_replicas(in_flight)
    if server.max_num_seqs is not None and slots > (most := server.max_num_seqs * server.engines):
        slots = most
        notes.append(
            f"{format_number(in_flight)} are in flight and only {most} run at once (--max-num-seqs), so requests wait"
            " within the SLO; slots beyond what runs would let every burst queue"
        )
    if tokens is None or server.kv_cache_tokens is None:
        notes.append(
            "whether the KV cache holds the slots is not checked: give --kv-cache-tokens, and detailed results"
        )
        return max(1, slots), None
    fits = floor_replicas(KV_CACHE_SCALE_UP * server.kv_cache_tokens / tokens)
    if slots > fits:
        slots = fits
        notes.append(
            f"nine tenths of the KV cache hold {fits} requests of {format_number(tokens)} tokens; more would be"
            " preempted when they are at their longest together"
        )
    return max(1, slots), in_flight * tokens / server.kv_cache_tokens


def _saturation(in_flight: float, slots: int, notes: list[str]) -> dict[str, str]:
    """Return saturations where slots alone cannot say how little a replica carries."""
    if in_flight >= 1:
        if slots < _FEW and slots < in_flight:
            notes.append(
                f"{format_number(in_flight)} requests in flight become {slots} slot(s), since slots are whole; the pool"
                " will be larger than it has to be"
            )
        return {}
    up = math.floor(in_flight * 100) / 100
    if up * _SCALE_DOWN < _LEAST_SATURATION:
        notes.append(
            f"{format_number(in_flight)} requests in flight are too few to steer by: requests end before they are seen."
            " Let generationTokensPerSecondPerReplica, below, be the signal, or take longer requests"
        )
        return {}
    notes.append(
        f"less than one request is in flight on average, so the one slot counts as full at {up:g} (scaleUpSaturation)"
    )
    return {"scaleUpSaturation": f"{up:g}", "scaleDownSaturation": f"{math.floor(up * _SCALE_DOWN * 100) / 100:g}"}


def _ttft(capacity: Capacity, slo: Slo, notes: list[str]) -> float | None:
    """Return the SLO's TTFT on a bound of vLLM's histogram: the next lower one if the replica keeps to that too."""
    if slo.ttft_s is None:
        notes.append("the SLO has no TTFT, so that signal is off")
        return None
    if slo.attainment != DEFAULT_ATTAINMENT:
        notes.append(
            f"the scaler watches the P95 of TTFT, and the SLO wants {100 * slo.attainment:g} %: the slots were measured"
            " with the SLO, the TTFT threshold is only its bound"
        )
    bounds = sorted(bound for bound in LATENCY_BOUNDS_S[SignalName.TTFT_P95] if bound <= _TTFT_RANGE_S[1])
    usable = [bound for bound in bounds if bound >= _TTFT_RANGE_S[0]]
    if slo.ttft_s in usable:
        return slo.ttft_s
    seen = max((run.ttft.p95 for run in capacity.level.runs if run.ttft.p95 is not None), default=math.inf)
    lower = max((bound for bound in usable if seen <= bound < slo.ttft_s), default=None)
    chosen = lower or min((bound for bound in usable if bound > slo.ttft_s), default=usable[-1])
    notes.append(
        f"{format_duration(slo.ttft_s)} is no bound of vLLM's TTFT histogram, so the threshold is"
        f" {format_duration(chosen)}, the next {'lower' if lower else 'higher'} one"
        + ("" if lower else f" (a lower one would be above the SLO's own P95 of {format_duration(seen)})")
    )
    return chosen


def _cost(hourly: float | None, prompt_per_s: float, output_per_s: float) -> Cost | None:
    """Return the cost of a million tokens. Worked: 2.50 an hour at 256 output tokens/s are 2.71 a million."""
    if hourly is None or not output_per_s:
        return None
    per_token = hourly / _SECONDS_PER_HOUR * _MILLION
    return Cost(per_token / output_per_s, per_token / (prompt_per_s + output_per_s))


def snippet(advice: Advice, *, deployment: str, model: str, scaler_address: str) -> str:
    """Return the trigger for a ScaledObject as YAML; what most pools do without is there as a comment."""
    names = {"scalerAddress": scaler_address, "deployment": deployment} | ({"modelName": model} if model else {})
    trigger = {"type": "external", "metricType": "AverageValue", "metadata": names | dict(advice.settings)}
    text: str = yaml.safe_dump([trigger], sort_keys=False, allow_unicode=True, width=1000)
    return text + "".join(f"    # {line}\n" for line in _comments(advice))


def _comments(advice: Advice) -> Iterator[str]:
    yield "Guards that most pools do without; each must also agree before the pool scales down:"
    for key, rate in (
        ("promptTokensPerSecondPerReplica", advice.prompt_tokens_per_s),
        ("generationTokensPerSecondPerReplica", advice.generation_tokens_per_s),
    ):
        if rate >= 1:
            yield f'{key}: "{math.floor(rate)}"'
