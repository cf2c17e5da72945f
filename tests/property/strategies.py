"""Generated policies, observations and closed-loop fleets for the law's properties."""

from dataclasses import dataclass, replace
from typing import Any

from hypothesis import strategies as st

from scaler.model import (
    Absent,
    Decision,
    Observation,
    PoolPolicy,
    Reading,
    ReplicaLoad,
    SignalForm,
    SignalName,
    SignalPolicy,
    SignalWindows,
)
from scaler.policy.decide import advance
from scaler.policy.history import History
from tests.builders import POLICY, TICK_S, observation


@st.composite
def windows(draw: st.DrawFn) -> SignalWindows:
    return SignalWindows(scale_up=draw(st.integers(1, 6)), scale_down=draw(st.integers(1, 12)))


@st.composite
def policies(draw: st.DrawFn, /, **fixed: Any) -> PoolPolicy:
    up_saturation = draw(st.floats(0.5, 1.5))
    kv_up = draw(st.floats(0.5, 1.0))
    minimum = draw(st.integers(1, 4))
    objective = draw(st.sampled_from([0.25, 0.5, 1.0, 2.5, 10.0]))
    forms = SignalForm
    signals = [
        SignalPolicy(
            SignalName.SATURATION,
            forms.SATURATION,
            up_saturation,
            up_saturation * draw(st.floats(0.3, 0.95)),
            draw(windows()),
            "requests",
        ),
        SignalPolicy(
            SignalName.KV_CACHE, forms.KV_CACHE, kv_up, kv_up * draw(st.floats(0.4, 0.95)), draw(windows()), "ratio"
        ),
        SignalPolicy(SignalName.TTFT_P95, forms.LATENCY, objective, 0.6, draw(windows()), "seconds", 20),
    ]
    settings: dict[str, Any] = {
        "slots_per_replica": draw(st.integers(1, 64)),
        "signals": tuple(signals[: draw(st.integers(1, 3))]) if draw(st.booleans()) else tuple(signals),
        "scale_down_noise": draw(st.floats(0.0, 3.0)),
        "scale_up_cooldown_s": draw(st.sampled_from([0.0, 15.0, 30.0, 120.0])),
        "scale_down_cooldown_s": draw(st.sampled_from([0.0, 30.0, 60.0, 300.0])),
        "max_step_up": draw(st.integers(1, 10)),
        "max_step_down": draw(st.integers(1, 10)),
        "min_replicas": minimum,
        "max_replicas": draw(st.integers(minimum, 400)),
        "warm_replicas": draw(st.sampled_from([0, 0, 0, 2])),
    }
    return replace(POLICY, **{**settings, **fixed})


def readings(highest: float) -> st.SearchStrategy[Reading]:
    return st.one_of(st.floats(0.0, highest), st.sampled_from(list(Absent)))


def counts(highest: int) -> st.SearchStrategy[Reading]:
    return st.one_of(st.integers(0, highest).map(float), st.sampled_from(list(Absent)))


ratios = st.lists(st.floats(0.0, 1.0), max_size=8).map(lambda found: tuple(sorted(found)))


@st.composite
def replica_loads(draw: st.DrawFn) -> tuple[ReplicaLoad, ...]:
    """What single replicas carry, as far as it is known: none of them, or some."""
    load = st.tuples(st.integers(0, 40), st.integers(0, 100), readings(1000.0))
    return tuple(
        ReplicaLoad(f"vllm-{index}", float(running), float(waiting), pace)
        for index, (running, waiting, pace) in enumerate(draw(st.lists(load, max_size=5)))
    )


@st.composite
def observations(draw: st.DrawFn, tick: int) -> Observation:
    """Any observation that the reader can make: each reading a number, no-traffic or missing."""
    return Observation(
        at=tick * TICK_S,
        running=draw(counts(500)),
        waiting=draw(counts(500)),
        kv_usage_ratios=draw(st.one_of(ratios, st.just(Absent.MISSING))),
        ttft_p95_s=draw(readings(100.0)),
        ttft_samples=draw(counts(1000)),
        preemptions=draw(st.one_of(st.sampled_from([0.0, 3.0]), st.just(Absent.MISSING))),
        serving=draw(counts(30)),
        requested=draw(counts(30)),
        ready=draw(counts(30)),
        outdated=draw(st.one_of(st.sampled_from([0.0, 1.0]), st.just(Absent.MISSING))),
        replicas=draw(replica_loads()),
    )


@st.composite
def pasts(draw: st.DrawFn, most_segments: int = 3) -> list[Observation]:
    """A pool's observations on consecutive ticks: a few states, each lasting from one tick to more than a window."""
    past: list[Observation] = []
    for _ in range(draw(st.integers(0, most_segments))):
        state = draw(observations(0))
        length = draw(st.integers(1, 14))
        past += [replace(state, at=tick * TICK_S) for tick in range(len(past), len(past) + length)]
    return past


def fold(pool: PoolPolicy, past: list[Observation]) -> tuple[History, list[Decision]]:
    """Live through observations: the history they leave, and the decisions they made."""
    history, decisions = History(), []
    for seen in past:
        history, decision = advance(pool, history, seen)
        decisions.append(decision)
    return history, decisions


@dataclass(frozen=True)
class ConstantLoad:
    """A load that does not change: requests in flight, KV cache in replicas, TTFT that rises with utilisation.

    A fleet with too little KV cache for the load makes the rest of it wait, as vLLM does; what waits uses none.
    """

    in_flight: float
    kv_replicas: float
    ttft_base_s: float
    ttft_slope_s: float

    def seen(self, pool: PoolPolicy, tick: int, requested: int, serving: int) -> Observation:
        served_by_kv = min(1.0, serving / self.kv_replicas) if self.kv_replicas > 0 else 1.0
        slots = float(pool.slots_per_replica * serving)
        running = min(self.in_flight * served_by_kv, slots)
        used = self.kv_replicas * running / self.in_flight if self.in_flight else self.kv_replicas
        q = min(0.98, self.in_flight / slots) if slots else 0.98
        return observation(
            tick,
            self.in_flight,
            serving,
            slots=pool.slots_per_replica,
            running=running,
            waiting=self.in_flight - running,
            kv_usage_ratios=(min(1.0, used / serving),) * serving if serving else Absent.MISSING,
            ttft_p95_s=self.ttft_base_s + self.ttft_slope_s * q / (1 - q),
            requested=float(requested),
            ready=float(serving),
        )


@st.composite
def constant_loads(draw: st.DrawFn) -> ConstantLoad:
    return ConstantLoad(
        in_flight=float(draw(st.integers(0, 600))),
        kv_replicas=draw(st.floats(0.0, 20.0)),
        ttft_base_s=draw(st.floats(0.01, 0.2)),
        ttft_slope_s=draw(st.floats(0.0, 2.0)),
    )


def live_with(
    pool: PoolPolicy, load: ConstantLoad, *, replicas: int, ticks: int, hpa_lag: int = 1, start_lag: int = 0
) -> list[Decision]:
    """Decisions in a closed loop: the workload follows ``hpa_lag`` ticks later, new replicas serve ``start_lag`` on."""
    history, decisions = History(), []
    wanted = [replicas] * hpa_lag
    requests = [replicas] * (start_lag + 1)
    for tick in range(ticks):
        requested = wanted.pop(0)
        requests = [*requests[-start_lag:], requested] if start_lag else [requested]
        serving = min(requests)
        history, decision = advance(pool, history, load.seen(pool, tick, requested, serving))
        decisions.append(decision)
        wanted.append(requested if decision.target is None else decision.target)
    return decisions
