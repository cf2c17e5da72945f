"""Results in the shape of ``vllm bench serve --save-result --save-detailed``, made of requests or of a simulation."""

import operator
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from scaler.capacity.results import BenchResult, parse_result


@dataclass(frozen=True, slots=True)
class Call:
    """One request as its client saw it, in seconds and tokens."""

    at: float
    ttft: float
    e2e: float
    queue: float = 0.0
    prompt: int = 64
    output: int = 64
    error: str = ""


def bench_file(calls: Sequence[Call], *, rate: float | str = "inf", **fields: Any) -> dict[str, Any]:
    """What vLLM writes; ``fields`` add to it or replace it."""
    failed = [bool(call.error) for call in calls]
    columns: dict[str, list[Any]] = {
        "input_lens": [call.prompt for call in calls],
        "output_lens": [0 if call.error else call.output for call in calls],
        "ttfts": [0.0 if call.error else call.ttft for call in calls],
        "latencies": [call.e2e for call in calls],
        "start_times": [1000.0 + call.at + call.queue for call in calls],
        "queue_times": [call.queue for call in calls],
        "errors": [call.error for call in calls],
    }
    good = [call for call in calls if not call.error]
    totals = {
        "failed": sum(failed),
        "total_input_tokens": sum(call.prompt for call in good),
        "total_output_tokens": sum(call.output for call in good),
    }
    return bench_lists(columns, rate=rate, **{**totals, **fields})


def bench_lists(columns: dict[str, list[Any]], *, rate: float | str = "inf", **fields: Any) -> dict[str, Any]:
    """What vLLM writes around its lists of requests, none of which failed; ``fields`` add to it or replace it."""
    starts, count = columns["start_times"], len(columns["start_times"])
    begin = min(map(operator.sub, starts, columns["queue_times"]))
    failed = fields.get("failed", 0)
    return {
        "date": "20261130-120000",
        "backend": "openai",
        "model_id": "tiny-llama",
        "tokenizer_id": "tiny-llama",
        "num_prompts": count,
        "request_rate": rate,
        "burstiness": 1.0,
        "max_concurrency": None,
        "duration": max(map(operator.add, starts, columns["latencies"])) - begin,
        "completed": count - failed,
        "failed": failed,
        "total_input_tokens": sum(columns["input_lens"]),
        "total_output_tokens": sum(columns["output_lens"]),
        **columns,
        **fields,
    }


def steady(
    *, rate: float = 4.0, count: int = 400, ttft: float = 0.1, e2e: float = 1.0, seed: str | None = "1", **fields: Any
) -> dict[str, Any]:
    """A run in which every request is alike and the client keeps its rate."""
    own = {"replicas": "1", "cache_reset": "yes"} | ({} if seed is None else {"seed": seed})
    calls = [Call(index / rate, ttft, e2e) for index in range(count)]
    return bench_file(calls, rate=rate, **{**own, **fields})


def results(*files: dict[str, Any]) -> list[BenchResult]:
    """Read several results; the order of the arguments is that of the runs."""
    numbered = ({**file, "date": f"20261130-{120000 + number}"} for number, file in enumerate(files))
    return [parse_result(file, f"run{number}.json") for number, file in enumerate(numbered)]
