"""P3: missing data never lowers the target."""

from dataclasses import replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from scaler.model import Absent, Observation, PoolPolicy
from scaler.policy.decide import advance
from tests.property.strategies import fold, observations, pasts, policies

LOSABLE = ("running", "waiting", "kv_usage_ratios", "ttft_p95_s", "ttft_samples", "serving")


@given(policies(), pasts(), st.data(), st.sets(st.sampled_from(LOSABLE), min_size=1))
def test_losing_signals_never_goes_below_what_was_published(
    pool: PoolPolicy, past: list[Observation], data: st.DataObject, lost: set[str]
) -> None:
    history, _ = fold(pool, past)
    whole = data.draw(observations(len(past)))
    changes: dict[str, Any] = dict.fromkeys(lost, Absent.MISSING)
    _, with_loss = advance(pool, history, replace(whole, **changes))
    if "running" in lost or "waiting" in lost or "kv_usage_ratios" in lost or "ttft_p95_s" in lost:
        before, last = with_loss.from_replicas, history.target
        if before is not None and with_loss.target is not None:
            lowest = before if last is None else min(before, last)
            assert with_loss.target >= min(lowest, pool.max_replicas)


@given(policies(), pasts(), st.integers(1, 30))
def test_losing_everything_holds_the_last_answer(pool: PoolPolicy, past: list[Observation], ticks: int) -> None:
    history, decisions = fold(pool, past)
    last = decisions[-1].target if decisions else None
    for tick in range(len(past), len(past) + ticks):
        history, decision = advance(pool, history, Observation(at=tick * pool.tick_s))
        assert decision.target == last
