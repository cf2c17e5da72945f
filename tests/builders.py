"""Policies and observations for tests: sensible ones, with what matters to the test given by name."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from scaler.model import Decision, Observation, PoolLocator, PoolPolicy, SignalWindows, Workload, WorkloadKind
from scaler.policy.decide import advance
from scaler.policy.history import History

TICK_S = 15.0
LOCATOR = PoolLocator("serving", "llama", Workload(WorkloadKind.DEPLOYMENT, "vllm"))
DEFAULT_WINDOWS = SignalWindows(scale_up=4, scale_down=20)
POLICY = PoolPolicy(
    locator=LOCATOR,
    tick_s=TICK_S,
    slots_per_replica=4,
    scale_up_saturation=1.0,
    scale_down_saturation=0.8,
    scale_down_noise=2.0,
    kv_cache_scale_up=0.9,
    kv_cache_scale_down=0.7,
    ttft_p95_s=2.5,
    latency_min_saturation=0.5,
    latency_min_samples=20,
    latency_scale_down_ratio=0.6,
    drain_horizon_s=60.0,
    saturation_windows=DEFAULT_WINDOWS,
    kv_cache_windows=DEFAULT_WINDOWS,
    ttft_p95_windows=DEFAULT_WINDOWS,
    scale_up_cooldown_s=30.0,
    scale_down_cooldown_s=60.0,
    max_step_up=4,
    max_step_down=1,
    min_replicas=1,
    max_replicas=100,
)


def policy(**changes: Any) -> PoolPolicy:
    """The default policy with changes; ``up_windows``/``down_windows`` set every signal's windows."""
    windows = SignalWindows(changes.pop("up_windows", 4), changes.pop("down_windows", 20))
    return replace(POLICY, saturation_windows=windows, kv_cache_windows=windows, ttft_p95_windows=windows, **changes)


def observation(tick: int, load: float, replicas: int, *, slots: int = 4, **changes: Any) -> Observation:
    """A healthy pool at tick number ``tick``: ``load`` requests in flight on ``replicas`` that all serve."""
    running = min(load, float(slots * replicas))
    healthy = Observation(
        at=tick * TICK_S,
        running=running,
        waiting=load - running,
        kv_usage_ratios=(0.1,) * replicas,
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
