"""P2: more load never lowers the target, whatever the past."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from scaler.model import Absent, Observation, PoolPolicy, Reading
from scaler.policy.decide import advance
from scaler.policy.needs import KV_FULL_RATIO
from tests.property.strategies import fold, observations, pasts, policies


def more(reading: Reading, by: float) -> Reading:
    return reading if isinstance(reading, Absent) else reading + by


@given(policies(), pasts(), st.data())
def test_more_load_never_lowers_the_target(pool: PoolPolicy, past: list[Observation], data: st.DataObject) -> None:
    history, _ = fold(pool, past)
    less = data.draw(observations(len(past)))
    ratios = less.kv_usage_ratios
    extra = data.draw(st.floats(0.0, 1.0))
    # A full cache that holds more requests holds smaller ones: then those that wait would need less, not more.
    is_full = not isinstance(ratios, Absent) and max(ratios, default=0.0) + extra > KV_FULL_RATIO
    loaded = replace(
        less,
        running=more(less.running, 0 if is_full else data.draw(st.integers(0, 200))),
        waiting=more(less.waiting, data.draw(st.integers(0, 200))),
        kv_usage_ratios=ratios if isinstance(ratios, Absent) else tuple(min(1.0, ratio + extra) for ratio in ratios),
    )
    _, with_less = advance(pool, history, less)
    _, with_more = advance(pool, history, loaded)
    assert with_less.target is None or (with_more.target is not None and with_more.target >= with_less.target)
