"""Policies and observations for tests: sensible ones, with what matters to the test given by name."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from scaler.model import (
    Decision,
    Observation,
    PoolLocator,
    PoolPolicy,
    ReplicaLoad,
    SignalForm,
    SignalName,
    SignalPolicy,
    SignalWindows,
    Workload,
    WorkloadKind,
)
from scaler.policy.decide import advance
from scaler.policy.history import History

TICK_S = 15.0
LOCATOR = PoolLocator("serving", "llama", Workload(WorkloadKind.DEPLOYMENT, "vllm"))
DEFAULT_WINDOWS = SignalWindows(scale_up=4, scale_down=20)
SATURATION = SignalPolicy(SignalName.SATURATION, SignalForm.SATURATION, 1.0, 0.8, DEFAULT_WINDOWS, "requests")
KV_CACHE = SignalPolicy(SignalName.KV_CACHE, SignalForm.KV_CACHE, 0.9, 0.7, DEFAULT_WINDOWS, "ratio")
TTFT = SignalPolicy(SignalName.TTFT_P95, SignalForm.LATENCY, 2.5, 0.6, DEFAULT_WINDOWS, "seconds", 20)
POLICY = PoolPolicy(
    locator=LOCATOR,
    tick_s=TICK_S,
    slots_per_replica=4,
    signals=(SATURATION, KV_CACHE, TTFT),
    scale_down_noise=2.0,
    latency_min_saturation=0.5,
    drain_horizon_s=60.0,
    scale_up_cooldown_s=30.0,
    scale_down_cooldown_s=60.0,
    max_step_up=4,
    max_step_down=1,
    min_replicas=1,
    max_replicas=100,
    hpa_tolerance=0.0,
)


def policy(
    *, up_windows: int = 4, down_windows: int = 20, signals: tuple[SignalPolicy, ...] = POLICY.signals, **changes: Any
) -> PoolPolicy:
    """The default policy with changes; the windows are those of every signal."""
    windows = SignalWindows(up_windows, down_windows)
    return replace(POLICY, signals=tuple(replace(signal, windows=windows) for signal in signals), **changes)


def observation(tick: int, load: float, replicas: int, /, *, slots: int = 4, **changes: Any) -> Observation:
    """A healthy pool at tick number ``tick``: ``load`` requests in flight on ``replicas`` that all serve."""
    running = min(load, float(slots * replicas))
    healthy = Observation(
        at=tick * TICK_S,
        running=running,
        waiting=load - running,
        kv_usage_ratios=(0.1 if load else 0.0,) * replicas,
        ttft_p95_s=0.3,
        ttft_samples=100.0,
        generation_tokens_per_s=500.0,
        preemptions=0.0,
        serving=float(replicas),
        requested=float(replicas),
        ready=float(replicas),
        outdated=0.0,
        newest_sample_age_s=5.0,
    )
    return replace(healthy, **changes)


def loads(*in_flight: tuple[float, float], pace: float = 100.0) -> tuple[ReplicaLoad, ...]:
    """Replicas that run and wait for so many requests each."""
    return tuple(ReplicaLoad(f"vllm-{index}", r, q, pace) for index, (r, q) in enumerate(in_flight))


def run(pool: PoolPolicy, observations: Iterable[Observation], history: History | None = None) -> list[Decision]:
    """Every decision of a pool that saw these observations one after the other."""
    past, decisions = history or History(), []
    for seen in observations:
        past, decision = advance(pool, past, seen)
        decisions.append(decision)
    return decisions


def drive(pool: PoolPolicy, loads: Iterable[float], *, replicas: int, lag: int = 1, start: int = 0) -> list[Decision]:
    """Decisions in a closed loop: the workload follows the target ``lag`` ticks later and serves at once."""
    history, decisions = History(), []
    queue = [replicas] * lag
    for tick, load in enumerate(loads, start):
        requested = queue.pop(0)
        history, decision = advance(pool, history, observation(tick, load, requested, slots=pool.slots_per_replica))
        decisions.append(decision)
        queue.append(requested if decision.target is None else decision.target)
    return decisions


def targets(decisions: Iterable[Decision]) -> list[int | None]:
    """The targets alone."""
    return [decision.target for decision in decisions]
