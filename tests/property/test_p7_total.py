"""P7: no input raises, NaN, infinities and negatives included; what comes out is always publishable."""

import math

from hypothesis import given
from hypothesis import strategies as st

from scaler.model import Absent, Observation, PoolPolicy, ReplicaLoad
from scaler.policy.decide import advance
from scaler.policy.history import History
from tests.property.strategies import policies

anything = st.one_of(st.floats(allow_nan=True, allow_infinity=True), st.sampled_from(list(Absent)))

# The reader takes no replica whose load is not finite.
loads = st.tuples(*[st.floats(0, allow_nan=False, allow_infinity=False)] * 2, anything)


@st.composite
def hostile(draw: st.DrawFn) -> list[Observation]:
    ticks = sorted(draw(st.sets(st.integers(0, 10**6), max_size=10)))
    return [
        Observation(
            at=float(tick),
            running=draw(anything),
            waiting=draw(anything),
            kv_usage_ratios=draw(
                st.one_of(st.just(Absent.MISSING), st.lists(st.floats(allow_nan=True), max_size=5).map(tuple))
            ),
            ttft_p95_s=draw(anything),
            ttft_samples=draw(anything),
            preemptions=draw(anything),
            serving=draw(anything),
            requested=draw(anything),
            ready=draw(anything),
            outdated=draw(anything),
            newest_sample_age_s=draw(anything),
            replicas=tuple(
                ReplicaLoad(f"vllm-{index}", running, waiting, pace)
                for index, (running, waiting, pace) in enumerate(draw(st.lists(loads, max_size=4)))
            ),
        )
        for tick in ticks
    ]


@given(policies(), hostile())
def test_whatever_is_seen_a_publishable_decision_comes_out(pool: PoolPolicy, past: list[Observation]) -> None:
    history = History()
    for seen in past:
        history, decision = advance(pool, history, seen)
        assert decision.reasons
        assert all(reason.text for reason in decision.reasons)
        if decision.target is not None:
            assert decision.reported_value is not None
            assert math.isfinite(decision.reported_value)
            assert pool.min_replicas <= decision.target <= pool.max_replicas
