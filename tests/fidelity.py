"""The simulator beside recorded runs of a real vLLM 0.32.0 on a CPU: what was measured, and what is simulated."""

import csv
import json
import math
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from statistics import median, quantiles
from typing import Any, Final

from prometheus_client.parser import text_string_to_metric_families

from scaler.model import PoolLocator
from scaler.sim.engine import Engine, EngineSpec
from scaler.sim.fleet import Fleet, FleetSpec
from scaler.sim.observe import FleetScrape, observe, scrape
from scaler.sim.performance import preset
from scaler.sim.request import Outcome, Request

RECORDED: Final = Path(__file__).parent / "data/vllm-captures"
ENGINE: Final = preset("tiny-llama-cpu").engine
RATES: Final = (1, 4, 12, 30)
"""Requests per second of the benchmarks."""
BURST_AT_S: Final = 25.0
"""When the burst came, by the recording's clock: between the last sample without it and the first with it."""
SMALL_CACHE_FACTOR: Final = 0.82
"""How much longer everything took in the run with a small cache than in the others."""
_SCRAPE_S: Final = 2
_ROW_S: Final = 4
_USABLE_BLOCKS: Final = 19
"""Of 20 blocks, vLLM keeps one for itself."""


@dataclass(frozen=True)
class Benchmark:
    """What ``vllm bench serve`` says of a run, in s."""

    throughput: float
    ttft_median_s: float
    ttft_p95_s: float
    e2e_median_s: float
    most_in_flight: int


@dataclass(frozen=True)
class Row:
    """One line of the burst's timeline."""

    at: float
    running: int
    waiting: int
    ttft_p95_s: float
    """NaN without samples in the minute before."""


@dataclass(frozen=True)
class Burst:
    """24 requests at once on 4 slots."""

    timeline: tuple[Row, ...]
    ttft_median_s: float
    ttft_longest_s: float

    @property
    def lingering_s(self) -> int:
        """How long the P95 stayed above 70 s with nothing in flight."""
        return _ROW_S * sum(row.ttft_p95_s > 70 and not row.running for row in self.timeline)

    @property
    def drained_at(self) -> float:
        """The first line without a request in flight, after the burst."""
        return next(row.at for row in self.timeline if row.at > BURST_AT_S and not row.running)


@dataclass(frozen=True)
class SmallCache:
    """10 requests of 1,100 output tokens at once, with a KV cache of 20 blocks."""

    steps: int
    preemptions: int
    e2e_total_s: float
    ttft_total_s: float


def slower(engine: EngineSpec, factor: float) -> EngineSpec:
    """The engine on a machine on which everything takes ``factor`` times as long."""
    return replace(
        engine,
        step_s=engine.step_s * factor,
        step_per_sequence_s=engine.step_per_sequence_s * factor,
        step_per_kv_token_s=engine.step_per_kv_token_s * factor,
        prefill_tokens_per_s=engine.prefill_tokens_per_s / factor,
    )


@cache
def _bench_file(rate: int) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((RECORDED / f"bench_rate{rate}.json").read_text(encoding="utf-8"))
    return found


@cache
def recorded_benchmark(rate: int) -> Benchmark:
    """A recorded run."""
    found = _bench_file(rate)
    return Benchmark(
        throughput=found["request_throughput"],
        ttft_median_s=found["median_ttft_ms"] / 1000,
        ttft_p95_s=found["p95_ttft_ms"] / 1000,
        e2e_median_s=found["median_e2el_ms"] / 1000,
        most_in_flight=found["max_concurrent_requests"],
    )


@cache
def simulated_benchmark(rate: int, *, factor: float = 1.0) -> Benchmark:
    """The same requests at the same moments, simulated."""
    found = _bench_file(rate)
    rows = zip(found["start_times"], found["input_lens"], found["output_lens"], strict=True)
    first = min(found["start_times"])
    requests = sorted(
        (Request(at - first, prompt, output) for at, prompt, output in rows), key=lambda one: one.arrived_at
    )
    engine, ended, most = Engine(slower(ENGINE, factor), name="vllm", started_at=0.0), [], 0
    for request in requests:
        ended += engine.advance(request.arrived_at)
        engine.submit(request, request.arrived_at)
        most = max(most, engine.in_flight)
    ended += engine.advance(1e6)
    first_tokens = _first_tokens(ended)
    return Benchmark(
        throughput=len(ended) / max(one.ended_at for one in ended),
        ttft_median_s=median(first_tokens),
        ttft_p95_s=quantiles(first_tokens, n=20, method="inclusive")[-1],
        e2e_median_s=median(one.e2e_s for one in ended),
        most_in_flight=most,
    )


@cache
def recorded_burst() -> Burst:
    """The recorded run; the times of single requests are those that its client noted."""
    with (RECORDED / "prom_burst_timeline.csv").open(encoding="utf-8") as lines:
        rows = [
            Row(float(row["t_s"]), int(row["running"]), int(row["waiting"]), float(row["p95_ttft_1m"] or "nan"))
            for row in csv.DictReader(lines)
        ]
    return Burst(tuple(rows), ttft_median_s=25.5, ttft_longest_s=53.6)


@cache
def simulated_burst() -> Burst:
    """The same, scraped every 2 s as there, and read as Prometheus reads it."""
    # 24 prompts of 1,312 tokens together, with chances of a token more or less.
    arrivals = [Request(BURST_AT_S, 55, 1000)] * 24
    fleet = Fleet(FleetSpec("vllm", ENGINE, cold_start_s=0.0), replicas=1, arrivals=arrivals, seed=1)
    locator, scrapes, rows, ended = PoolLocator("demo", "tiny-llama", None), deque[FleetScrape](), [], []
    for at in range(_SCRAPE_S, 201, _SCRAPE_S):
        ended += fleet.advance(float(at))
        scrapes.append(scrape(fleet))
        if at % _ROW_S == 0:
            p95 = observe(locator, scrapes, None, float(at)).ttft_p95_s
            rows.append(Row(float(at), fleet.running, fleet.waiting, p95 if isinstance(p95, float) else math.nan))
    first_tokens = _first_tokens(ended)
    return Burst(tuple(rows), median(first_tokens), max(first_tokens))


@cache
def recorded_small_cache() -> SmallCache:
    """The page that was captured after the run."""
    page = (RECORDED / "vllm_0.32.0_cpu_smallkv_preempt.prom").read_text(encoding="utf-8")
    samples = {
        sample.name: sample.value for family in text_string_to_metric_families(page) for sample in family.samples
    }
    return SmallCache(
        steps=round(samples["vllm:iteration_tokens_total_count"]),
        preemptions=round(samples["vllm:num_preemptions_total"]),
        e2e_total_s=samples["vllm:e2e_request_latency_seconds_sum"],
        ttft_total_s=samples["vllm:time_to_first_token_seconds_sum"],
    )


def small_cache_engine() -> Engine:
    """The engine with the ten requests in it, as slow as the machine was by that run's mean inter-token latency."""
    # The page gives the sum of the prompts, 538 tokens, and that one of the ten has at most 50.
    prompts = (50, *[54] * 8, 56)
    blocks = ENGINE.block_tokens * _USABLE_BLOCKS
    engine = Engine(replace(slower(ENGINE, SMALL_CACHE_FACTOR), kv_capacity_tokens=blocks), name="vllm", started_at=0.0)
    for prompt in prompts:
        engine.submit(Request(0.0, prompt, 1100), 0.0)
    return engine


@cache
def simulated_small_cache() -> SmallCache:
    """The same, simulated."""
    engine = small_cache_engine()
    ended = engine.advance(1e6)
    return SmallCache(
        steps=engine.steps,
        preemptions=engine.stats.preemptions,
        e2e_total_s=sum(one.e2e_s for one in ended),
        ttft_total_s=sum(_first_tokens(ended)),
    )


def _first_tokens(ended: Sequence[Outcome]) -> list[float]:
    return [one.ttft_s for one in ended if one.ttft_s is not None]


def table() -> str:
    """The table of docs/concepts/simulator.md."""
    lines = ["| run | quantity | recorded | simulated |", "| --- | --- | --- | --- |"]
    lines += [f"| {run} | {what} | {seen} | {made} |" for run, what, seen, made in _rows()]
    return "\n".join(lines)


def _rows() -> list[tuple[str, str, str, str]]:
    burst, made_burst = recorded_burst(), simulated_burst()
    small, made_small = recorded_small_cache(), simulated_small_cache()
    name = "24 at once, 4 slots"
    rows = [
        (name, "median TTFT, s", f"{burst.ttft_median_s:.1f}", f"{made_burst.ttft_median_s:.1f}"),
        (name, "longest TTFT, s", f"{burst.ttft_longest_s:.1f}", f"{made_burst.ttft_longest_s:.1f}"),
        (
            name,
            "nothing in flight, s after the burst",
            f"{burst.drained_at - BURST_AT_S:.0f}",
            f"{made_burst.drained_at - BURST_AT_S:.0f}",
        ),
        (name, "P95 TTFT above 70 s with nothing in flight, s", str(burst.lingering_s), str(made_burst.lingering_s)),
    ]
    name = "10 at once, 20 KV blocks"
    rows += [
        (name, "steps", str(small.steps), str(made_small.steps)),
        (name, "preemptions", str(small.preemptions), str(made_small.preemptions)),
        (name, "sum of TTFT, s", f"{small.ttft_total_s:.0f}", f"{made_small.ttft_total_s:.0f}"),
        (name, "sum of E2E, s", f"{small.e2e_total_s:.0f}", f"{made_small.e2e_total_s:.0f}"),
    ]
    for rate in RATES:
        seen, made = recorded_benchmark(rate), simulated_benchmark(rate)
        name = f"{rate} a second"
        rows += [
            (name, "requests served a second", f"{seen.throughput:.2f}", f"{made.throughput:.2f}"),
            (name, "median TTFT, s", f"{seen.ttft_median_s:.3f}", f"{made.ttft_median_s:.3f}"),
            (name, "P95 TTFT, s", f"{seen.ttft_p95_s:.3f}", f"{made.ttft_p95_s:.3f}"),
            (name, "median E2E, s", f"{seen.e2e_median_s:.3f}", f"{made.e2e_median_s:.3f}"),
            (name, "most in flight", str(seen.most_in_flight), str(made.most_in_flight)),
        ]
    return rows
