"""P6: replaying the history gives the same decisions as having lived it, also from a cut-off beginning."""

from hypothesis import given

from scaler.model import Observation, PoolPolicy
from tests.builders import observation
from tests.property.strategies import fold, pasts, policies


@given(policies(), pasts())
def test_the_same_observations_give_the_same_decisions(pool: PoolPolicy, past: list[Observation]) -> None:
    assert fold(pool, past) == fold(pool, list(past))


@given(policies(scale_up_cooldown_s=30.0, scale_down_cooldown_s=60.0))
def test_a_late_starter_agrees_once_its_windows_are_full(pool: PoolPolicy) -> None:
    # A day in short: calm, a rush, calm again; who joined later must come to publish the same.
    loads = [20.0] * 40 + [90.0] * 40 + [20.0] * 80
    seen = [observation(tick, load, 12, slots=pool.slots_per_replica) for tick, load in enumerate(loads)]
    lived = fold(pool, seen)[1]
    joined = fold(pool, seen[60:])[1]
    assert [decision.target for decision in lived[-20:]] == [decision.target for decision in joined[-20:]]
