from pathlib import Path
from typing import Any

import pytest

from scaler.capacity.measure import Latency, Measured, Outcome, measure
from scaler.capacity.results import ResultError, parse_result, read_results
from scaler.capacity.slo import Slo
from tests.bench_results import Call, bench_file, steady

CAPTURES = Path(__file__).parents[2] / "data/vllm-captures"
SLO = Slo(0.5, 0.05, 2.0)
LISTS = ("input_lens", "output_lens", "ttfts", "latencies", "start_times", "queue_times", "errors")


def measured(calls: list[Call], slo: Slo = SLO, *, warmup: int = 0, **fields: Any) -> Measured:
    return measure(parse_result(bench_file(calls, **fields), "run"), slo, warmup=warmup)


def summarised(**fields: Any) -> Measured:
    """A run without details: 400 requests at 4/s."""
    written = {name: value for name, value in steady().items() if name not in LISTS}
    return measure(parse_result({**written, **fields}, "run"), SLO)


def check(run: Measured, name: str) -> tuple[Outcome, str]:
    return next((each.outcome, each.why) for each in run.checks if each.name == name)


@pytest.mark.parametrize(("rate", "goodput"), [(1, 0.99), (4, 3.75), (12, 8.21), (30, 0.21)])
def test_goodput_of_a_real_run_is_what_vllm_itself_found(rate: int, goodput: float) -> None:
    (result,) = read_results([CAPTURES / f"bench_rate{rate}.json"])
    run = measure(result, SLO)
    assert run.goodput == pytest.approx(result.goodput)
    assert round(run.goodput or 0, 2) == goodput


@pytest.mark.parametrize("rate", [1, 4, 12, 30])
def test_percentiles_of_a_real_run_are_what_vllm_itself_found(rate: int) -> None:
    (result,) = read_results([CAPTURES / f"bench_rate{rate}.json"])
    run = measure(result, SLO)
    for name, latency in (("ttft", run.ttft), ("tpot", run.tpot), ("e2el", run.e2e)):
        for kind, value in (("mean", latency.mean), ("p50", latency.p50), ("p95", latency.p95), ("p99", latency.p99)):
            assert value is not None
            # Ours count the client's wait of up to 2 ms, and the file's lists are rounded.
            assert 1000 * value == pytest.approx(result.summary[f"{kind}_{name}_ms"], abs=2)


def test_a_request_must_keep_all_bounds_together() -> None:
    calls = [
        Call(0.0, 0.5, 2.0),
        Call(1.0, 0.51, 2.0),
        Call(2.0, 0.5, 2.01),
        Call(3.0, 0.1, 0.1 + 0.0501 * 9, output=10),
        Call(4.0, 0.1, 0.1 + 0.0499 * 9, output=10),
    ]
    assert measured(calls, rate=1.0).attainment == (0.4, 0.4)


def test_failures_count_as_misses() -> None:
    run = measured([Call(0.0, 0.1, 1.0), Call(1.0, 0.1, 0.2, error="timed out")], rate=1.0)
    assert run.attainment == (0.5, 0.5)
    assert check(run, "errors") == (Outcome.FAILED, "50 % failed, 1 % allowed")
    assert run.e2e.mean == 1.0


def test_a_run_in_which_everything_failed_attains_nothing() -> None:
    run = measured([Call(0.0, 0.1, 1.0, error="down"), Call(1.0, 0.1, 1.0, error="down")], rate=1.0)
    assert (run.attainment, run.goodput, run.e2e) == ((0.0, 0.0), 0.0, Latency())
    assert run.outcome is Outcome.FAILED


def test_an_answer_of_one_token_has_no_time_per_token_and_is_counted_as_such() -> None:
    run = measured([Call(0.0, 0.1, 1.9, output=1), Call(1.0, 0.1, 1.0)], rate=1.0)
    assert run.attainment == (1.0, 1.0)
    assert run.one_token == 1
    assert run.tpot.mean == pytest.approx(0.9 / 63)


def test_the_wait_in_the_client_counts_since_a_user_would_have_waited_too() -> None:
    run = measured([Call(0.0, 0.1, 1.0), Call(1.0, 0.1, 1.0, queue=0.45)], rate=1.0, max_concurrency=1)
    assert run.attainment == (0.5, 0.5)
    assert run.client_queue.p99 == pytest.approx(0.45, abs=0.01)


def test_a_closed_loop_counts_from_sending_since_nobody_set_a_moment_before() -> None:
    calls = [Call(0.0, 0.1, 1.0, queue=float(index)) for index in range(30)]
    run = measured(calls, rate="inf", max_concurrency=1)
    assert run.attainment == (1.0, 1.0)
    assert run.load is not None
    assert run.load.highest == 1
    assert run.rate is None


def test_the_warm_up_is_not_judged() -> None:
    calls = [Call(float(index), 5.0 if index < 2 else 0.1, 5.0 if index < 2 else 1.0) for index in range(10)]
    assert measured(calls, rate=1.0).attainment == (0.8, 0.8)
    run = measured(calls, rate=1.0, warmup=2)
    assert (run.attainment, run.sent, run.e2e.p99) == ((1.0, 1.0), 8, 1.0)


def test_a_warm_up_of_the_whole_run_is_refused() -> None:
    with pytest.raises(ResultError, match="run: 2 requests, and a warm-up of 2 leaves none to judge"):
        measured([Call(0.0, 0.1, 1.0), Call(1.0, 0.1, 1.0)], rate=1.0, warmup=2)


@pytest.mark.parametrize(
    ("offered", "outcome"), [(4.0, Outcome.PASSED), (4.2, Outcome.PASSED), (4.3, Outcome.FAILED), (3.7, Outcome.FAILED)]
)
def test_the_client_must_have_sent_what_was_asked_for(offered: float, outcome: Outcome) -> None:
    calls = [Call(index / 4, 0.1, 1.0) for index in range(400)]
    assert check(measured(calls, rate=offered), "send rate")[0] is outcome


def test_the_first_gap_of_a_short_run_is_not_held_against_its_client() -> None:
    # Twenty requests at 4/s, the last one after exactly 5 s, and a first gap of 0.8 s.
    calls = [Call(0.8 + index * 4.2 / 19, 0.1, 1.0) for index in range(20)]
    assert check(measured(calls, rate=4.0), "send rate")[0] is Outcome.PASSED


def test_a_trace_may_scatter_about_its_rate_by_chance() -> None:
    calls = [Call(index / 4, 0.1, 1.0) for index in range(400)]
    assert check(measured(calls, offered_rate="4.5"), "send rate")[0] is Outcome.PASSED
    assert check(measured(calls, offered_rate="5.5"), "send rate")[0] is Outcome.FAILED


def test_a_trace_without_a_rate_has_the_one_that_was_sent() -> None:
    run = measured([Call(index / 4, 0.1, 1.0) for index in range(400)])
    assert run.rate == pytest.approx(4.0)
    assert check(run, "send rate") == (Outcome.PASSED, "no rate was asked for")


def test_a_queue_that_keeps_rising_fails_a_run_that_still_attains_its_slo() -> None:
    calls = [Call(index / 10, 0.1, 1.0 + index / 1000) for index in range(400)]
    slow = [Call(call.at, 0.1, 0.2 + index * 0.05) for index, call in enumerate(calls)]
    run = measured(slow, Slo(ttft_s=0.5), rate=10.0)
    assert run.attainment == (1.0, 1.0)
    assert check(run, "queue")[0] is Outcome.FAILED
    assert run.outcome is Outcome.FAILED


def test_the_filling_of_an_empty_server_is_no_rising_queue() -> None:
    # Requests that stay a minute, for two minutes: only the first half of the run fills the server.
    run = measured([Call(index / 5, 0.1, 60.1) for index in range(600)], Slo(ttft_s=0.5), rate=5.0)
    assert check(run, "queue")[0] is not Outcome.FAILED
    longer = measured([Call(index / 5, 0.1, 60.1) for index in range(1200)], Slo(ttft_s=0.5), rate=5.0)
    assert check(longer, "queue") == (
        Outcome.PASSED,
        "requests found 300, 300, 300, 300 in flight, by quarters of the run",
    )


def test_without_details_the_attainment_is_known_within_a_range() -> None:
    fields = {"p95_ttft_ms": 400.0, "p99_ttft_ms": 600.0, "p99_tpot_ms": 40.0, "p99_e2el_ms": 1900.0}
    run = summarised(**fields)
    assert run.attainment == pytest.approx((1 - 0.05 - 0.01 - 0.01, 0.99))
    assert check(run, "attainment") == (Outcome.UNKNOWN, "93 % to 99 % within the SLO, 95 % wanted")


def test_the_worked_range_is_what_two_bounds_give() -> None:
    lists = dict.fromkeys(("p95_ttft_ms", "p99_e2el_ms"), 400.0) | {"p99_ttft_ms": 600.0}
    written = {name: value for name, value in steady().items() if name not in LISTS} | lists
    assert measure(parse_result(written, "run"), Slo(ttft_s=0.5, e2e_s=2.0)).attainment == pytest.approx((0.94, 0.99))


def test_percentiles_alone_can_prove_that_an_slo_is_kept_or_missed() -> None:
    all_kept = {f"p99_{name}_ms": 10.0 for name in ("ttft", "tpot", "e2el")}
    assert check(summarised(**all_kept), "attainment")[0] is Outcome.PASSED
    assert summarised(**all_kept).outcome is Outcome.PASSED
    assert check(summarised(p90_ttft_ms=600.0), "attainment")[0] is Outcome.FAILED
    assert check(summarised(median_e2el_ms=2500.0), "attainment")[0] is Outcome.FAILED


def test_without_any_percentile_nothing_is_known() -> None:
    run = summarised(mean_ttft_ms=10.0)
    assert run.attainment == (0.0, 1.0)
    assert run.outcome is Outcome.UNKNOWN


def test_failures_narrow_the_range_of_a_run_without_details() -> None:
    fields = {f"p99_{name}_ms": 10.0 for name in ("ttft", "tpot", "e2el")}
    run = summarised(**fields, completed=360, failed=40)
    assert run.attainment == pytest.approx((0.9 * 0.97, 0.9))


def test_answers_that_keep_up_prove_rate_and_queue_without_details() -> None:
    assert check(summarised(), "send rate")[0] is Outcome.PASSED
    assert check(summarised(), "queue")[0] is Outcome.PASSED
    slow = summarised(duration=150.0)
    assert check(slow, "send rate")[0] is Outcome.UNKNOWN
    assert check(slow, "queue")[0] is Outcome.UNKNOWN


def test_a_run_with_few_requests_cannot_tell_a_rising_queue() -> None:
    run = measured([Call(index / 2, 0.1, 1.0) for index in range(10)], rate=2.0)
    assert check(run, "queue")[0] is Outcome.UNKNOWN


def test_releases_without_start_times_show_neither_load_nor_send_rate() -> None:
    written = {name: value for name, value in steady().items() if name != "start_times"}
    run = measure(parse_result(written, "run"), SLO)
    assert (run.load, run.send_rate, run.attainment) == (None, None, (1.0, 1.0))
    assert run.outcome is Outcome.PASSED  # the answers kept up, which proves both


def test_requests_that_all_left_at_one_moment_have_no_send_rate() -> None:
    assert measured([Call(0.0, 0.1, 1.0)] * 30, rate=4.0).send_rate is None


def test_tokens_in_flight_weigh_requests_by_the_time_that_they_stay() -> None:
    calls = [Call(0.0, 0.1, 1.0, prompt=100, output=50), Call(1.0, 0.1, 3.0, prompt=500, output=50)]
    assert measured(calls, rate=1.0).tokens_in_flight == pytest.approx((150 * 1 + 550 * 3) / 4)
