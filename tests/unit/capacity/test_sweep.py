from typing import Any

import pytest

from scaler.capacity.findings import Code
from scaler.capacity.measure import Outcome
from scaler.capacity.slo import Slo
from scaler.capacity.summary import conclusion
from scaler.capacity.sweep import Sweep, fit
from tests.bench_results import Call, bench_file, results, steady

SLO = Slo(ttft_s=0.5, e2e_s=2.0)
SLOW = 9.0


def at(rate: float, *times: float, seed: int = 1, **fields: Any) -> list[dict[str, Any]]:
    """One run a time: how long its requests take, each run with a seed of its own."""
    return [steady(rate=rate, e2e=e2e, seed=str(seed + number), **fields) for number, e2e in enumerate(times)]


def swept(*runs: list[dict[str, Any]], repetitions: int = 3) -> Sweep:
    return fit(results(*(file for files in runs for file in files)), SLO, repetitions=repetitions)


def partly(rate: float, share: float, seed: int) -> dict[str, Any]:
    """A run of which a share keeps to the SLO."""
    calls = [Call(index / rate, 0.1, 1.0 if index % 100 < 100 * share else SLOW) for index in range(400)]
    return bench_file(calls, rate=rate, seed=str(seed), replicas="1", cache_reset="yes")


def test_the_capacity_is_the_largest_rate_that_all_repetitions_passed() -> None:
    sweep = swept(at(2, 1, 1, 1), at(4, 1, 1, 1), at(8, 1, SLOW, 1), at(16, SLOW, SLOW, SLOW))
    assert sweep.capacity is not None
    assert (sweep.capacity.level.rate, sweep.capacity.first_failed) == (4, 8)
    assert sweep.levels[2].outcome is Outcome.FAILED
    assert sweep.why_not == ()


def test_a_floor_is_the_worst_run_and_not_the_mean_of_all_requests() -> None:
    sweep = swept([partly(4, 1.0, 1), partly(4, 0.94, 2), partly(4, 1.0, 3)])
    (level,) = sweep.levels
    assert level.floor == pytest.approx(0.94)
    assert level.outcome is Outcome.FAILED  # pooled, 98 % would have passed
    assert level.failures == ("attainment",)


def test_with_too_few_repetitions_no_capacity_is_named() -> None:
    sweep = swept(at(4, 1, 1), at(8, SLOW, SLOW))
    assert sweep.capacity is None
    (why,) = sweep.why_not
    assert why.startswith("no rate has more than 2 of the 3 repetitions that a capacity needs")
    assert sweep.passed is not None
    assert sweep.failed is not None
    assert (sweep.passed.rate, sweep.failed.rate) == (4, 8)


def test_a_rate_that_passed_in_too_few_repetitions_is_no_capacity_but_a_lower_one_can_be() -> None:
    sweep = swept(at(2, 1, 1, 1), at(4, 1), at(8, SLOW))
    assert sweep.capacity is not None
    assert (sweep.capacity.level.rate, sweep.capacity.first_failed) == (2, 8)
    assert swept(at(2, 1), at(4, SLOW, SLOW, SLOW)).why_not == ("2 req/s passed once, and 3 repetitions are the least",)


def test_the_same_result_given_twice_counts_once() -> None:
    files = results(*at(4, 1, 1))
    sweep = fit([*files, *files], SLO)
    assert len(sweep.levels[0].runs) == 2
    assert Code.COPIES in {finding.code for finding in sweep.findings}
    assert sweep.capacity is None


def test_when_no_rate_failed_the_capacity_may_be_larger() -> None:
    capacity = swept(at(4, 1, 1, 1)).capacity
    assert capacity is not None
    assert capacity.first_failed is None


def test_when_the_lowest_rate_failed_lower_ones_are_asked_for() -> None:
    assert swept(at(4, SLOW, SLOW, SLOW)).why_not == ("the lowest rate, 4 req/s, failed: measure lower ones",)


def test_a_rate_above_a_failure_is_no_capacity_however_well_it_went() -> None:
    sweep = swept(at(2, 1, 1, 1), at(4, 1, SLOW, 1), at(8, 1, 1, 1))
    assert sweep.capacity is not None
    assert sweep.capacity.level.rate == 2
    assert Code.ORDER in {finding.code for finding in sweep.findings}


def test_runs_without_a_rate_of_their_own_are_set_aside() -> None:
    closed = steady(rate=4.0, request_rate="inf", max_concurrency=4)
    ramp = steady(rate=4.0, ramp_up_strategy="linear")
    sweep = swept(at(4, 1, 1, 1), [closed, ramp])
    assert [run.result.load.value for run in sweep.set_aside] == ["closed loop", "ramp"]
    assert len(sweep.levels) == 1


def test_what_cannot_be_judged_is_neither_passed_nor_failed() -> None:
    lists = ("input_lens", "output_lens", "ttfts", "latencies", "start_times", "queue_times", "errors")
    bare = [{name: value for name, value in file.items() if name not in lists} for file in at(4, 1, 1, 1)]
    sweep = swept(bare)
    assert sweep.levels[0].outcome is Outcome.UNKNOWN
    assert sweep.why_not == ("no rate could be judged by all checks: run with --save-detailed",)
    known = [file | {f"p99_{name}_ms": 100.0 for name in ("ttft", "e2el")} for file in bare]
    sweep = swept(known)
    assert sweep.capacity is not None
    assert sweep.capacity.time_in_system_s is None
    assert "No slots follow from it, since no run has E2E times" in "".join(conclusion(sweep))


def test_repetitions_of_a_trace_belong_together_although_each_has_its_own_rate() -> None:
    runs = [
        bench_file([Call(index / rate, 0.1, 1.0) for index in range(400)], seed=str(seed), replicas="1")
        for seed, rate in enumerate((4.0, 4.001, 3.999))
    ]
    sweep = swept(runs)
    assert sweep.capacity is not None
    assert (sweep.capacity.level.rate, len(sweep.capacity.level.runs)) == (4.0, 3)


def test_in_flight_is_the_rate_times_the_mean_time_over_the_repetitions() -> None:
    capacity = swept(at(4, 1.0, 1.2, 1.4)).capacity
    assert capacity is not None
    assert capacity.time_in_system_s == pytest.approx(1.2)
    assert capacity.level.in_flight == pytest.approx(4.8)
    assert (capacity.per_request("prompt"), capacity.per_request("output")) == (64, 64)
    assert capacity.tokens_in_flight == pytest.approx(128)


def test_a_blocking_finding_keeps_a_capacity_from_being_named() -> None:
    sweep = swept(at(4, 1, 1, 1), at(4, 1, seed=9, model_id="other"))
    assert sweep.capacity is None
    assert "the results are of 2 models (other, tiny-llama)" in sweep.why_not[0]
