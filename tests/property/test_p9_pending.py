"""P9: pending replicas delay but never compound: a scale-up that is still starting is not repeated."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from scaler.model import PoolPolicy
from scaler.policy.decide import advance
from scaler.policy.history import History
from tests.property.strategies import ConstantLoad, constant_loads, policies


@given(policies(), constant_loads(), st.integers(1, 10), st.integers(0, 3))
def test_while_nothing_new_serves_no_target_exceeds_what_one_look_at_the_load_asks_for(
    pool: PoolPolicy, load: ConstantLoad, replicas: int, hpa_lag: int
) -> None:
    history, requested, published = History(), replicas, [replicas] * (hpa_lag + 1)
    for tick in range(40):
        seen = replace(load.seen(pool, tick, replicas, replicas), requested=float(requested))
        history, decision = advance(pool, history, seen)
        asked = max((need.up or 0 for need in history.ticks[-1].needs), default=0)
        assert decision.target is not None
        assert decision.target <= max(replicas, asked + pool.warm_replicas, pool.min_replicas)
        published.append(decision.target)
        requested = published[tick + 1]
