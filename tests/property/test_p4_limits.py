"""P4: bounds and steps always hold."""

import math

from hypothesis import given

from scaler.model import Observation, PoolPolicy
from tests.property.strategies import fold, pasts, policies


@given(policies(), pasts())
def test_every_target_keeps_bounds_and_steps(pool: PoolPolicy, past: list[Observation]) -> None:
    last: int | None = None
    for decision in fold(pool, past)[1]:
        target, before = decision.target, decision.from_replicas
        if target is None or before is None:
            continue
        assert pool.min_replicas <= target <= pool.max_replicas
        # An increase that is on its way is what the next one starts from.
        base = max(before, last or 0)
        highest = max(base + max(pool.max_step_up, base), pool.min_replicas)
        assert target <= highest
        lowest = max(before - max(pool.max_step_down, before // 5), math.ceil(before / 2))
        assert target >= min(lowest, pool.max_replicas) or target == last
        assert decision.reported_value == target
        last = target
