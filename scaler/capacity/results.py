"""Result files of ``vllm bench serve --save-result``, with or without ``--save-detailed``, read and checked.

A file holds one JSON object, or several one after the other (``--append-result``). What vLLM writes differs between
releases, and without ``--save-detailed`` most lists are missing; so every part but the totals may be absent, and is
then None here. What is there must hold together: numbers finite, lists of one length, counts that agree.
"""

import enum
import json
import math
import operator
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeAlias, TypeVar

from scaler.errors import ScalerError

MAX_FILE_BYTES: Final = 512 * 2**20
"""A detailed result has about 10 kB a request, so this is some 50,000 of them."""
MAX_FILES: Final = 10_000

# Metadata of our own that ``--metadata`` puts into a result, as text; see plan.py.
OFFERED_RATE: Final = "offered_rate"
SEED: Final = "seed"
REPLICAS: Final = "replicas"
CACHE_RESET: Final = "cache_reset"
_OURS: Final = frozenset({OFFERED_RATE, SEED, REPLICAS, CACHE_RESET})
# Texts of vLLM's own that differ from run to run, or say nothing about the server.
_NOT_SETTINGS: Final = frozenset({"date", "label", "request_rate", "endpoint_type", "ramp_up_strategy"})

# What no second, token or millisecond of a benchmark reaches, and what no run or rate falls below; within these bounds
# nothing that is computed of them overflows.
_LARGEST: Final = 1e15
_SMALLEST: Final = 1e-6
# Requests that all leave within this share of the run came at once, whatever rate was asked for.
_AT_ONCE: Final = 0.05

_Entry = TypeVar("_Entry")
Json: TypeAlias = Mapping[str, object]


class ResultError(ScalerError):
    """A result that cannot be used; its text says which file, what is wrong and what to do."""


class Load(enum.StrEnum):
    """How the requests of a run came."""

    OPEN = "open loop"
    """At a rate of their own, whatever the server does."""
    TIMED = "timed trace"
    """At the times of a trace: an open loop too, at the trace's rate."""
    CLOSED = "closed loop"
    """The next one when an answer is there: the server sets the rate."""
    BURST = "all at once"
    """Every request at the start."""
    RAMP = "ramp"
    """At a rate that changes during the run."""


@dataclass(frozen=True, slots=True)
class Requests:
    """The requests of a run in the order of their arrival, one list each; times in seconds, lengths in tokens."""

    ttft_s: Sequence[float]
    """From sending to the first token."""
    e2e_s: Sequence[float]
    """From sending to the last token."""
    queue_s: Sequence[float]
    """Spent waiting in the client before it was sent."""
    prompt_tokens: tuple[int, ...]
    output_tokens: tuple[int, ...]
    succeeded: tuple[bool, ...]
    arrived_s: Sequence[float] | None
    """When the client wanted to send each, from the first on; None where the file has no start times."""

    def __len__(self) -> int:
        return len(self.ttft_s)


@dataclass(frozen=True, slots=True)
class BenchResult:
    """One run of the benchmark."""

    source: str
    """File and, where it holds several, number: to name it."""
    date: str
    """When it ended, as vLLM writes it: 20261129-202332. Sorts by time; empty where it is not there."""
    model: str
    load: Load
    offered_rate: float | None
    """Requests per second that were asked for; None where nobody says."""
    max_concurrency: int | None
    burstiness: float | None
    sent: int
    completed: int
    duration_s: float
    """From the first request to the last answer."""
    prompt_tokens: int
    output_tokens: int
    goodput: float | None
    """Requests per second within the bounds of vLLM's ``--goodput``, which the file does not tell."""
    summary: Mapping[str, float]
    """Means and percentiles in milliseconds by vLLM's names, such as p95_ttft_ms."""
    requests: Requests | None
    """What happened to each request, with ``--save-detailed``."""
    seed: str | None
    replicas: str | None
    cache_reset: bool
    settings: Mapping[str, str]
    """Texts that must be the same in all runs: the backend, the tokenizer, and metadata of the user's own."""

    @property
    def throughput(self) -> float:
        """Answers per second."""
        return self.completed / self.duration_s


def read_results(paths: Iterable[Path]) -> tuple[BenchResult, ...]:
    """Read all results in files, and in the JSON files of folders, in the order of their dates.

    Raises:
        ResultError: One cannot be read, or there is none at all.
    """
    files = [file for path in paths for file in _files(path)]
    if len(files) > MAX_FILES:
        raise ResultError(f"there are {len(files)} result files, and {MAX_FILES} are allowed: name a part of them")
    found = [result for file in files for result in _read_file(file)]
    if not found:
        raise ResultError("no results: name files that `vllm bench serve --save-result` has written, or their folder")
    return tuple(sorted(found, key=lambda result: result.date))


def _files(path: Path) -> list[Path]:
    if not path.is_dir():
        return [path]
    # Beside each result vLLM may write one for PyTorch's dashboards.
    return sorted(file for file in path.glob("*.json") if not file.name.endswith(".pytorch.json"))


def _read_file(path: Path) -> Iterator[BenchResult]:
    try:
        size = path.stat().st_size
        if size > MAX_FILE_BYTES:
            raise ResultError(f"{path} has {size} bytes, and {MAX_FILE_BYTES} are allowed: run with fewer prompts")
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise ResultError(f"{path} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ResultError(f"{path} is not a text file: name results of `vllm bench serve --save-result`") from error
    objects = list(_objects(text, str(path)))
    for number, written in enumerate(objects, start=1):
        yield parse_result(written, str(path) if len(objects) == 1 else f"{path} (result {number})")


def _objects(text: str, source: str) -> Iterator[Json]:
    decoder, at = json.JSONDecoder(), 0
    while at < len(text):
        if text[at].isspace():
            at += 1
            continue
        try:
            written, at = decoder.raw_decode(text, at)
        except (ValueError, RecursionError) as error:
            raise ResultError(f"{source} is not JSON, or was cut off: {error}") from error
        if not isinstance(written, dict):
            raise ResultError(f"{source} does not hold a result of `vllm bench serve`: it is no JSON object")
        yield written


def parse_result(written: Json, source: str) -> BenchResult:
    """Read one result.

    Args:
        written: What vLLM wrote, as JSON.
        source: What to call it in messages.

    Raises:
        ResultError: It is not a result of ``vllm bench serve``, or does not hold together.
    """
    fields = _Fields(written, source)
    requests = _requests(fields)
    duration_s = fields.number("duration")
    if duration_s < _SMALLEST:
        raise fields.error(f"duration is {duration_s:g} s: nothing was measured")
    completed = fields.count("completed")
    sent = len(requests) if requests else _sent(fields, completed)
    if not sent or completed > sent:
        raise fields.error(f"{completed} of {sent} requests completed: there is nothing to measure")
    offered = _offered_rate(fields)
    concurrency = None if fields.optional("max_concurrency") is None else fields.count("max_concurrency")
    return BenchResult(
        source=source,
        date=fields.text("date"),
        model=fields.text("model_id"),
        load=_load(fields, requests, duration_s, concurrency),
        offered_rate=offered,
        max_concurrency=concurrency,
        burstiness=fields.optional("burstiness"),
        sent=sent,
        completed=completed,
        duration_s=duration_s,
        prompt_tokens=fields.count("total_input_tokens"),
        output_tokens=fields.count("total_output_tokens"),
        goodput=fields.optional("request_goodput"),
        summary={name: fields.number(name) for name in written if name.endswith("_ms")},
        requests=requests,
        seed=fields.text(SEED) or None,
        replicas=fields.text(REPLICAS) or None,
        cache_reset=fields.text(CACHE_RESET) == "yes",
        settings={
            name: value
            for name, value in written.items()
            if isinstance(value, str) and name not in _OURS | _NOT_SETTINGS and name != "model_id"
        },
    )


def _sent(fields: "_Fields", completed: int) -> int:
    """Return the requests of a run without lists; older releases do not count the failed ones."""
    if fields.optional("failed") is not None:
        return completed + fields.count("failed")
    return fields.count("num_prompts")


def _offered_rate(fields: "_Fields") -> float | None:
    """Return what was asked for; of a trace it stands in our metadata alone."""
    asked = None if fields.is_unlimited("request_rate") else fields.number("request_rate")
    text = fields.text(OFFERED_RATE)
    if not text:
        if asked is not None and asked < _SMALLEST:
            raise fields.error(f"request_rate is {asked:g}")
        return asked
    try:
        rate = float(text)
    except ValueError:
        rate = math.nan
    if not _SMALLEST <= rate <= _LARGEST:
        raise fields.error(f"{OFFERED_RATE} is {text[:40]!r}, not a number of requests per second")
    if asked is not None and not math.isclose(asked, rate):
        raise fields.error(f"its metadata says {OFFERED_RATE}={rate:g}, and --request-rate was {asked:g}: correct one")
    return rate


def _load(fields: "_Fields", requests: Requests | None, duration_s: float, concurrency: int | None) -> Load:
    if "ramp_up_strategy" in fields.written:
        return Load.RAMP
    if not fields.is_unlimited("request_rate"):
        return Load.OPEN
    if concurrency is not None:
        return Load.CLOSED
    arrived = requests.arrived_s if requests else None
    if arrived is not None:
        return Load.TIMED if arrived[-1] > _AT_ONCE * duration_s else Load.BURST
    return Load.TIMED if fields.text(OFFERED_RATE) else Load.BURST


def _requests(fields: "_Fields") -> Requests | None:
    """Read the lists, or return None when those without which a request cannot be judged are not all there."""
    lists = fields.numbers
    ttfts, prompts, outputs = lists("ttfts"), lists("input_lens"), lists("output_lens")
    if ttfts is None or prompts is None or outputs is None:
        return None
    latencies = lists("latencies") if "latencies" in fields.written else _latencies_from_gaps(fields, ttfts)
    if latencies is None:
        return None
    count = len(ttfts)
    queues, starts = lists("queue_times") or (0.0,) * count, lists("start_times")
    columns = {"input_lens": prompts, "output_lens": outputs, "latencies": latencies, "queue_times": queues}
    columns |= {"start_times": starts} if starts is not None else {}
    for name, column in columns.items():
        if len(column) != count:
            raise fields.error(f"ttfts has {count} entries and {name} {len(column)}: they belong to the same requests")
    succeeded = _succeeded(fields, count, outputs)
    if not count:
        raise fields.error("its lists are empty: no request was sent")
    arrivals = None if starts is None else [start - queue for start, queue in zip(starts, queues, strict=True)]
    order: Sequence[int] = range(count)
    if arrivals is not None and any(map(operator.gt, arrivals, arrivals[1:])):
        order = sorted(order, key=arrivals.__getitem__)
    first = arrivals[order[0]] if arrivals is not None else 0.0
    return Requests(
        # Arrays, since many runs are held at once, and each may have tens of thousands of requests.
        ttft_s=array("d", _ordered(ttfts, order)),
        e2e_s=array("d", _ordered(latencies, order)),
        queue_s=array("d", _ordered(queues, order)),
        prompt_tokens=tuple(map(int, _ordered(prompts, order))),
        output_tokens=tuple(map(int, _ordered(outputs, order))),
        succeeded=tuple(_ordered(succeeded, order)),
        arrived_s=None if arrivals is None else array("d", [arrivals[index] - first for index in order]),
    )


def _ordered(column: Sequence[_Entry], order: Sequence[int]) -> Sequence[_Entry]:
    return column if isinstance(order, range) else [column[index] for index in order]


def _succeeded(fields: "_Fields", count: int, outputs: tuple[float, ...]) -> list[bool]:
    """Tell which requests were answered: no error, and at least one token."""
    errors = fields.written.get("errors")
    if errors is None:
        return [output > 0 for output in outputs]
    if not isinstance(errors, list) or len(errors) != count:
        raise fields.error(f"errors is not a list of {count} entries, one for each request")
    without = [not error for error in errors]
    if sum(without) != fields.count("completed"):
        raise fields.error(f"{fields.count('completed')} are completed and {sum(without)} have no error: not one run")
    return [fine and output > 0 for fine, output in zip(without, outputs, strict=True)]


def _latencies_from_gaps(fields: "_Fields", ttfts: tuple[float, ...]) -> tuple[float, ...] | None:
    """Add up the gaps between tokens, for releases that save no latencies."""
    gaps = fields.written.get("itls")
    if not isinstance(gaps, list) or len(gaps) != len(ttfts):
        return None
    return tuple(ttft + math.fsum(fields.checked_list("itls", each)) for ttft, each in zip(ttfts, gaps, strict=True))


class _Fields:
    """What vLLM wrote, by name, with errors that name the file and the field.

    Args:
        written: The JSON object.
        source: What to call it.
    """

    def __init__(self, written: Json, source: str) -> None:
        self.written = written
        self._source = source

    def error(self, text: str) -> ResultError:
        """Make the error about this result."""
        return ResultError(f"{self._source}: {text}")

    def text(self, name: str) -> str:
        """Return a text; empty when it is not there."""
        value = self.written.get(name)
        return value if isinstance(value, str) else ""

    def is_unlimited(self, name: str) -> bool:
        """Tell whether a rate is infinite, which vLLM writes as text; one that is not there is its default."""
        value = self.written.get(name, "inf")
        return value in ("inf", math.inf)

    def number(self, name: str) -> float:
        """Return a finite number of zero or more."""
        if name not in self.written:
            raise self.error(f"{name} is missing: is this a result of `vllm bench serve --save-result`?")
        return self._checked(name, self.written[name])

    def optional(self, name: str) -> float | None:
        """Return a number, or None when it is not there."""
        value = self.written.get(name)
        return None if value is None else self._checked(name, value)

    def count(self, name: str) -> int:
        """Return a whole number."""
        value = self.number(name)
        if value != int(value):
            raise self.error(f"{name} is {value}, not a whole number")
        return int(value)

    def numbers(self, name: str) -> tuple[float, ...] | None:
        """Return a list of numbers, or None when it is not there."""
        value = self.written.get(name)
        return None if value is None else self.checked_list(name, value)

    def checked_list(self, name: str, value: object) -> tuple[float, ...]:
        """Return a list of finite numbers of zero or more."""
        if not isinstance(value, list):
            raise self.error(f"{name} is not a list")
        # Lists may have tens of thousands of entries, so they are looked at one by one only to name the wrong one.
        if set(map(type, value)) <= {float, int} and 0 <= min(value, default=0) <= max(value, default=0) <= _LARGEST:
            numbers = tuple(map(float, value))
            if all(map(math.isfinite, numbers)):
                return numbers
        return tuple(self._checked(name, each) for each in value)

    def _checked(self, name: str, value: object) -> float:
        # bool is an int to Python, and no number to anybody else.
        if isinstance(value, bool) or not isinstance(value, float | int) or not 0 <= value <= _LARGEST:
            raise self.error(f"{name} holds {str(value)[:40]!r}, not a number from 0 to {_LARGEST:g}")
        return float(value)
