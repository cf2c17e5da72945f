"""The bounds: a count that stays, and a law that knows what comes."""

import pytest

from scaler.sim.engine import EngineSpec
from scaler.sim.request import Request
from scaler.sim.rivals.bounds import Demand, Fixed, Oracle, demand
from tests.laws import Scene, busy, play, show, without_metrics

# With 4 sequences a step takes 100 ms.
ENGINE = EngineSpec(
    slots=4, kv_capacity_tokens=10_000, step_s=0.08, step_per_sequence_s=0.005, prefill_tokens_per_s=1000.0
)


def test_a_fixed_count_looks_at_nothing() -> None:
    assert Fixed(7).answer(without_metrics(show(Scene(0, None, "", busy(2, waiting=99))))) == (7.0,)


def test_the_demand_is_requests_at_work_over_slots() -> None:
    # 100 ms of prefill and 99 x 100 ms of answer: 10 s each, eight at a time.
    requests = [Request(second + 0.25 * part, 100, 99) for second in range(0, 40, 10) for part in range(8)]
    needed = demand(requests, ENGINE, 50)
    assert needed.replicas[8] == 2.0
    assert 2.0 < needed.replicas[4] < 2.2
    assert needed.mean == pytest.approx((2.0 * 44 + 3.2) / 51, rel=0.05)
    assert needed.replicas[50] == 0.0


def test_a_cache_that_is_full_counts_in_place_of_the_slots_and_prefill_comes_on_top() -> None:
    cache = demand([Request(20.0 * part, 3000, 900) for part in range(3)], ENGINE, 60)
    assert cache.replicas[50] == pytest.approx(3 * 3450 / 9000)
    assert cache.replicas[42] == pytest.approx(3 * 3450 / 9000 + 3 / 5)
    prefill = demand([Request(0.1 * part, 1000, 1) for part in range(20)], ENGINE, 20)
    assert prefill.peak >= 4


def test_the_oracle_asks_a_cold_start_ahead_and_keeps_what_is_needed_again_within_one() -> None:
    needs = Demand([1.0] * 200 + [3.5] * 100 + [1.0] * 60 + [3.5] * 10 + [1.0] * 200)
    play(
        Oracle(needs, 105.0, min_replicas=1, max_replicas=10),
        (
            Scene(60, 1.0, "the rise is 140 s away", busy(1)),
            Scene(75, 1.0, "125 s", busy(1)),
            Scene(90, 4.0, "110 s: a replica takes up to 105 s, and the next look is in 15 s", busy(1)),
            Scene(315, 4.0, "it is needed again in 45 s", busy(4)),
            Scene(375, 1.0, "never again", busy(4)),
            Scene(9999, 1.0, "after the traffic", busy(1)),
        ),
    )


def test_the_oracle_keeps_within_its_bounds() -> None:
    play(Oracle(Demand([9.0] * 100), 60.0, min_replicas=1, max_replicas=4), (Scene(0, 4.0, "nine needed", busy(1)),))
