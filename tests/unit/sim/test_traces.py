"""Recorded traces: their formats, windows and factors, and what is said of a file that is not right."""

import itertools
import math
from pathlib import Path

import pytest

from scaler.sim.request import Request
from scaler.sim.traces import Trace, TraceError, TraceFormat, detect, read

AZURE_2023 = """TIMESTAMP,ContextTokens,GeneratedTokens
2023-11-16 18:17:03.9799600,4808,10
2023-11-16 18:17:04.0319600,3180,8
2023-11-16 18:18:03.9799600,110,27
"""
AZURE_2024 = """TIMESTAMP,ContextTokens,GeneratedTokens
2024-05-10 00:00:00.009930+00:00,2162,5
2024-05-10 00:00:01+00:00,2399,6
"""
BURSTGPT = """Timestamp,Session ID,Elapsed time,Model,Request tokens,Response tokens,Total tokens,Log Type
5,-,3.1,ChatGPT,472,18,490,Conversation log
45,-,1.0,ChatGPT,1087,0,1087,Conversation log
118.5,a1,40.2,GPT-4,417,276,693,API log
"""
MOONCAKE = """{"timestamp": 0, "input_length": 6758, "output_length": 500, "hash_ids": [0, 1]}

{"timestamp": 3052, "input_length": 7322, "output_length": 490, "hash_ids": [0, 14]}
"""
TIMED = """{"chat_id": 159, "timestamp": 61.114, "input_length": 521, "output_length": 132, "type": "text"}
{"chat_id": 160, "timestamp": 61.5, "input_length": 12, "output_length": 3}
"""


def written(folder: Path, text: str, name: str = "trace") -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("text", "trace_format", "requests"),
    [
        (AZURE_2023, TraceFormat.AZURE, [(0.0, 4808, 10), (0.052, 3180, 8), (60.0, 110, 27)]),
        (AZURE_2024, TraceFormat.AZURE, [(0.0, 2162, 5), (0.99007, 2399, 6)]),
        (BURSTGPT, TraceFormat.BURSTGPT, [(0.0, 472, 18), (113.5, 417, 276)]),
        (MOONCAKE, TraceFormat.MOONCAKE, [(0.0, 6758, 500), (3.052, 7322, 490)]),
        (TIMED, TraceFormat.TIMED, [(0.0, 521, 132), (0.386, 12, 3)]),
    ],
    ids=["Azure 2023", "Azure 2024", "BurstGPT, without the request that failed", "Mooncake", "timed"],
)
def test_a_format_is_read(
    tmp_path: Path, text: str, trace_format: TraceFormat, requests: list[tuple[float, int, int]]
) -> None:
    found = [
        (one.arrived_at, one.prompt_tokens, one.output_tokens) for one in read(written(tmp_path, text), trace_format)
    ]

    assert [lengths for _, *lengths in found] == [lengths for _, *lengths in requests]
    assert [at for at, *_ in found] == pytest.approx([at for at, *_ in requests], abs=1e-6)


@pytest.mark.parametrize(("text", "trace_format"), [(AZURE_2024, TraceFormat.AZURE), (BURSTGPT, TraceFormat.BURSTGPT)])
def test_a_table_is_known_by_its_columns(tmp_path: Path, text: str, trace_format: TraceFormat) -> None:
    assert detect(written(tmp_path, text)) is trace_format


@pytest.mark.parametrize(("text", "says"), [(MOONCAKE, "milliseconds"), ("a,b", "none of the known"), ("", "none of")])
def test_a_format_that_cannot_be_told_has_to_be_named(tmp_path: Path, text: str, says: str) -> None:
    with pytest.raises(TraceError, match=says):
        detect(written(tmp_path, text))


@pytest.mark.parametrize(
    ("row", "says"),
    [
        ("2023-11-16 18:17:05,12", "line 5 has TIMESTAMP 2023-11-16 18:17:05, ContextTokens 12, GeneratedTokens None"),
        ("yesterday,12,3", "line 5 has TIMESTAMP yesterday"),
        ("2023-11-16 18:19:05,12.5,3", "line 5 has .*ContextTokens 12.5"),
        ("2023-11-16 18:19:05,-12,3", "line 5 has .*ContextTokens -12"),
        ("2023-11-16 18:17:05,12,3", "line 5 lies 58.98 s before the one above it: sort"),
        ("2023-11-16 18:17:05," + "1" * 2_000_000, "line 5 has more than 1048576 characters"),
        ("2023-11-16 18:17:05,a\0b,3", "line 5 has"),
    ],
)
def test_a_wrong_row_is_named_by_its_line(tmp_path: Path, row: str, says: str) -> None:
    path = written(tmp_path, AZURE_2023 + row + "\n")

    with pytest.raises(TraceError, match=says):
        list(read(path, TraceFormat.AZURE))


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("{", "line 1 is not JSON"),
        ("[1, 2]", "line 1 is not a JSON object"),
        ('{"timestamp": NaN, "input_length": 1, "output_length": 1}', "timestamp nan"),
        ('{"timestamp": 1e400, "input_length": 1, "output_length": 1}', "timestamp inf"),
        ('{"timestamp": 1, "input_length": null, "output_length": 1}', "input_length None"),
        ('{"timestamp": 1, "output_length": 1}', "input_length None"),
    ],
)
def test_a_wrong_object_is_named_by_its_line(tmp_path: Path, line: str, says: str) -> None:
    with pytest.raises(TraceError, match=says):
        list(read(written(tmp_path, line), TraceFormat.TIMED))


def test_a_missing_column_a_missing_file_and_no_text_are_told_apart(tmp_path: Path) -> None:
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")

    with pytest.raises(TraceError, match="no column ContextTokens and no column GeneratedTokens"):
        list(read(written(tmp_path, "TIMESTAMP,x\n"), TraceFormat.AZURE))
    with pytest.raises(TraceError, match="cannot be read: No such file"):
        list(read(tmp_path / "nowhere", TraceFormat.AZURE))
    with pytest.raises(TraceError, match="not text in UTF-8"):
        list(read(tmp_path / "binary", TraceFormat.AZURE))


def even(folder: Path, seconds: int = 1000) -> Path:
    """A request a second; its prompt is its second plus one."""
    lines = [f'{{"timestamp": {at}, "input_length": {at + 1}, "output_length": 5}}' for at in range(seconds)]
    return written(folder, "\n".join(lines))


def arrivals(trace: Trace, seed: int = 1) -> list[Request]:
    return list(trace.open(seed).arrivals)


def test_a_part_is_timed_from_its_start(tmp_path: Path) -> None:
    trace = Trace(even(tmp_path), TraceFormat.TIMED, start_s=100.0, stop_s=103.0)

    assert [(one.arrived_at, one.prompt_tokens) for one in arrivals(trace)] == [(0.0, 101), (1.0, 102), (2.0, 103)]
    assert trace.duration_s == 3.0


def test_a_whole_trace_ends_with_its_last_request(tmp_path: Path) -> None:
    assert Trace(even(tmp_path), TraceFormat.TIMED).duration_s == 999.0
    assert Trace(even(tmp_path), TraceFormat.TIMED, start_s=10.0).duration_s == 989.0


@pytest.mark.parametrize("times", [3.0, 2.5, 0.25])
def test_a_factor_makes_more_or_fewer_requests_in_the_same_time(tmp_path: Path, times: float) -> None:
    trace = Trace(even(tmp_path), TraceFormat.TIMED, times=times)
    found = arrivals(trace)
    at = [one.arrived_at for one in found]

    assert len(found) == pytest.approx(1000 * times, abs=60)
    assert at == sorted(at)
    assert max(at) <= trace.duration_s
    # A copy keeps its lengths, and comes within ten seconds.
    assert all(0 <= one.arrived_at - (one.prompt_tokens - 1) <= 10 for one in found)
    # Halves get halves: the shape over time stays.
    assert sum(moment < 500 for moment in at) == pytest.approx(len(at) / 2, rel=0.15)
    assert found == arrivals(trace)


def test_copies_do_not_come_in_lumps(tmp_path: Path) -> None:
    at = [one.arrived_at for one in arrivals(Trace(even(tmp_path), TraceFormat.TIMED, times=3.0))]
    gaps = [after - before for before, after in itertools.pairwise(at)]

    assert sum(gap < 0.01 for gap in gaps) < 0.05 * len(gaps)


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"times": 0.0}, "scaled by a number above zero"),
        ({"times": math.inf}, "scaled by a number above zero"),
        ({"start_s": 5.0, "stop_s": 5.0}, "before its stop"),
        ({"start_s": -1.0}, "starts at 0 or later"),
    ],
)
def test_an_impossible_part_or_factor_is_refused(tmp_path: Path, wrong: dict[str, float], says: str) -> None:
    with pytest.raises(TraceError, match=says):
        Trace(even(tmp_path), TraceFormat.TIMED, **wrong)


def test_a_part_without_requests_is_said_to_be_one(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="no requests from 5000 s on"):
        _ = Trace(even(tmp_path), TraceFormat.TIMED, start_s=5000.0).duration_s
