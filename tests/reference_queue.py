"""A queue whose answers are known: one server, first come first served, 80 % of requests 20 ms and 20 % 180 ms.

What makes the figures what they are: a request is short when its draw is below 0.8; services are drawn from the seed
and gaps from the seed + 10,000, each from a source of its own; 50,000 requests run, and in the open loop the first
5,000 are load that is not judged. The closed loop counts all of them.
"""

import random
from functools import cache
from itertools import accumulate
from typing import Any

from scaler.capacity.results import BenchResult, parse_result
from scaler.capacity.slo import Slo
from tests.bench_results import bench_lists

REQUESTS = 50_000
WARMUP = 5_000
SEEDS = range(101, 113)
SLO = Slo(e2e_s=0.25, attainment=0.95)
FLOORS = {2: 98.85, 4: 97.22, 6: 94.70}
CLOSED_LOOP = (19.07, 19.43)
"""Requests per second of the slowest and of the fastest seed."""
FURTHER_FLOORS = {8: 90.84, 10: 85.52, 14: 64.74, 18: 19.30}


@cache
def services(seed: int) -> list[float]:
    source = random.Random(seed)
    return [0.02 if source.random() < 0.8 else 0.18 for _ in range(REQUESTS)]


def open_loop(rate: float, seed: int) -> BenchResult:
    gaps, at, free = random.Random(seed + 10_000), 0.0, 0.0
    starts, times = [], []
    for service in services(seed):
        at += gaps.expovariate(rate)
        free = max(at, free) + service
        starts.append(at)
        times.append(free - at)
    return _result(starts, times, [0.0] * REQUESTS, rate=rate, seed=str(seed))


def closed_loop(seed: int) -> BenchResult:
    """One request at a time: the next one goes when the answer is there, and all have waited since the start."""
    times = services(seed)
    starts = [0.0, *accumulate(times[:-1])]
    return _result(starts, times, starts, rate="inf", seed=str(seed), max_concurrency=1)


def _result(starts: list[float], times: list[float], queues: list[float], **fields: Any) -> BenchResult:
    one_token = [1] * REQUESTS
    columns: dict[str, list[Any]] = {
        "input_lens": one_token,
        "output_lens": one_token,
        "ttfts": times,
        "latencies": times,
    }
    columns |= {"start_times": starts, "queue_times": queues, "errors": [""] * REQUESTS}
    written = bench_lists(columns, **fields, replicas="1", cache_reset="yes")
    return parse_result(written, f"rate {fields['rate']}, seed {fields['seed']}")
