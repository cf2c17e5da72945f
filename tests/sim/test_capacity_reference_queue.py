"""The queue whose answers are known, through the path that real results take."""

from functools import cache

import pytest

from scaler.capacity.measure import Outcome
from scaler.capacity.results import Load
from scaler.capacity.slo import percent
from scaler.capacity.sweep import Sweep, fit
from tests.reference_queue import CLOSED_LOOP, FLOORS, FURTHER_FLOORS, SEEDS, SLO, WARMUP, closed_loop, open_loop


@cache
def swept() -> Sweep:
    return fit((open_loop(rate, seed) for rate in FLOORS for seed in SEEDS), SLO, warmup=WARMUP)


@pytest.mark.parametrize(("rate", "floor"), FLOORS.items())
def test_the_floor_of_a_rate_is_the_known_one(rate: float, floor: float) -> None:
    level = next(level for level in swept().levels if level.rate == rate)
    assert len(level.runs) == 12
    assert percent(level.floor) == f"{floor:g} %"


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize(("rate", "floor"), FURTHER_FLOORS.items())
def test_the_floors_above_the_bracket_are_the_known_ones(rate: float, floor: float) -> None:
    (level,) = fit((open_loop(rate, seed) for seed in SEEDS), SLO, warmup=WARMUP).levels
    assert percent(level.floor) == f"{floor:.2f}".rstrip("0") + " %"
    assert level.failures == ("attainment",)


def test_the_capacity_lies_between_4_and_6_although_the_server_manages_19() -> None:
    sweep = swept()
    assert sweep.capacity is not None
    assert (sweep.capacity.level.rate, sweep.capacity.first_failed) == (4, 6)
    assert [level.outcome for level in sweep.levels] == [Outcome.PASSED, Outcome.PASSED, Outcome.FAILED]
    assert {name for level in sweep.levels for name in level.failures} == {"attainment"}
    assert sweep.why_not == ()


def test_in_flight_by_littles_law_is_what_theory_gives() -> None:
    # Pollaczek and Khinchine: 4/s x (0.052 + 4 x 0.0068 / (2 x (1 - 0.208))) = 0.277.
    level = swept().levels[1]
    assert level.in_flight == pytest.approx(0.277, abs=0.01)
    counted = [run.load.mean for run in level.runs if run.load is not None]
    assert sum(counted) / len(counted) == pytest.approx(level.in_flight, rel=0.01)


def test_a_closed_loop_shows_19_requests_a_second_with_all_of_them_in_bound() -> None:
    sweep = fit([closed_loop(seed) for seed in SEEDS], SLO)
    served = sorted(run.result.throughput for run in sweep.set_aside)
    assert (round(served[0], 2), round(served[-1], 2)) == CLOSED_LOOP
    assert {run.attainment for run in sweep.set_aside} == {(1.0, 1.0)}
    assert {run.result.load for run in sweep.set_aside} == {Load.CLOSED}
    assert sweep.capacity is None
    assert "no run has arrivals of its own (closed loop)" in sweep.why_not[0]
