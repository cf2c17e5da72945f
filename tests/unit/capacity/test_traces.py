import json
import random
from itertools import pairwise
from pathlib import Path
from statistics import fmean, pstdev

import pytest

from scaler.capacity import traces
from scaler.capacity.results import ResultError
from scaler.capacity.traces import Lengths, TimedRequest, at_rate, lines, poisson, read_recording

LENGTHS = Lengths(prompt=100, output=20)


def gaps(requests: list[TimedRequest]) -> list[float]:
    times = [0.0, *(each.at_s for each in requests)]
    return [after - before for before, after in pairwise(times)]


def test_a_poisson_trace_has_exponential_gaps_and_no_fixed_end() -> None:
    ends = []
    for seed in range(20):
        requests = list(poisson(4.0, 2000, LENGTHS, seed=seed))
        ends.append(requests[-1].at_s)
        assert fmean(gaps(requests)) == pytest.approx(0.25, rel=0.1)
        assert pstdev(gaps(requests)) == pytest.approx(0.25, rel=0.15)
    # 2000 gaps take 500 s +- 500 / sqrt(2000) = 11 s; with vLLM's own rate they would always take 500 s.
    assert 6 < pstdev(ends) < 17


def test_a_seed_has_the_same_requests_at_every_rate_and_gaps_in_proportion() -> None:
    lengths = Lengths(100, 20, spread=0.5)
    slow, fast = (list(poisson(rate, 50, lengths, seed=3)) for rate in (2.0, 4.0))
    assert [each.at_s for each in slow] == pytest.approx([2 * each.at_s for each in fast])
    assert [(each.prompt_tokens, each.output_tokens) for each in slow] == [
        (each.prompt_tokens, each.output_tokens) for each in fast
    ]
    assert slow != list(poisson(2.0, 50, lengths, seed=4))


def test_lengths_differ_by_the_share_that_was_asked_for() -> None:
    source = random.Random(1)
    drawn = [Lengths(100, 20, spread=0.5).draw(source) for _ in range(500)]
    shortest, longest = min(drawn)[0], max(drawn)[0]
    assert 50 <= shortest < 60
    assert 140 < longest <= 150
    assert LENGTHS.draw(source) == (100, 20)
    with pytest.raises(ValueError, match="lengths are 1 token or more"):
        Lengths(0, 1)


def test_a_line_is_what_vllm_reads_and_each_prompt_has_hashes_of_its_own() -> None:
    written = [json.loads(line) for line in lines(poisson(4.0, 3, LENGTHS, seed=1))]
    assert [sorted(line) for line in written] == [["hash_ids", "input_length", "output_length", "timestamp"]] * 3
    hashes = [each for line in written for each in line["hash_ids"]]
    assert [len(line["hash_ids"]) for line in written] == [7, 7, 7]  # 100 tokens, 16 a hash
    assert len(set(hashes)) == 21


def test_hashes_of_a_recording_are_kept() -> None:
    (line,) = lines([TimedRequest(0.0, 32, 1, (5, 6))])
    assert json.loads(line)["hash_ids"] == [5, 6]


def test_hashes_that_are_too_few_for_their_prompt_ask_what_they_stand_for() -> None:
    recorded = TimedRequest(0.0, 600, 1, (5, 6))
    with pytest.raises(ResultError, match="2 hashes of 16 tokens are no prompt of 600: say what a hash stands for"):
        list(lines([recorded]))
    assert len(list(lines([recorded], chunk_tokens=512))) == 1


def test_a_recording_at_a_rate_keeps_the_proportions_of_its_gaps() -> None:
    recorded = [TimedRequest(at, 10, 1) for at in (100.0, 101.0, 103.0, 107.0, 207.0, 208.0, 210.0, 214.0)]
    first, second = (at_rate(recorded, 1.0, 4, part=part) for part in (0, 1))
    assert [each.at_s for each in first] == pytest.approx([0, 3 / 7, 9 / 7, 3])
    assert [each.at_s for each in second] == pytest.approx([0, 3 / 7, 9 / 7, 3])
    with pytest.raises(ResultError, match="ends within part 3 of 4 requests"):
        at_rate(recorded, 1.0, 4, part=2)


def test_a_recording_of_one_moment_has_no_rate() -> None:
    with pytest.raises(ResultError, match="part 1 of the recording has all requests at one moment"):
        at_rate([TimedRequest(5.0, 10, 1)] * 3, 1.0, 3, part=0)


def test_azures_csv_is_read(tmp_path: Path) -> None:
    file = tmp_path / "trace.csv"
    file.write_text(
        "TIMESTAMP,ContextTokens,GeneratedTokens\n"
        "2023-11-16 18:17:04.0319600,4808,10\n"
        "2023-11-16 18:17:03.0319600,374,44\n"
    )
    first, second = read_recording(file)
    assert second.at_s - first.at_s == pytest.approx(1.0)
    assert (first.prompt_tokens, first.output_tokens) == (374, 44)


def test_json_lines_are_read_in_seconds_or_milliseconds(tmp_path: Path) -> None:
    file = tmp_path / "trace.jsonl"
    file.write_text(
        '{"timestamp": 0, "input_length": 600, "output_length": 5, "hash_ids": [1, 2]}\n\n'
        '{"timestamp": 3000, "input_length": 10, "output_length": 5}\n'
    )
    assert read_recording(file)[1].at_s == 3000
    first, second = read_recording(file, milliseconds=True)
    assert (first.hashes, second.at_s) == ((1, 2), 3.0)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.csv", "a,b\n1,2\n"),
        ("a.csv", "TIMESTAMP,ContextTokens,GeneratedTokens\nnow,1,1\n"),
        ("a.csv", "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:17:03.0319600\n"),
        ("a.jsonl", "{}\n"),
        ("a.jsonl", "[]\n"),
        ("a.jsonl", "{"),
        ("a.jsonl", '{"timestamp": NaN, "input_length": 1, "output_length": 1}'),
        ("a.jsonl", '{"timestamp": 1, "input_length": 1e999, "output_length": 1}'),
        ("a.jsonl", '{"timestamp": 1, "input_length": 1, "output_length": 1, "hash_ids": ["x"]}'),
        ("a.jsonl", "[" * 100_000),
        ("a.jsonl", '{"timestamp": 1, "input_length": 0, "output_length": 1}'),
        ("a.jsonl", '{"timestamp": 1, "input_length": 1, "output_length": 1, "hash_ids": 5}'),
    ],
)
def test_a_line_that_is_no_request_is_refused_with_its_number(name: str, content: str, tmp_path: Path) -> None:
    file = tmp_path / name
    file.write_text(content)
    with pytest.raises(ResultError, match=rf"{name}, request 1: not (TIMESTAMP|timestamp)"):
        read_recording(file)


def test_a_recording_has_a_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "trace.jsonl"
    file.write_text('{"timestamp": 0, "input_length": 10, "output_length": 5}\n' * 3)
    monkeypatch.setattr(traces, "MAX_REQUESTS", 2)
    with pytest.raises(ResultError, match="has more than 2 requests: cut it"):
        read_recording(file)


def test_a_recording_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ResultError, match="cannot be read: No such file"):
        read_recording(tmp_path / "none.csv")
