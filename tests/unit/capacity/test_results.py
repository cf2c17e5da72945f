import json
import math
from pathlib import Path
from typing import Any

import pytest

from scaler.capacity import results as capacity_results
from scaler.capacity.results import Load, ResultError, parse_result, read_results
from tests.bench_results import Call, bench_file, steady

CAPTURES = Path(__file__).parents[2] / "data/vllm-captures"
THREE = [Call(0.0, 0.1, 1.0), Call(1.0, 0.2, 2.0, queue=0.5), Call(2.0, 0.3, 3.0)]


def without(written: dict[str, Any], *names: str) -> dict[str, Any]:
    return {name: value for name, value in written.items() if name not in names}


def summary_of(written: dict[str, Any]) -> dict[str, Any]:
    """What is left without --save-detailed."""
    return without(
        written, "input_lens", "output_lens", "ttfts", "latencies", "start_times", "queue_times", "errors", "itls"
    )


@pytest.mark.parametrize(("rate", "sent", "served"), [(1, 24, 0.99), (4, 48, 3.75), (12, 144, 10.75), (30, 200, 10.44)])
def test_a_real_result_is_read(rate: int, sent: int, served: float) -> None:
    (result,) = read_results([CAPTURES / f"bench_rate{rate}.json"])
    assert (result.model, result.load, result.offered_rate) == ("tiny-llama", Load.OPEN, rate)
    assert (result.sent, result.completed, round(result.throughput, 2)) == (sent, sent, served)
    assert result.requests is not None
    assert set(result.requests.output_tokens) == {64}
    assert result.summary["p95_ttft_ms"] > result.summary["p50_ttft_ms"]


def test_results_are_read_in_the_order_of_their_dates_from_files_and_folders(tmp_path: Path) -> None:
    for name, date in (("b.json", "20261130-110000"), ("a.json", "20261130-120000")):
        (tmp_path / name).write_text(json.dumps(bench_file(THREE, rate=1.0, date=date)))
    (tmp_path / "a.pytorch.json").write_text("[]")
    assert [Path(each.source).name for each in read_results([tmp_path])] == ["b.json", "a.json"]


def test_a_file_may_hold_several_results(tmp_path: Path) -> None:
    file = tmp_path / "all.json"
    file.write_text("\n".join(json.dumps(bench_file(THREE, rate=rate)) for rate in (1.0, 2.0)) + "\n")
    found = read_results([file])
    assert [each.offered_rate for each in found] == [1, 2]
    assert found[1].source.endswith("all.json (result 2)")


def test_requests_are_put_in_the_order_of_their_arrival_and_times_count_from_the_first() -> None:
    requests = parse_result(bench_file([THREE[2], THREE[0], THREE[1]], rate=1.0), "run").requests
    assert requests is not None
    assert list(requests.arrived_s) == [0, 1, 2]  # type: ignore[arg-type]
    assert list(requests.ttft_s) == [0.1, 0.2, 0.3]
    assert list(requests.queue_s) == [0, 0.5, 0]


def test_a_request_succeeded_if_it_has_no_error_and_at_least_one_token() -> None:
    calls = [Call(0.0, 0.1, 1.0), Call(1.0, 0.1, 1.0, error="timed out"), Call(2.0, 0.1, 1.0, output=0)]
    result = parse_result(bench_file(calls, rate=1.0), "run")
    assert result.requests is not None
    assert result.requests.succeeded == (True, False, False)
    assert (result.sent, result.completed) == (3, 2)


def test_without_errors_a_request_without_tokens_failed() -> None:
    calls = [Call(0.0, 0.1, 1.0), Call(1.0, 0.1, 1.0, error="refused")]
    requests = parse_result(without(bench_file(calls, rate=1.0), "errors"), "run").requests
    assert requests is not None
    assert requests.succeeded == (True, False)


def test_older_releases_save_gaps_between_tokens_in_place_of_latencies() -> None:
    written = without(bench_file([Call(0.0, 0.5, 9.0)], rate=1.0), "latencies", "start_times", "queue_times")
    requests = parse_result(written | {"itls": [[0.25, 0.25]]}, "run").requests
    assert requests is not None
    assert list(requests.e2e_s) == [1.0]
    assert requests.arrived_s is None


def test_gaps_that_were_cut_off_make_no_latencies() -> None:
    written = without(bench_file(THREE, rate=1.0), "latencies")
    assert parse_result(written | {"itls": [[0.25, 0.25]]}, "run").requests is None


def test_without_details_the_totals_are_read() -> None:
    result = parse_result(summary_of(bench_file(THREE, rate=2.0, p95_ttft_ms=300.0)), "run")
    assert result.requests is None
    assert (result.sent, result.completed, result.summary) == (3, 3, {"p95_ttft_ms": 300.0})


def test_releases_that_do_not_count_failures_have_them_counted_from_the_prompts() -> None:
    written = without(summary_of(bench_file(THREE, rate=2.0)), "failed") | {"completed": 2}
    assert (parse_result(written, "run").sent, parse_result(written, "run").completed) == (3, 2)


@pytest.mark.parametrize(
    ("changes", "load"),
    [
        ({"rate": 2.0}, Load.OPEN),
        ({"rate": 2.0, "max_concurrency": 8}, Load.OPEN),
        ({"rate": "inf", "max_concurrency": 8}, Load.CLOSED),
        ({"rate": math.inf, "max_concurrency": 8}, Load.CLOSED),
        ({"rate": "inf"}, Load.TIMED),
        ({"rate": "inf", "start_times": [5.0, 5.01, 5.02], "queue_times": [0.0] * 3}, Load.BURST),
        ({"rate": "inf", "ramp_up_strategy": "linear"}, Load.RAMP),
    ],
)
def test_how_requests_came_is_told_apart(changes: dict[str, Any], load: Load) -> None:
    assert parse_result(bench_file(THREE, **changes), "run").load is load


def test_a_trace_without_details_is_known_by_the_rate_in_its_metadata() -> None:
    written = summary_of(bench_file(THREE, rate="inf"))
    assert parse_result(written, "run").load is Load.BURST
    timed = parse_result(written | {"offered_rate": "2.5"}, "run")
    assert (timed.load, timed.offered_rate) == (Load.TIMED, 2.5)


def test_metadata_says_seed_replicas_and_reset_and_the_rest_are_settings() -> None:
    result = parse_result(steady(gpu="H100"), "run")
    assert (result.seed, result.replicas, result.cache_reset) == ("1", "1", True)
    assert result.settings == {"backend": "openai", "tokenizer_id": "tiny-llama", "gpu": "H100"}


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"duration": 0.0}, "run: duration is 0 s: nothing was measured"),
        ({"duration": math.nan}, "duration holds 'nan', not a number from 0 to 1e+15"),
        ({"duration": "long"}, "duration holds 'long'"),
        ({"duration": True}, "duration holds 'True'"),
        ({"duration": 10**400}, "duration holds '1000000"),
        ({"ttfts": [0.1, 10**400, 0.1]}, "ttfts holds '1000000"),
        ({"ttfts": [0.1, math.nan, 0.1]}, "ttfts holds 'nan'"),
        ({"max_concurrency": 2.5}, "max_concurrency is 2.5, not a whole number"),
        ({"completed": 2.5}, "completed is 2.5, not a whole number"),
        ({"completed": 2}, "2 are completed and 3 have no error"),
        ({"rate": 0.0}, "request_rate is 0"),
        ({"rate": -1.0}, "request_rate holds '-1.0'"),
        ({"offered_rate": "fast"}, "offered_rate is 'fast', not a number of requests per second"),
        ({"offered_rate": "inf"}, "offered_rate is 'inf'"),
        ({"offered_rate": "0"}, "offered_rate is '0'"),
        ({"offered_rate": "nan"}, "offered_rate is 'nan'"),
        ({"offered_rate": "4"}, "its metadata says offered_rate=4, and --request-rate was 1: correct one"),
        ({"ttfts": [0.1, math.inf, 0.1]}, "ttfts holds 'inf'"),
        ({"ttfts": [0.1, None, 0.1]}, "ttfts holds 'None'"),
        ({"latencies": [1.0, -1.0, 1.0]}, "latencies holds '-1.0'"),
        ({"latencies": [1.0, 1.0]}, "ttfts has 3 entries and latencies 2"),
        ({"output_lens": []}, "ttfts has 3 entries and output_lens 0"),
        ({"queue_times": [0.0]}, "ttfts has 3 entries and queue_times 1"),
        ({"errors": ["", ""]}, "errors is not a list of 3 entries"),
        ({"input_lens": "none"}, "input_lens is not a list"),
    ],
)
def test_a_result_that_does_not_hold_together_is_refused_by_name(changes: dict[str, Any], text: str) -> None:
    written = {**bench_file(THREE, rate=1.0), **{("request_rate" if k == "rate" else k): v for k, v in changes.items()}}
    with pytest.raises(ResultError) as refused:
        parse_result(written, "run")
    assert text in str(refused.value)


@pytest.mark.parametrize("name", ["duration", "completed", "total_input_tokens"])
def test_something_else_in_json_is_refused(name: str) -> None:
    with pytest.raises(ResultError, match=f"{name} is missing: is this a result of `vllm bench serve --save-result`"):
        parse_result(without(bench_file(THREE, rate=1.0), name), "run")


def test_a_run_without_requests_is_refused() -> None:
    empty: dict[str, list[float]] = {name: [] for name in ("ttfts", "input_lens", "output_lens", "latencies", "errors")}
    written = without(bench_file(THREE, rate=1.0), "start_times", "queue_times") | empty | {"completed": 0}
    with pytest.raises(ResultError, match="its lists are empty"):
        parse_result(written, "run")
    with pytest.raises(ResultError, match="0 of 0 requests completed"):
        parse_result(summary_of(written) | {"failed": 0}, "run")


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (b"{", "is not JSON, or was cut off"),
        (b"[1, 2]", "it is no JSON object"),
        (b"[" * 100_000, "is not JSON, or was cut off"),
        (b"\xff\xfe", "is not a text file"),
        (b'{"duration": ' + b"1" * 5000 + b"}", "is not JSON, or was cut off"),
        (b"", "no results: name files"),
    ],
)
def test_a_file_that_is_no_result_is_refused(content: bytes, text: str, tmp_path: Path) -> None:
    file = tmp_path / "result.json"
    file.write_bytes(content)
    with pytest.raises(ResultError, match=text):
        read_results([file])


def test_a_file_that_is_not_there_or_too_large_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ResultError, match="cannot be read: No such file"):
        read_results([tmp_path / "none.json"])
    (tmp_path / "large.json").write_text(json.dumps(bench_file(THREE, rate=1.0)))
    monkeypatch.setattr(capacity_results, "MAX_FILE_BYTES", 10)
    with pytest.raises(ResultError, match="and 10 are allowed: run with fewer prompts"):
        read_results([tmp_path])
    monkeypatch.setattr(capacity_results, "MAX_FILES", 0)
    with pytest.raises(ResultError, match="1 result files, and 0 are allowed"):
        read_results([tmp_path])
