"""Recorded traffic: the public traces of LLM requests, and traces of one's own, as arrivals.

A trace is read row by row and never held as a whole. Prompts are lengths only: what requests share is not looked at, so
a fleet with prefix caching has less to do than it has here.

Scaling. A trace of times 3 keeps its time scale: each request comes three times, the copies up to ten seconds later and
independently, with the same lengths. Below 1, requests are left out at random. Time is not compressed, since then load
would rise three times as fast too, against cold starts and windows that stay as they are.
"""

import csv
import enum
import heapq
import itertools
import json
import math
import random
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Final, NamedTuple

from scaler.errors import ScalerError
from scaler.sim.request import Request
from scaler.sim.workload import Stream

# A copy of a request comes up to so much later: long against the gaps of busy traffic, so that copies make no lumps,
# and short against the minutes in which load changes.
_COPIES_WITHIN_S: Final = 10.0
# The longest line that is read, in characters; the longest of the public traces, with its prefix hashes, has 2,000.
_LONGEST_LINE: Final = 1 << 20
_SHOWN_CHARACTERS: Final = 60


class TraceError(ScalerError):
    """A trace that cannot be read; its text says where and what to do."""


class TraceFormat(enum.StrEnum):
    """How a trace is written."""

    AZURE = "azure"
    """Azure LLM inference traces of 2023 and 2024: CSV with TIMESTAMP, ContextTokens, GeneratedTokens."""
    BURSTGPT = "burstgpt"
    """BurstGPT: CSV with Timestamp in seconds, Request tokens, Response tokens."""
    MOONCAKE = "mooncake"
    """Mooncake: one JSON object a line with timestamp in milliseconds, input_length, output_length."""
    TIMED = "timed"
    """The same with timestamp in seconds: timed traces of ``vllm bench serve``, and the Qwen traces of Alibaba."""


class _Row(NamedTuple):
    at_s: float
    prompt_tokens: int
    output_tokens: int


@dataclass(frozen=True)
class Trace:
    """A recorded trace as load.

    Args:
        path: The file.
        format: How it is written.
        times: Factor on the number of requests; see the head of this file.
        start_s: Leave out what comes earlier, in seconds since the first request.
        stop_s: Leave out what comes from then on.
    """

    path: Path
    format: TraceFormat
    times: float = 1.0
    start_s: float = 0.0
    stop_s: float = math.inf

    def __post_init__(self) -> None:
        if not 0 < self.times < math.inf:
            raise TraceError(f"a trace is scaled by a number above zero, not {self.times:g}")
        if not 0 <= self.start_s < self.stop_s:
            raise TraceError(f"a part of a trace starts at 0 or later and before its stop: {self.start_s:g} is not")

    @cached_property
    def duration_s(self) -> float:
        """From the start to the stop, or to the last request."""
        if self.stop_s < math.inf:
            return self.stop_s - self.start_s
        times = deque((request.arrived_at for request in self._requests()), maxlen=1)
        if not times:
            raise TraceError(f"{self.path} has no requests from {self.start_s:g} s on")
        return times[0]

    def open(self, seed: int) -> Stream:
        """Begin; the seed decides which requests are left out, and when copies come."""
        return Stream(self._scaled(random.Random(seed)))

    def _requests(self) -> Iterator[Request]:
        """Yield the requests of the part, timed from its start."""
        for row in read(self.path, self.format):
            if row.arrived_at >= self.stop_s:
                return
            if row.arrived_at >= self.start_s:
                yield replace(row, arrived_at=row.arrived_at - self.start_s) if self.start_s else row

    def _scaled(self, source: random.Random) -> Iterator[Request]:
        if self.times == 1:
            yield from self._requests()
            return
        order = itertools.count()
        later: list[tuple[float, int, Request]] = []
        whole, part = divmod(self.times, 1)
        for request in self._requests():
            while later and later[0][0] <= request.arrived_at:
                yield heapq.heappop(later)[2]
            for copy in range(int(whole) + (source.random() < part)):
                if not copy:
                    yield request
                    continue
                at = min(self.duration_s, request.arrived_at + source.uniform(0.0, _COPIES_WITHIN_S))
                heapq.heappush(later, (at, next(order), replace(request, arrived_at=at)))
        while later:
            yield heapq.heappop(later)[2]


def read(path: Path, trace_format: TraceFormat) -> Iterator[Request]:
    """Yield the requests of a trace, timed from its first row.

    Requests without a prompt or without an answer are left out: they failed, and no engine worked on them.

    Raises:
        TraceError: The file cannot be read, or a row is not what its format says, or is out of order.
    """
    first, last = None, -math.inf
    for number, row in _rows(path, trace_format):
        if row.at_s < last:
            raise _wrong(path, number, f"lies {last - row.at_s:g} s before the one above it: sort the rows by time")
        first, last = (row.at_s if first is None else first), row.at_s
        if row.prompt_tokens and row.output_tokens:
            yield Request(row.at_s - first, prompt_tokens=row.prompt_tokens, output_tokens=row.output_tokens)


def detect(path: Path) -> TraceFormat:
    """Tell a trace's format by its first line.

    Raises:
        TraceError: It cannot be told.
    """
    line = next(_lines(path), "")
    if "ContextTokens" in line:
        return TraceFormat.AZURE
    if "Request tokens" in line:
        return TraceFormat.BURSTGPT
    if line.lstrip().startswith("{"):
        raise TraceError(
            f"{path} has JSON in its lines, and does not say whether timestamps are milliseconds (format"
            f" {TraceFormat.MOONCAKE}) or seconds (format {TraceFormat.TIMED}): name the format"
        )
    raise TraceError(f"{path} is none of the known formats: {', '.join(TraceFormat)}")


def _rows(path: Path, trace_format: TraceFormat) -> Iterator[tuple[int, _Row]]:
    """Yield line numbers and rows."""
    match trace_format:
        case TraceFormat.AZURE:
            return _csv_rows(path, _Columns("TIMESTAMP", "ContextTokens", "GeneratedTokens"), _instant)
        case TraceFormat.BURSTGPT:
            return _csv_rows(path, _Columns("Timestamp", "Request tokens", "Response tokens"), float)
        case TraceFormat.MOONCAKE:
            return _json_rows(path, unit_s=0.001)
        case TraceFormat.TIMED:
            return _json_rows(path, unit_s=1.0)


class _Columns(NamedTuple):
    time: str
    prompt: str
    output: str


def _instant(text: str) -> float:
    """Read an instant such as 2023-11-16 18:17:03.9799600, UTC where it names no zone, as Unix seconds."""
    instant = datetime.fromisoformat(text)
    return (instant if instant.tzinfo else instant.replace(tzinfo=UTC)).timestamp()


def _csv_rows(path: Path, columns: _Columns, time_of: Callable[[str], float]) -> Iterator[tuple[int, _Row]]:
    reader = csv.DictReader(_lines(path))
    try:
        missing = [name for name in columns if name not in (reader.fieldnames or ())]
        if missing:
            raise TraceError(f"{path} has no column {' and no column '.join(missing)} in its first line")
        for row in reader:
            yield reader.line_num, _row(path, reader.line_num, row, columns, time_of)
    except csv.Error as error:
        raise _wrong(path, reader.line_num, f"is not CSV: {error}") from error


def _json_rows(path: Path, *, unit_s: float) -> Iterator[tuple[int, _Row]]:
    columns = _Columns("timestamp", "input_length", "output_length")
    for number, line in enumerate(_lines(path), 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except ValueError as error:
            raise _wrong(path, number, f"is not JSON: {error}") from error
        if not isinstance(row, dict):
            raise _wrong(path, number, f"is not a JSON object: {line.strip()[:_SHOWN_CHARACTERS]}")
        yield number, _row(path, number, row, columns, lambda text: float(text) * unit_s)


def _row(
    path: Path, number: int, row: Mapping[str, object], columns: _Columns, time_of: Callable[[str], float]
) -> _Row:
    texts = [str(row.get(name)) for name in columns]
    try:
        found = _Row(time_of(texts[0]), int(texts[1]), int(texts[2]))
    except (ValueError, OverflowError):
        found = _Row(math.nan, 0, 0)
    if math.isfinite(found.at_s) and found.prompt_tokens >= 0 and found.output_tokens >= 0:
        return found
    shown = ", ".join(f"{name} {text[:_SHOWN_CHARACTERS]}" for name, text in zip(columns, texts, strict=True))
    raise _wrong(path, number, f"has {shown}: a time and two counts are needed")


def _lines(path: Path) -> Iterator[str]:
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            number = 0
            while line := file.readline(_LONGEST_LINE):
                number += 1
                if len(line) == _LONGEST_LINE:
                    raise _wrong(path, number, f"has more than {_LONGEST_LINE} characters: is this a trace?")
                yield line
    except OSError as error:
        raise TraceError(f"{path} cannot be read: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise TraceError(f"{path} is not text in UTF-8: {error.reason} at byte {error.start}") from error


def _wrong(path: Path, number: int, what: str) -> TraceError:
    return TraceError(f"{path} line {number} {what}")
