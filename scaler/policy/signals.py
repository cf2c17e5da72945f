"""From an observation to each signal's value, and from the value to what it asks for."""

from typing import NamedTuple

from scaler.model import Absent, Extra, Observation, PoolPolicy, SignalForm, SignalName, SignalPolicy
from scaler.policy import latencies, needs
from scaler.policy.history import History, Tick
from scaler.policy.latencies import LatencyMemory
from scaler.policy.needs import Assessment, Growth, LatencyContext

_MISSING = Extra(Absent.MISSING)


def reading_of(policy: PoolPolicy, signal: SignalPolicy, observation: Observation) -> Extra:
    """Return a signal's value with the evidence behind it, in the signal's unit."""
    match signal.name:
        case SignalName.SATURATION:
            return Extra(needs.in_flight(observation))
        case SignalName.TTFT_P95:
            return Extra(observation.ttft_p95_s, observation.ttft_samples)
        case SignalName.WAITING:
            return Extra(observation.waiting)
        case SignalName.GENERATION_TOKENS:
            return Extra(observation.generation_tokens_per_s)
        case SignalName.PREEMPTION_RATE:
            preemptions = observation.preemptions
            window_s = policy.locator.rate_window_s
            return Extra(preemptions if isinstance(preemptions, Absent) else preemptions / window_s)
        case _:
            return observation.extras.get(signal.name, _MISSING)


class _Recent(NamedTuple):
    """What the rate window adds to the newest observation."""

    fewest_serving: int | None
    drain_s: float | None
    is_full: bool


def assess(
    policy: PoolPolicy,
    history: History,
    observation: Observation,
    *,
    seen: Observation,
    coming: Growth,
    saturated: bool,
) -> tuple[tuple[Assessment, ...], tuple[LatencyMemory, ...]]:
    """Assess every signal of a pool.

    Args:
        policy: The pool.
        history: Its past, with ``remember.with_observation`` done for this observation.
        observation: What counts of what is seen now: each replica's queue is already cut to its slots.
        seen: What is seen now.
        coming: What is on its way besides.
        saturated: Whether the saturation asked for more replicas at the tick before.

    Returns:
        The assessments in the order of the policy's signals, and what is remembered of the latencies, trials judged.
    """
    recent = _recent(policy, history, seen)
    memories = tuple(
        latencies.judged(
            latencies.memory_of(history.latencies, signal.name),
            reading_of(policy, signal, observation).value,
            objective_s=signal.scale_up,
            fewest_serving=recent.fewest_serving if recent.is_full else None,
            saturated=saturated,
        )
        for signal in policy.signals
        if signal.form is SignalForm.LATENCY
    )
    assessments = tuple(
        _assessment(
            policy, history, observation=observation, coming=coming, signal=signal, recent=recent, memories=memories
        )
        for signal in policy.signals
    )
    return assessments, memories


def _assessment(
    policy: PoolPolicy,
    history: History,
    *,
    observation: Observation,
    coming: Growth,
    signal: SignalPolicy,
    recent: _Recent,
    memories: tuple[LatencyMemory, ...],
) -> Assessment:
    if signal.form is SignalForm.SATURATION:
        return needs.saturation(policy, signal, observation, coming)
    if signal.form is SignalForm.KV_CACHE:
        return needs.kv_cache(signal, observation, coming)
    reading = reading_of(policy, signal, observation)
    if signal.form is SignalForm.CAPACITY:
        return needs.capacity(signal, reading.value)
    if signal.form is SignalForm.INTENSITY:
        return needs.intensity(signal, observation, reading, recent.fewest_serving)
    memory = latencies.memory_of(memories, signal.name)
    context = LatencyContext(
        base_s=memory.base_s,
        fewest_serving=recent.fewest_serving,
        drain_s=recent.drain_s,
        floor=history.latency_floor,
        futile=memory.futile,
    )
    return needs.latency(policy, signal, observation, reading, context)


def _recent(policy: PoolPolicy, history: History, observation: Observation) -> _Recent:
    ticks = list(history.within(observation.at, policy.locator.rate_window_s))
    serving = [tick.serving for tick in ticks if not isinstance(tick.serving, Absent)]
    if not isinstance(observation.serving, Absent):
        serving.append(observation.serving)
    return _Recent(
        fewest_serving=int(min(serving)) if serving else None,
        drain_s=_drain_s(ticks, observation),
        is_full=(len(ticks) + 1) * policy.tick_s >= policy.locator.rate_window_s,
    )


def _drain_s(recent: list[Tick], observation: Observation) -> float | None:
    """Return when the queue will be gone at the pace since its peak in the rate window; None = it is not shrinking.

    Worked: 20 waiting 8 s ago, 16 now: 16 x 8 / 4 = 32 s.
    """
    now = observation.waiting
    queues = [(tick.waiting, tick.at) for tick in recent if not isinstance(tick.waiting, Absent)]
    if isinstance(now, Absent) or not queues:
        return None
    peak, peak_at = max(queues)
    if now >= peak or now > queues[0][0]:
        return None
    return now * (observation.at - peak_at) / (peak - now)
