"""P8: no signal's up-need exceeds its down-need, for the same observation."""

from hypothesis import given

from scaler.model import Observation, PoolPolicy
from tests.property.strategies import fold, pasts, policies


@given(policies(), pasts())
def test_up_never_exceeds_down(pool: PoolPolicy, past: list[Observation]) -> None:
    history, _ = fold(pool, past)
    for tick in history.ticks:
        for need in tick.needs:
            assert need.up is None or need.down is None or need.up <= need.down
