"""P5: the order of replicas changes nothing."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from scaler.model import Observation, PoolPolicy
from scaler.policy.decide import advance
from tests.property.strategies import fold, observations, pasts, policies


@given(policies(), pasts(), st.data(), st.permutations([0.1, 0.4, 0.4, 0.92, 0.97]))
def test_replicas_may_come_in_any_order(
    pool: PoolPolicy, past: list[Observation], data: st.DataObject, shuffled: list[float]
) -> None:
    history, _ = fold(pool, past)
    seen = data.draw(observations(len(past)))
    in_order = replace(seen, kv_usage_ratios=tuple(sorted(shuffled)))
    out_of_order = replace(seen, kv_usage_ratios=tuple(shuffled))
    assert advance(pool, history, in_order) == advance(pool, history, out_of_order)
