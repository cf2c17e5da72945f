"""P9: pending replicas delay but never compound: a scale-up that is still starting is not repeated."""

from hypothesis import given
from hypothesis import strategies as st

from scaler.model import PoolPolicy
from tests.property.strategies import ConstantLoad, constant_loads, live_with, policies


@given(policies(), constant_loads(), st.integers(1, 10), st.integers(1, 40))
def test_slow_starts_end_where_quick_ones_do(
    pool: PoolPolicy, load: ConstantLoad, replicas: int, start_lag: int
) -> None:
    quick = live_with(pool, load, replicas=replicas, ticks=200)
    slow = live_with(pool, load, replicas=replicas, ticks=200, start_lag=start_lag)
    highest_quick = max(decision.target or 0 for decision in quick)
    highest_slow = max(decision.target or 0 for decision in slow)
    assert highest_slow <= highest_quick
