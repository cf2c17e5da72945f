"""A pool that was scaled for some hours in a simulated cluster, with all that was seen of it on the way.

Times are Unix seconds from ``BEGAN`` on. Each tick is followed by what the HPA does, by a scrape of the replicas, and
by one of kube-state-metrics; so a tick sees replicas as they were 11 s before, and counts as they were 8 s before.
"""

import random
import subprocess
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from scaler.config.trigger import parse_trigger
from scaler.model import Decision, Observation, PoolPolicy
from scaler.policy.buckets import TTFT_BOUNDS_S
from scaler.policy.decide import advance
from scaler.policy.history import History
from scaler.sim.engine import EngineSpec
from scaler.sim.fleet import Fleet, FleetSpec
from scaler.sim.observe import FleetScrape, WorkloadScrape, observe, scrape
from scaler.sim.request import Request

BEGAN = 1_700_000_010.0
"""A tick."""
TICK_S = 15.0
SLOTS = 8
REPLICA_RATE = 0.4
"""Requests per second that fill one replica: they take about 20 s on one of 8 slots."""
COLD_START_S = 90.0
ENGINE = EngineSpec(
    slots=SLOTS, kv_capacity_tokens=40_000, step_s=0.08, step_per_sequence_s=0.0025, prefill_tokens_per_s=4000.0
)
METADATA = {
    "deployment": "vllm",
    "modelName": "llama",
    "slotsPerReplica": str(SLOTS),
    "ttftP95Seconds": "2.5",
    "minReplicas": "1",
    "maxReplicas": "20",
    "hpaTolerance": "0",
    # Between the age of the newest scrape and that of the one before: a pod that is gone is gone at once.
    "staleAfterSeconds": "20s",
}


@dataclass(frozen=True)
class Lived:
    """What happened; the nth observation and decision are of the nth tick."""

    observations: Sequence[Observation]
    decisions: Sequence[Decision]
    scrapes: Sequence[FleetScrape]
    workload_scrapes: Sequence[WorkloadScrape]

    @property
    def end(self) -> float:
        """The newest tick."""
        return self.observations[-1].at


def live(
    policy: PoolPolicy,
    phases: Sequence[tuple[float, float]],
    *,
    replicas: int,
    seed: int,
    scaled: Callable[[Decision], int | None] = lambda decision: decision.lands_on,
) -> Lived:
    """Live through phases of (seconds, load in replicas' worth).

    Args:
        policy: What decides.
        phases: The load.
        replicas: Replicas at the start.
        seed: The same seed gives the same traffic.
        scaled: The replicas that follow from a decision; by default what the HPA makes of it.
    """
    spec = FleetSpec("vllm", ENGINE, cold_start_s=COLD_START_S)
    fleet = Fleet(spec, replicas=replicas, arrivals=_arrivals(phases, seed), seed=seed, start=BEGAN)
    history, recent, workload = History(), deque[FleetScrape](maxlen=8), None
    observations, decisions, scrapes, workload_scrapes = [], [], [], []
    for tick in range(round(sum(seconds for seconds, _ in phases) / TICK_S)):
        at = BEGAN + tick * TICK_S
        fleet.advance(at)
        observations.append(observe(policy.locator, recent, workload, at))
        history, decision = advance(policy, history, observations[-1])
        decisions.append(decision)
        wanted = scaled(decision)
        fleet.advance(at + 1)
        if wanted is not None:
            fleet.scale(wanted)
        fleet.advance(at + 4)
        scrapes.append(scrape(fleet))
        recent.append(scrapes[-1])
        fleet.advance(at + 7)
        workload = WorkloadScrape(fleet.now, fleet.status())
        workload_scrapes.append(workload)
    return Lived(observations, decisions, scrapes, workload_scrapes)


@cache
def rush_and_ebb() -> tuple[PoolPolicy, Lived]:
    """A pool of two replicas for 75 min: calm, a rush that needs five times as many, and less than before."""
    policy = parse_trigger("serving", "vllm", METADATA, tick_s=TICK_S).policy
    return policy, live(policy, [(900, 1.0), (900, 4.0), (2700, 0.5)], replicas=2, seed=1)


def _arrivals(phases: Sequence[tuple[float, float]], seed: int) -> Iterator[Request]:
    source = random.Random(seed)
    at, end = BEGAN, BEGAN
    for seconds, load in phases:
        end += seconds
        while load > 0:
            at += source.expovariate(load * REPLICA_RATE)
            if at >= end:
                break
            yield Request(at, prompt_tokens=source.randint(100, 600), output_tokens=source.randint(100, 300))
        at = end


def write_blocks(lived: Lived, *, namespace: str, promtool: Path, data_dir: Path) -> None:
    """Write what was scraped into the folder of a Prometheus that is not running, as it would have stored it."""
    data_dir.mkdir(parents=True, exist_ok=True)
    text = data_dir / "scraped.om"
    with text.open("w", encoding="utf-8") as file:
        for one in lived.scrapes:
            file.writelines(_engine_samples(one, namespace))
        for counts in lived.workload_scrapes:
            file.writelines(_workload_samples(counts, namespace))
        file.write("# EOF\n")
    command = [str(promtool), "tsdb", "create-blocks-from", "openmetrics", "-q", str(text), str(data_dir / "tsdb")]
    subprocess.run(command, check=True, capture_output=True, timeout=60)


def _engine_samples(seen: FleetScrape, namespace: str) -> Iterator[str]:
    for name, replica in seen.replicas.items():
        labels = f'namespace="{namespace}",pod="{name}",instance="{name}:8000",model_name="llama",engine="0"'
        values = {
            "num_requests_running": replica.running,
            "num_requests_waiting": replica.waiting,
            "kv_cache_usage_perc": replica.kv_usage_ratio,
            "num_preemptions_total": replica.preemptions,
            "generation_tokens_total": replica.generation_tokens,
            "time_to_first_token_seconds_count": replica.ttft_buckets[-1],
        }
        for metric, value in values.items():
            yield f"vllm:{metric}{{{labels}}} {value} {seen.at}\n"
        for bound, count in zip((*TTFT_BOUNDS_S, "+Inf"), replica.ttft_buckets, strict=True):
            yield f'vllm:time_to_first_token_seconds_bucket{{{labels},le="{bound}"}} {count} {seen.at}\n'


def _workload_samples(seen: WorkloadScrape, namespace: str) -> Iterator[str]:
    status = seen.status
    counts = {
        "kube_deployment_spec_replicas": status.spec_replicas,
        "kube_deployment_status_replicas_ready": status.ready,
        "kube_deployment_status_replicas": status.replicas,
        "kube_deployment_status_replicas_updated": status.replicas,
    }
    for metric, value in counts.items():
        yield f'{metric}{{namespace="{namespace}",deployment="vllm",instance="ksm-0"}} {value} {seen.at}\n'
