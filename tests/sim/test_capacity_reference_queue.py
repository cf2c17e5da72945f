"""A queue whose answers are known: one server, first come first served, 80 % of requests 20 ms and 20 % 180 ms.

What makes the figures what they are: a request is short when its draw is below 0.8; services are drawn from the seed
and gaps from the seed + 10,000, each from a source of its own; 50,000 requests run, and in the open loop the first
5,000 are load that is not judged. The closed loop counts all of them.
"""

import random
from functools import cache
from itertools import accumulate
from typing import Any

import pytest

from scaler.capacity.measure import Outcome
from scaler.capacity.results import BenchResult, Load, parse_result
from scaler.capacity.slo import Slo, percent
from scaler.capacity.sweep import Sweep, fit
from tests.bench_results import bench_lists

REQUESTS = 50_000
WARMUP = 5_000
SEEDS = range(101, 113)
SLO = Slo(e2e_s=0.25, attainment=0.95)
FLOORS = {2: 98.85, 4: 97.22, 6: 94.70}
FURTHER_FLOORS = {8: 90.84, 10: 85.52, 14: 64.74, 18: 19.30}


@cache
def services(seed: int) -> list[float]:
    source = random.Random(seed)
    return [0.02 if source.random() < 0.8 else 0.18 for _ in range(REQUESTS)]


def open_loop(rate: float, seed: int) -> BenchResult:
    gaps, at, free = random.Random(seed + 10_000), 0.0, 0.0
    starts, times = [], []
    for service in services(seed):
        at += gaps.expovariate(rate)
        free = max(at, free) + service
        starts.append(at)
        times.append(free - at)
    return _result(starts, times, [0.0] * REQUESTS, rate=rate, seed=str(seed))


def closed_loop(seed: int) -> BenchResult:
    """One request at a time: the next one goes when the answer is there, and all have waited since the start."""
    times = services(seed)
    starts = [0.0, *accumulate(times[:-1])]
    return _result(starts, times, starts, rate="inf", seed=str(seed), max_concurrency=1)


def _result(starts: list[float], times: list[float], queues: list[float], **fields: Any) -> BenchResult:
    one_token = [1] * REQUESTS
    columns: dict[str, list[Any]] = {
        "input_lens": one_token,
        "output_lens": one_token,
        "ttfts": times,
        "latencies": times,
    }
    columns |= {"start_times": starts, "queue_times": queues, "errors": [""] * REQUESTS}
    written = bench_lists(columns, **fields, replicas="1", cache_reset="yes")
    return parse_result(written, f"rate {fields['rate']}, seed {fields['seed']}")


@cache
def swept() -> Sweep:
    return fit((open_loop(rate, seed) for rate in FLOORS for seed in SEEDS), SLO, warmup=WARMUP)


@pytest.mark.parametrize(("rate", "floor"), FLOORS.items())
def test_the_floor_of_a_rate_is_the_known_one(rate: float, floor: float) -> None:
    level = next(level for level in swept().levels if level.rate == rate)
    assert len(level.runs) == 12
    assert percent(level.floor) == f"{floor:g} %"


@pytest.mark.slow
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
    assert (round(served[0], 2), round(served[-1], 2)) == (19.07, 19.43)
    assert {run.attainment for run in sweep.set_aside} == {(1.0, 1.0)}
    assert {run.result.load for run in sweep.set_aside} == {Load.CLOSED}
    assert sweep.capacity is None
    assert "no run has arrivals of its own (closed loop)" in sweep.why_not[0]
