import json
from pathlib import Path
from typing import Any

import pytest

from scaler.capacity import charts, summary
from scaler.capacity.recommend import Server, recommend, snippet
from scaler.capacity.results import read_results
from scaler.capacity.slo import Slo
from scaler.capacity.sweep import Sweep, fit
from tests.bench_results import Call, bench_file, results, steady

CAPTURES = Path(__file__).parents[2] / "data/vllm-captures"
SLO = Slo(0.5, 0.05, 6.0)


def sweep(*files: dict[str, Any]) -> Sweep:
    return fit(results(*files), SLO)


def three(rate: float, e2e: float, **fields: Any) -> list[dict[str, Any]]:
    return [steady(rate=rate, e2e=e2e, ttft=0.1, seed=str(seed), **fields) for seed in range(3)]


def whole(found: Sweep) -> str:
    assert found.capacity is not None
    advice = recommend(found.capacity, found.slo, server=Server(hourly_cost=2.5, kv_cache_tokens=100_000))
    assert advice is not None
    trigger = snippet(advice, deployment="vllm", model="llama", scaler_address="scaler:50051")
    return summary.text(found, advice, trigger, details=True)


def test_a_capacity_is_said_with_its_bracket_and_what_follows() -> None:
    text = whole(sweep(*three(4.0, 3.0), *three(8.0, 9.0)))
    assert "Capacity of one replica: 4 req/s, the largest rate that all of 3 repetitions passed (floor 100 %)." in text
    assert "The true one lies between 4 (passed) and 8 req/s (failed)." in text
    assert "`capacity plan --bracket 4:8` measures within it" in text
    assert "Little's law: 4 req/s x 3 s in the system = 12.00 in flight, so slotsPerReplica 12." in text
    assert "A million output tokens cost 2.71, a million tokens in all 1.36, at this rate." in text
    assert "The KV cache is then used to 1.54 % on average, or less." in text  # 12 x 128 of 100,000 tokens
    assert "slotsPerReplica: '12'" in text
    assert "run0.json: 400 of 400 requests succeeded, 100 % within the SLO" in text


def test_an_open_end_and_a_narrow_bracket_have_their_own_advice() -> None:
    assert "No rate failed, so it may be larger: measure higher rates." in whole(sweep(*three(4.0, 3.0)))
    assert "Make it 10 to 12 repetitions at both ends" in whole(sweep(*three(4.0, 3.0), *three(5.0, 9.0)))


def test_answers_of_one_token_are_said_to_have_no_tpot() -> None:
    calls = [Call(index / 4, 0.1, 0.1, output=1) for index in range(400)]
    text = summary.text(sweep(bench_file(calls, rate=4.0)), None, "")
    assert "400 answers have one token and so no TPOT: that bound does not concern them." in text


def test_runs_without_a_rate_are_shown_apart() -> None:
    text = summary.text(sweep(steady(request_rate="inf", max_concurrency=4)), None, "")
    assert "Runs that say nothing about a rate" in text
    assert "closed loop" in text
    assert "No capacity is named:" in text


def test_columns_are_as_wide_as_their_widest_cell() -> None:
    assert list(summary.columns(("a", "bb", "cc"), [("long", "1", "x")])) == ["a     bb  cc", "long   1   x"]
    assert list(summary.columns(("a", "bb", ""), [("x", "1", "passed"), ("y", "2", "failed: errors")])) == [
        "a  bb",
        "x   1  passed",
        "y   2  failed: errors",
    ]


def test_json_holds_every_run_with_its_checks_and_lengths() -> None:
    found = fit(read_results([CAPTURES]), Slo(0.5, 0.05, 2.0))
    told = json.loads(json.dumps(summary.as_json(found, None, ""), allow_nan=False))
    assert told["capacity"] is None
    assert told["bracket"] == {"passed": 4.0, "failed": 12.0}
    run = told["rates"][2]["runs"][0]
    assert run["goodput_per_s"] == pytest.approx(8.21, abs=0.005)
    assert {check["name"]: check["outcome"] for check in run["checks"]} == {
        "attainment": "failed",
        "errors": "passed",
        "send rate": "passed",
        "queue": "passed",
    }
    assert sum(bucket["work_share"] for bucket in run["lengths"]) == pytest.approx(1)
    assert run["client_queue_s"]["p99"] < 0.002


def test_json_tells_a_capacity_and_its_trigger() -> None:
    found = sweep(*three(4.0, 3.0), *three(8.0, 9.0))
    assert found.capacity is not None
    advice = recommend(found.capacity, found.slo, server=Server())
    told = json.loads(json.dumps(summary.as_json(found, advice, "- type: external\n"), allow_nan=False))
    assert (told["capacity"]["rate"], told["capacity"]["first_failed"]) == (4.0, 8.0)
    assert told["advice"]["slots"] == 12
    assert told["advice"]["trigger"] == "- type: external\n"


def test_the_page_has_the_plots_and_the_numbers() -> None:
    found = fit(read_results([CAPTURES]), Slo(0.5, 0.05, 2.0))
    page = charts.html(found, None, "")
    assert page.count("<svg") == 5
    for text in ("bracket 4 to 12", "&lt;= 256", "% of attention", "No capacity is named:", "bound 0.5 s"):
        assert text in page
    assert "src=" not in page


def test_the_page_of_a_capacity_has_its_trigger_and_marks_it() -> None:
    found = sweep(*three(4.0, 3.0), *three(8.0, 9.0))
    assert found.capacity is not None
    advice = recommend(found.capacity, found.slo, server=Server())
    page = charts.html(found, advice, "modelName: <b>\n")
    assert "modelName: &lt;b&gt;" in page
    assert "at the capacity" in page


def test_a_page_without_any_rate_is_still_one() -> None:
    page = charts.html(sweep(steady(request_rate="inf", max_concurrency=4)), None, "")
    assert page.count("<svg") == 0
    assert "Runs without a rate of their own" in page
