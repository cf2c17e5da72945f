"""Timed traces for ``vllm bench serve --dataset-name timed_trace``: requests with the very times at which to send them.

With ``--request-rate`` vLLM draws gaps and then stretches them so that the last request goes out at exactly
requests / rate. That is a Poisson process only under the condition of its count: runs scatter less than traffic does.
A trace has no such condition. One that was recorded brings its own bursts, and is only made faster or slower.
"""

import csv
import json
import math
import random
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import count, islice
from pathlib import Path
from typing import Final

from scaler.capacity.results import ResultError

CHUNK_TOKENS: Final = 16
"""Prompt tokens that one hash stands for: vLLM's own default."""
MAX_REQUESTS: Final = 1_000_000
_LEAST: Final = 2
_CSV_FIELDS: Final = ("TIMESTAMP", "ContextTokens", "GeneratedTokens")
"""Azure's public traces."""
_JSON_FIELDS: Final = ("timestamp", "input_length", "output_length")
"""vLLM's timed traces, Mooncake's among them."""


@dataclass(frozen=True, slots=True)
class TimedRequest:
    """One line of a trace."""

    at_s: float
    prompt_tokens: int
    output_tokens: int
    hashes: tuple[int, ...] = ()
    """What its prompt is made of, so that equal beginnings hit the prefix cache; empty = a prompt of its own."""


@dataclass(frozen=True, slots=True)
class Lengths:
    """Mean lengths in tokens, and by which share they differ, evenly and either way (vLLM's --random-range-ratio)."""

    prompt: int
    output: int
    spread: float = 0.0

    def __post_init__(self) -> None:
        if min(self.prompt, self.output) < 1 or not 0 <= self.spread < 1:
            raise ValueError(f"lengths are 1 token or more, and differ by a share from 0 to below 1: {self}")

    def draw(self, source: random.Random) -> tuple[int, int]:
        """Draw the lengths of a prompt and of an answer."""
        first, second = (source.uniform(1 - self.spread, 1 + self.spread) for _ in range(2))
        return max(1, round(self.prompt * first)), max(1, round(self.output * second))


def poisson(rate: float, requests: int, lengths: Lengths, *, seed: int) -> Iterator[TimedRequest]:
    """Yield requests that arrive independently of each other: exponential gaps, left as they were drawn.

    Lengths and times come from two sources, so that the requests of a seed are the same at every rate.

    Args:
        rate: Requests per second, on average.
        requests: How many.
        lengths: How long they are.
        seed: The same seed gives the same requests, and at twice the rate the same gaps at half their length.
    """
    times, sizes = random.Random(seed), random.Random(f"lengths {seed}")
    at_s = 0.0
    for _ in range(requests):
        at_s += times.expovariate(1.0) / rate
        yield TimedRequest(at_s, *lengths.draw(sizes))


def at_rate(recorded: Iterable[TimedRequest], rate: float, requests: int, *, part: int) -> tuple[TimedRequest, ...]:
    """Take one part of a recording and play it at a rate: gaps keep their proportions, and so bursts.

    Args:
        recorded: By time.
        rate: Requests per second, on average over the part.
        requests: How many one part has.
        part: 0 for the first, and so on; parts do not overlap, so they are repetitions.

    Raises:
        ResultError: The recording is too short, or all of its requests came at one moment.
    """
    found = tuple(islice(recorded, part * requests, (part + 1) * requests))
    if len(found) < max(requests, _LEAST):
        text = f"the recording ends within part {part + 1} of {requests} requests: fewer requests or repetitions"
        raise ResultError(text)
    first, length_s = found[0].at_s, found[-1].at_s - found[0].at_s
    if length_s <= 0:
        raise ResultError(f"part {part + 1} of the recording has all requests at one moment: no rate can be made of it")
    stretch = (requests - 1) / rate / length_s
    return tuple(
        TimedRequest((each.at_s - first) * stretch, each.prompt_tokens, each.output_tokens, each.hashes)
        for each in found
    )


def lines(requests: Iterable[TimedRequest], *, chunk_tokens: int = CHUNK_TOKENS) -> Iterator[str]:
    """Yield a trace as vLLM reads it, one JSON object a line, times in seconds.

    A prompt without hashes gets some that no other prompt has: it is computed in full, whatever came before.

    Raises:
        ResultError: A recorded prompt has fewer hashes than tokens of it.
    """
    # Above those of recordings, which count from 0.
    own = count(2**48)
    for each in requests:
        if each.hashes and len(each.hashes) * chunk_tokens < each.prompt_tokens:
            text = f"{len(each.hashes)} hashes of {chunk_tokens} tokens are no prompt of {each.prompt_tokens}"
            raise ResultError(f"{text}: say what a hash stands for with --chunk-tokens (Mooncake: 512)")
        hashes = each.hashes or tuple(islice(own, math.ceil(each.prompt_tokens / chunk_tokens)))
        line = {
            "timestamp": round(each.at_s, 6),
            "input_length": each.prompt_tokens,
            "output_length": each.output_tokens,
            "hash_ids": hashes,
        }
        yield json.dumps(line)


def read_recording(path: Path, *, milliseconds: bool = False) -> tuple[TimedRequest, ...]:
    """Read a recording: CSV with Azure's columns, or JSON lines with vLLM's fields.

    Args:
        path: The file; its name ends in .csv, or it has JSON lines.
        milliseconds: Whether times of JSON lines are in milliseconds, as Mooncake's are.

    Raises:
        ResultError: It cannot be read, or a line is not what it should be.
    """
    try:
        with path.open(encoding="utf-8", newline="") as file:
            read = _csv(file) if path.suffix == ".csv" else _jsonl(file, 0.001 if milliseconds else 1.0)
            found = []
            for number, each in enumerate(read, start=1):
                if number > MAX_REQUESTS:
                    raise ResultError(f"{path} has more than {MAX_REQUESTS} requests: cut it")
                found.append(each)
    except OSError as error:
        raise ResultError(f"{path} cannot be read: {error.strerror}") from error
    except (ValueError, OverflowError, RecursionError, KeyError, TypeError, AttributeError) as error:
        wanted = ", ".join(_CSV_FIELDS if path.suffix == ".csv" else _JSON_FIELDS)
        raise ResultError(f"{path}, request {len(found) + 1}: not {wanted}: {error}") from error
    return tuple(sorted(found, key=lambda each: each.at_s))


def _csv(file: Iterable[str]) -> Iterator[TimedRequest]:
    at, prompt, output = _CSV_FIELDS
    for row in csv.DictReader(file):
        # Seven digits of a second, of which Python reads six.
        time = datetime.fromisoformat(row[at][:26]).replace(tzinfo=UTC)
        yield _checked(time.timestamp(), row[prompt], row[output], ())


def _jsonl(file: Iterable[str], scale: float) -> Iterator[TimedRequest]:
    at, prompt, output = _JSON_FIELDS
    for line in file:
        if line.strip():
            row: Mapping[str, object] = json.loads(line)
            hashes = row.get("hash_ids") or ()
            if not isinstance(hashes, list | tuple) or not all(isinstance(each, int) for each in hashes):
                raise TypeError("hash_ids is not a list of whole numbers")
            yield _checked(float(str(row[at])) * scale, row[prompt], row[output], tuple(hashes))


def _checked(at_s: float, prompt: object, output: object, hashes: tuple[int, ...]) -> TimedRequest:
    # Exporters may write lengths as 512.0.
    found = TimedRequest(at_s, int(float(str(prompt))), int(float(str(output))), hashes)
    if not math.isfinite(at_s) or min(found.prompt_tokens, found.output_tokens) < 1:
        raise ValueError("a time is not finite, or a length is below 1")
    return found
