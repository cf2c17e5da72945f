"""The loop closed: a capacity measured on one simulated replica, made a trigger, keeps the SLO of a whole fleet."""

from functools import cache
from pathlib import Path

import pytest
import yaml

from scaler.capacity.measure import measure
from scaler.capacity.recommend import Server, recommend, snippet
from scaler.capacity.results import BenchResult, parse_result
from scaler.capacity.slo import Slo
from scaler.capacity.sweep import Sweep, fit
from scaler.config.trigger import parse_trigger
from scaler.model import PoolPolicy
from scaler.sim.closed_loop import Setup, run
from scaler.sim.fleet import Fleet
from scaler.sim.hpa import HpaSpec
from scaler.sim.request import Outcome
from scaler.sim.workload import LoadPhase, LoadProfile, TokenLengths, Traffic, poisson_arrivals
from tests.bench_results import Call, bench_file
from tests.steadiness import FLEET, SLOTS

SLO = Slo(ttft_s=2.5, tpot_s=0.15)
PROMPTS, ANSWERS = TokenLengths(400, 0.3, 2000), TokenLengths(570, 0.3, 2000)
RATES = (0.10, 0.13, 0.16, 0.20)
"""Requests/s on one replica, whose slots are all busy at 0.27."""
REQUESTS = 480
WARMUP = 50
RUN_OUT_S = 7200.0
HOUR_S = 3600.0


def steady(rate: float, seconds: float) -> LoadProfile:
    return LoadProfile((LoadPhase("steady", seconds, rate, rate),))


def benched(outcomes: list[Outcome], rate: float, seed: int) -> BenchResult:
    """What a benchmark's client would have written."""
    calls = [
        Call(
            each.request.arrived_at,
            each.ttft_s or 0.0,
            each.e2e_s,
            prompt=each.request.prompt_tokens,
            output=each.request.output_tokens,
            error="" if each.completed else "refused",
        )
        for each in outcomes
    ]
    # Arrivals are a Poisson process, as those of a timed trace: vLLM's own generator fixes their number.
    written = bench_file(calls, offered_rate=str(rate), seed=str(seed), replicas="1", cache_reset="yes")
    return parse_result(written, f"rate {rate}, seed {seed}")


def served(rate: float, seconds: float, seed: int, replicas: int) -> BenchResult:
    """Send to a fleet of always so many replicas."""
    arrivals = poisson_arrivals(steady(rate, seconds), prompt=PROMPTS, output=ANSWERS, seed=seed)
    fleet = Fleet(FLEET, replicas=replicas, arrivals=arrivals, seed=seed)
    return benched(fleet.advance(seconds + RUN_OUT_S), rate, seed)


@cache
def swept() -> Sweep:
    return fit(
        (served(rate, REQUESTS / rate, seed, replicas=1) for seed in (1, 2, 3) for rate in RATES), SLO, warmup=WARMUP
    )


def capacity_rate() -> float:
    capacity = swept().capacity
    assert capacity is not None
    return capacity.level.rate


@cache
def fitted_policy() -> PoolPolicy:
    sweep = swept()
    assert sweep.capacity is not None
    advice = recommend(sweep.capacity, SLO, server=Server(max_num_seqs=SLOTS))
    assert advice is not None
    trigger = yaml.safe_load(snippet(advice, deployment="vllm", model="", scaler_address="scaler:50051"))[0]
    return parse_trigger("serving", "vllm", trigger["metadata"], tick_s=15.0).policy


def attainment(result: BenchResult) -> float:
    return measure(result, SLO).attainment[0]


def test_the_capacity_of_the_simulated_replica_is_well_below_what_keeps_it_busy() -> None:
    capacity = swept().capacity
    assert capacity is not None
    lower, upper, slots = capacity.level.rate, capacity.first_failed, fitted_policy().slots_per_replica
    assert (lower, upper, slots) == (0.16, 0.20, 9)
    page = " ".join((Path(__file__).parents[2] / "docs/concepts/capacity.md").read_text(encoding="utf-8").split())
    assert f"between {lower:g} and {upper:g} requests/s, which makes {slots} slots" in page


@pytest.mark.parametrize("replicas", [2, 6])
def test_a_fleet_of_n_replicas_keeps_the_slo_at_n_times_the_capacity(replicas: int) -> None:
    assert attainment(served(replicas * capacity_rate(), HOUR_S / 2, seed=11, replicas=replicas)) >= SLO.attainment


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("seed", [11, 12, 13])
@pytest.mark.parametrize("replicas", [2, 3, 5, 8, 12, 16, 20])
def test_any_fleet_keeps_the_slo_at_its_capacity(replicas: int, seed: int) -> None:
    assert attainment(served(replicas * capacity_rate(), HOUR_S, seed=seed, replicas=replicas)) >= SLO.attainment


def scaled(replicas: int, seed: int) -> tuple[float, int]:
    """The live law in the loop, with the fitted policy; at its start n replicas serve n times the capacity."""
    rate = replicas * capacity_rate()
    setup = Setup(fitted_policy(), FLEET, HpaSpec(1, 100))
    seen = run(setup, Traffic(steady(rate, HOUR_S), PROMPTS, ANSWERS), replicas=replicas, seed=seed)
    assert seen.unserved == 0
    return attainment(benched(list(seen.outcomes), rate, seed)), seen.replicas


@pytest.mark.parametrize("replicas", [2, 6])
def test_the_live_law_with_the_fitted_slots_keeps_the_slo_and_about_n_replicas(replicas: int) -> None:
    share, kept = scaled(replicas, seed=11)
    assert share >= SLO.attainment
    assert replicas <= kept <= 2 * replicas


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("seed", [11, 12, 13])
@pytest.mark.parametrize("replicas", [2, 3, 5, 8, 12, 16, 20])
def test_the_live_law_keeps_the_slo_of_any_fleet(replicas: int, seed: int) -> None:
    share, kept = scaled(replicas, seed)
    assert share >= SLO.attainment
    assert replicas <= kept <= 2 * replicas
