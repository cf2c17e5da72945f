"""P1: under constant load nothing changes once the windows have filled, and the direction never reverses."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from scaler.model import PoolPolicy
from tests.property.strategies import ConstantLoad, constant_loads, live_with, policies


@given(policies(), constant_loads(), st.integers(1, 40), st.integers(1, 3), st.integers(0, 8))
def test_constant_load_is_reached_in_one_direction_and_kept(
    pool: PoolPolicy, load: ConstantLoad, replicas: int, hpa_lag: int, start_lag: int
) -> None:
    decisions = live_with(pool, load, replicas=replicas, ticks=160, hpa_lag=hpa_lag, start_lag=start_lag)
    counts = [decision.from_replicas or 0 for decision in decisions]
    steps = [after - before for before, after in pairwise(counts) if after != before]
    assert all(step > 0 for step in steps) or all(step < 0 for step in steps), counts
    assert len(set(counts[-30:])) == 1 or _is_still_moving(pool, counts), counts[-60:]


def _is_still_moving(pool: PoolPolicy, counts: list[int]) -> bool:
    """Eight steps of a cooldown of 5 min last as long as the run: then it must still be going down."""
    slow = pool.scale_down_cooldown_s / pool.tick_s * (counts[0] - counts[-1]) / pool.max_step_down
    return counts[-1] < counts[-30] and (slow > 40 or pool.scale_down_cooldown_s >= 300)
