"""A fleet whose requests take about a minute on 16 slots, for runs of hours with few requests."""

import random
from dataclasses import replace

from scaler.sim.closed_loop import Grid, Run, Setup, Timing, run
from scaler.sim.engine import EngineSpec
from scaler.sim.fleet import FleetSpec
from scaler.sim.hpa import EXACT, HpaSpec
from scaler.sim.workload import LoadPhase, LoadProfile, TokenLengths, Traffic
from tests.builders import KV_CACHE, SATURATION, TTFT, policy

SLOTS = 16
SERVICE_S = 60.0
"""About: a step of 100 ms with a full batch, 570 tokens."""
REPLICA_RATE = SLOTS / SERVICE_S
"""Requests per second that fill one replica: the unit of load."""
ENGINE = EngineSpec(
    slots=SLOTS, kv_capacity_tokens=100_000, step_s=0.08, step_per_sequence_s=0.00125, prefill_tokens_per_s=4000.0
)
FLEET = FleetSpec("vllm", ENGINE, cold_start_s=120.0, cold_start_spread=0.1)
POLICY = policy(
    slots_per_replica=SLOTS,
    signals=(replace(SATURATION, scale_up=0.9), KV_CACHE, TTFT),
    scale_down_noise=3.0,
    max_replicas=500,
)


def rush(*phases: tuple[float, float], replicas: int, seed: int) -> Run:
    """Run phases of (seconds, load in replicas' worth) with Poisson arrivals, a 120 s cold start and the real HPA.

    Scrapes, ticks and syncs fall at moments that the seed chooses; the HPA's tolerance is 0, as in our manifests.
    """
    chosen = random.Random(seed)
    timing = Timing(
        scrape=Grid(15.0, chosen.uniform(0, 15)),
        workload_scrape=Grid(30.0, chosen.uniform(0, 30)),
        sync=Grid(15.0, chosen.uniform(0, 15)),
    )
    hpa = HpaSpec(1, 500, behavior=EXACT)
    profile = LoadProfile(
        tuple(LoadPhase(f"{load:g}", seconds, load * REPLICA_RATE, load * REPLICA_RATE) for seconds, load in phases)
    )
    traffic = Traffic(profile, TokenLengths(400, 0.3, 2000), TokenLengths(570, 0.3, 2000))
    return run(Setup(POLICY, FLEET, hpa, timing), traffic, replicas=replicas, seed=seed)
