"""What the demo plays, and that it plays well: the law, the HPA and the fleet in virtual time, over many seeds."""

from dataclasses import dataclass, replace

import pytest
import yaml

from scaler.config.trigger import parse_trigger
from scaler.demo import scenario
from scaler.demo.record import RunRecord
from scaler.demo.scenario import Scenario, scaled_object
from scaler.model import Absent, Observation, PoolPolicy
from scaler.policy.buckets import TTFT_BOUNDS_S
from scaler.policy.decide import advance
from scaler.policy.history import History
from scaler.sim.fleet import Fleet
from scaler.sim.hpa import HpaController
from scaler.sim.replica import Phase
from scaler.sim.workload import poisson_arrivals

RATE_WINDOW_S = 10


def policy(plan: Scenario) -> PoolPolicy:
    trigger = parse_trigger(
        scenario.NAMESPACE,
        scenario.SCALED_OBJECT,
        {"scalerAddress": "127.0.0.1:1", **plan.metadata},
        tick_s=scenario.EVALUATION_INTERVAL_S,
    )
    assert trigger.warnings == ()
    return trigger.policy


class Scrapes:
    """What Prometheus would answer, one scrape late."""

    def __init__(self) -> None:
        self._pages: list[tuple[Observation, list[int]]] = []

    def scrape(self, fleet: Fleet) -> None:
        seen = [replica.engine for replica in fleet.replicas if replica.phase(fleet.now) is not Phase.STARTING]
        status = fleet.status()
        buckets = [
            sum(counts) for counts in zip(*(engine.stats.time_to_first_token.counts for engine in seen), strict=True)
        ]
        page = Observation(
            at=fleet.now,
            running=float(fleet.running),
            waiting=float(fleet.waiting),
            kv_usage_ratios=tuple(sorted(engine.kv_usage_ratio for engine in seen)),
            generation_tokens_per_s=0.0,
            preemptions=0.0,
            serving=float(len(seen)),
            requested=float(status.spec_replicas),
            ready=float(status.ready),
            outdated=0.0,
            newest_sample_age_s=1.0,
        )
        self._pages.append((page, buckets))

    def observation(self, at: float) -> Observation:
        page, buckets = self._pages[max(0, len(self._pages) - 2)]
        _, before = self._pages[max(0, len(self._pages) - 2 - RATE_WINDOW_S)]
        # Replicas that went took their counts along; Prometheus does not take that for new ones.
        fresh = [max(0, new - old) for new, old in zip(buckets, before, strict=True)]
        return replace(page, at=at, ttft_p95_s=p95(fresh), ttft_samples=float(sum(fresh)))


def p95(counts: list[int]) -> float | Absent:
    """Read as histogram_quantile does, but give the upper bound of the bucket."""
    rank, below = 0.95 * sum(counts), 0
    for count, bound in zip(counts, (*TTFT_BOUNDS_S, TTFT_BOUNDS_S[-1]), strict=True):
        below += count
        if below >= rank > 0:
            return bound
    return Absent.NO_TRAFFIC


@dataclass
class Played:
    record: RunRecord
    fleet: Fleet


def play(duration_s: float, seed: int) -> Played:
    """Let the law and the HPA run the demo's fleet, a second at a time."""
    plan = scenario.scenario(duration_s)
    pool, history, scrapes, hpa = policy(plan), History(), Scrapes(), HpaController(plan.hpa)
    arrivals = poisson_arrivals(plan.profile, prompt=plan.prompt, output=plan.output, seed=seed)
    fleet = Fleet(plan.fleet, replicas=plan.min_replicas, arrivals=arrivals, seed=seed)
    record = RunRecord(plan.profile, ttft_slo_s=plan.ttft_slo_s, settle_s=plan.settle_s, replicas=plan.min_replicas)
    for second in range(1, int(duration_s) + 1):
        record.add_outcomes(fleet.advance(second))
        scrapes.scrape(fleet)
        history, decision = advance(pool, history, scrapes.observation(float(second)))
        record.see(fleet.running + fleet.waiting, decision)
        if second % scenario.POLL_INTERVAL_S == 0:
            status = fleet.status()
            replicas = hpa.sync(
                second,
                spec_replicas=status.spec_replicas,
                status_replicas=status.replicas,
                value=decision.reported_value,
            )
            if replicas != status.spec_replicas:
                record.add_change(fleet.now, replicas)
                fleet.scale(replicas)
    return Played(record, fleet)


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("duration_s", [60.0, 180.0, 300.0])
def test_the_fleet_grows_with_the_burst_comes_back_and_does_not_reverse_under_steady_load(
    duration_s: float, seed: int
) -> None:
    played = play(duration_s, seed)

    assert played.record.most_replicas >= 8
    assert played.record.fewest_replicas == 2
    assert played.fleet.spec_replicas <= 4
    assert "steady load          0 reversals" in played.record.summary(played.fleet)


@pytest.mark.parametrize("duration_s", [60.0, 180.0, 3600.0])
def test_the_trigger_is_valid_and_all_phases_together_last_as_long_as_asked(duration_s: float) -> None:
    plan = scenario.scenario(duration_s)

    assert policy(plan).max_replicas == plan.hpa.max_replicas
    assert plan.profile.duration_s == pytest.approx(duration_s)
    assert [phase.name for phase in plan.profile.phases] == [
        *("calm", "rise", "plateau", "burst", "plateau", "ebb", "calm")
    ]


def test_short_demos_are_quicker_and_too_short_ones_are_refused() -> None:
    short, full, long = (scenario.scenario(length) for length in (60.0, 180.0, 3600.0))

    assert short.fleet.cold_start_s < full.fleet.cold_start_s == long.fleet.cold_start_s
    with pytest.raises(ValueError, match="at least 60 s, not 59 s"):
        scenario.scenario(59.0)


def test_the_scaled_object_is_the_one_that_is_played() -> None:
    plan = scenario.scenario(180.0)

    shown = yaml.safe_load(scaled_object(plan, scaler_address="127.0.0.1:5"))

    [trigger] = shown["spec"]["triggers"]
    assert trigger["metadata"] == {"scalerAddress": "127.0.0.1:5", **plan.metadata}
    assert all(isinstance(value, str) for value in trigger["metadata"].values())
    assert (shown["spec"]["minReplicaCount"], shown["spec"]["maxReplicaCount"]) == (2, 10)
