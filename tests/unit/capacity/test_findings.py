import random
from pathlib import Path
from typing import Any

import pytest

from scaler.capacity.findings import Code, Finding, check
from scaler.capacity.measure import measure
from scaler.capacity.results import read_results
from scaler.capacity.slo import Slo
from tests.bench_results import Call, bench_file, results, steady

CAPTURES = Path(__file__).parents[2] / "data/vllm-captures"
SLO = Slo(ttft_s=0.5, e2e_s=2.0)
METADATA = {"replicas": "1", "cache_reset": "yes"}
LISTS = ("input_lens", "output_lens", "ttfts", "latencies", "start_times", "queue_times", "errors")


def found(*files: dict[str, Any], repetitions: int = 3) -> list[Finding]:
    runs = [measure(result, SLO) for result in results(*files)]
    return list(check(runs, repetitions=repetitions))


def texts(code: Code, *files: dict[str, Any]) -> list[str]:
    return [finding.text for finding in found(*files) if finding.code is code]


def good(count: int = 12, **fields: Any) -> list[dict[str, Any]]:
    return [steady(seed=str(seed), **fields) for seed in range(count)]


def poisson(draw: int, *, ttft: float = 0.1, noise: float = 0.0, **fields: Any) -> dict[str, Any]:
    """Random gaps, and a client whose clock jitters."""
    source, jitter, at, calls = random.Random(draw), random.Random(noise), 0.0, []
    for _ in range(400):
        at += source.expovariate(4.0)
        calls.append(Call(at + jitter.random() * noise, ttft, 1.0))
    return bench_file(calls, rate=4.0, replicas="1", **fields)


def test_twelve_good_runs_have_nothing_against_them() -> None:
    assert found(*good()) == []


def test_the_real_runs_support_no_capacity_and_say_why() -> None:
    runs = [measure(result, Slo(0.5, 0.05, 2.0)) for result in read_results([CAPTURES])]
    findings = check(runs, repetitions=3)
    assert [finding.code for finding in findings if finding.blocks] == [Code.REPETITIONS]
    assert {finding.code for finding in findings} == {
        *(Code.REPETITIONS, Code.REPLICAS, Code.COLD_START, Code.CACHE, Code.SHORT),
    }


def test_closed_loops_and_bursts_alone_support_nothing() -> None:
    closed = steady(request_rate="inf", max_concurrency=4)
    (text,) = texts(Code.CLOSED_LOOP, closed)
    assert text.startswith("no run has arrivals of its own (closed loop)")
    assert "run with --request-rate and without --max-concurrency" in text
    assert texts(Code.CLOSED_LOOP, closed, *good()) == []


def test_few_repetitions_block_or_weaken() -> None:
    assert [(f.code, f.blocks) for f in found(*good(2))] == [(Code.REPETITIONS, True)]
    (finding,) = found(*good(3))
    assert (finding.code, finding.blocks) == (Code.REPETITIONS, False)
    assert "(3 at 4 req/s)" in finding.text


def test_results_of_several_models_block() -> None:
    (text,) = texts(Code.MODELS, *good(), *good(1, model_id="other"))
    assert text == "the results are of 2 models (other, tiny-llama): give those of one"


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"gpu": "H100"}, "gpu (H100, not given)"),
        ({"backend": "vllm"}, "backend (openai, vllm)"),
        ({"burstiness": 0.5}, "burstiness (0.5, 1)"),
        ({"max_concurrency": 64}, "max_concurrency (64, none)"),
        ({"total_input_tokens": 400 * 100}, "mean prompt (64 to 100 tokens)"),
        ({"total_output_tokens": 400 * 32}, "mean answer (32 to 64 tokens)"),
    ],
)
def test_runs_that_differ_in_more_than_rate_and_seed_block(changes: dict[str, Any], text: str) -> None:
    findings = [f for f in found(*good(), *good(1, **changes)) if f.code is Code.SETTINGS]
    assert [finding.blocks for finding in findings] == [True]
    assert f"the runs differ in {text}" in findings[0].text


def test_a_changed_number_of_replicas_blocks_and_so_does_more_than_one() -> None:
    (text,) = texts(Code.REPLICAS, *good(), *good(1, replicas="2"))
    assert "changed between runs (1, 2)" in text
    (text,) = texts(Code.REPLICAS, *good(replicas="3"))
    assert text == "the results are of 3 replicas: measure one by itself"
    assert all(f.blocks for f in found(*good(replicas="3")) if f.code is Code.REPLICAS)


def test_an_unknown_number_of_replicas_is_said() -> None:
    findings = [f for f in found(*good(replicas=None)) if f.code is Code.REPLICAS]
    assert [finding.blocks for finding in findings] == [False]
    assert "--metadata replicas=1" in findings[0].text


def cold(slow: range, **fields: Any) -> dict[str, Any]:
    calls = [Call(index / 4, 0.1, 1.9 if index in slow else 0.5) for index in range(400)]
    return bench_file(calls, rate=4.0, seed="0", **METADATA, **fields)


def test_a_first_run_that_began_slowly_was_cold() -> None:
    (text,) = texts(Code.COLD_START, cold(range(30)), *good())
    assert "run0.json" in text
    assert "has a P95 E2E of 1.9 s and a median of 0.5 s: its slowest requests were its first" in text


def test_a_first_run_that_was_slow_later_was_disturbed() -> None:
    (text,) = texts(Code.COLD_START, cold(range(200, 230)), *good())
    assert "its slowest requests were not its first, so something else disturbed it" in text


def test_a_first_run_that_scatters_as_all_do_was_not_cold() -> None:
    assert texts(Code.COLD_START, *(cold(range(0, 400, 10)) | {"seed": str(seed)} for seed in range(3))) == []


def test_a_first_run_that_was_slow_for_its_queue_was_not_cold() -> None:
    calls = [Call(index / 10, 0.1, 0.2 + 0.05 * max(0, index - 200)) for index in range(400)]
    assert texts(Code.COLD_START, bench_file(calls, rate=10.0, **METADATA)) == []


def test_a_cold_start_is_seen_without_details() -> None:
    bare = {name: value for name, value in steady(p50_ttft_ms=100.0, p95_ttft_ms=900.0).items() if name not in LISTS}
    (text,) = texts(Code.COLD_START, bare)
    assert "the server may have been cold" in text


def test_answers_that_become_twice_as_fast_hint_at_replicas_that_joined() -> None:
    calls = [Call(index / 4, 0.1, 2.0 if index < 200 else 0.9) for index in range(400)]
    (text,) = texts(Code.REPLICAS, *good(), bench_file(calls, rate=4.0, seed="99", **METADATA))
    assert "a median of 2 s in its first third and of 0.9 s in its last" in text


def test_a_client_that_could_not_keep_up_is_named() -> None:
    slow = bench_file([Call(index / 3, 0.1, 1.0) for index in range(400)], rate=4.0, seed="99", **METADATA)
    (text,) = texts(Code.CLIENT, *good(), slow)
    assert text.startswith("the client of run12.json could not keep up: it sent 3 req/s, P95 wait in the client 0 s")
    waiting = bench_file([Call(index / 4, 0.1, 1.0, queue=0.2) for index in range(400)], rate=4.0, **METADATA)
    (text,) = texts(Code.CLIENT, *good(), waiting)
    assert "P95 wait in the client 0.2 s; send from more processes" in text
    (text,) = texts(Code.CLIENT, waiting | {"max_concurrency": 8})
    assert "drop --max-concurrency 8" in text


def test_prompts_that_came_from_the_cache_are_seen_in_their_ttft() -> None:
    (text,) = texts(Code.CACHE, poisson(7), poisson(7, ttft=0.02, noise=0.002))
    assert "run1.json has the prompts of run0.json and a median TTFT of 0.02" in text
    assert "its prompts came from the prefix cache" in text


def test_runs_that_share_seeds_or_do_not_tell_them_may_have_a_warm_cache() -> None:
    unset: dict[str, Any] = {"cache_reset": None}
    assert "runs share seeds" in texts(Code.CACHE, steady(**unset), steady(rate=8.0, **unset))[0]
    assert "vLLM's seed 0" in texts(Code.CACHE, steady(seed=None, **unset), steady(seed=None, **unset))[0]
    assert texts(Code.CACHE, steady(seed="1", **unset), steady(seed="2", **unset)) == []


@pytest.mark.parametrize(
    ("draws", "metadata", "same"),
    [((7, 7), {}, True), ((7, 8), {}, False), ((7, 8), {"seed": "1"}, True), ((7, 7), {"seed": None}, True)],
)
def test_repetitions_with_the_same_arrivals_are_one_sample(
    draws: tuple[int, int],
    metadata: dict[str, Any],
    same: bool,  # noqa: FBT001 - a table
) -> None:
    runs = [poisson(draw, noise=0.001 * number, **metadata) for number, draw in enumerate(draws)]
    assert bool(texts(Code.ARRIVALS, *runs)) is same


def test_arrivals_so_dense_that_the_clock_blurs_them_are_not_compared() -> None:
    dense = [steady(rate=200.0, seed=None), steady(rate=200.0, seed=None)]
    assert texts(Code.ARRIVALS, *dense) == []


def test_missing_details_and_short_runs_are_said() -> None:
    bare = {name: value for name, value in steady(count=100).items() if name not in LISTS}
    assert texts(Code.DETAILS, bare)[0].startswith("1 result(s) have no lists of requests (run0.json)")
    assert (
        "as short as 100 requests: by chance alone an attainment of 95 % then scatters by 2.18"
        in texts(Code.SHORT, bare)[0]
    )


def test_a_run_that_mostly_filled_the_server_is_named() -> None:
    (text,) = texts(Code.SHORT, *good(e2e=1.9, rate=40.0))
    assert text.startswith("run0.json sent for 9.98 s, and its requests stay for 1.9 s")
    assert "send for 10 times as long as requests stay" in text


def test_no_runs_have_no_findings_but_that_there_is_no_arrival() -> None:
    assert [finding.code for finding in check([], repetitions=3)] == [Code.CLOSED_LOOP]
