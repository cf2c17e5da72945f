"""Policies over history: simulated, so that it is known what the law did, and made up, so that single effects show."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from scaler.backtest.counterfactual import Replica
from scaler.backtest.replay import Backtest, Case, Trial
from scaler.model import Absent, Action, Extra, Observation, PoolPolicy
from scaler.policy.narrate import narrate
from tests.builders import TICK_S, observation, policy
from tests.lived import BEGAN, COLD_START_S, SLOTS, rush_and_ebb

REPLICA = Replica(slots=4, cold_start_s=30.0)


def tried(
    pool: PoolPolicy, past: Iterable[Observation], *, since: float = 0.0, replica: Replica | None = None
) -> Trial:
    backtest = Backtest([Case("tried", pool, replica=replica)], since=since)
    for seen in past:
        backtest.see([seen])
    return backtest.trials[0]


def steady(load: float, replicas: int, ticks: int = 40, start: int = 0, **changes: Any) -> list[Observation]:
    return [observation(tick, load, replicas, **changes) for tick in range(start, start + ticks)]


def values(trial: Trial) -> Sequence[float]:
    return trial.counts.replicas.highs


def test_the_policy_that_was_run_is_told_what_it_said() -> None:
    pool, lived = rush_and_ebb()
    trial = tried(pool, lived.observations, since=BEGAN + 15)
    assert values(trial) == [decision.lands_on for decision in lived.decisions[1:]]
    # Each change is carried out a tick later: in between, and only then, advice and record differ.
    changes = trial.counts.changes
    assert changes.up >= 3
    assert changes.down >= 3
    assert trial.differences.more_s == changes.up * TICK_S
    assert trial.differences.fewer_s == changes.down * TICK_S
    acted = [decision for decision in lived.decisions if decision.action is not Action.HOLD]
    assert {period.story for period in trial.differences.periods} <= {narrate(decision) for decision in acted}


def test_carried_forward_the_policy_that_was_run_has_the_replicas_that_were_run() -> None:
    pool, lived = rush_and_ebb()
    trial = tried(pool, lived.observations, since=BEGAN + 15, replica=Replica(SLOTS, COLD_START_S))
    recorded = [float(seen.requested) for seen in lived.observations[1:] if not isinstance(seen.requested, Absent)]
    assert len(recorded) == len(values(trial))
    apart = [abs(ours - theirs) for ours, theirs in zip(values(trial), recorded, strict=True)]
    # The model has no replica that is late by half a tick, so a few ticks may be one replica apart.
    assert max(apart) <= 1
    assert sum(apart) <= 0.02 * sum(recorded)


def test_a_policy_for_larger_replicas_runs_fewer_and_makes_more_wait() -> None:
    pool, lived = rush_and_ebb()
    own = Replica(SLOTS, COLD_START_S)
    as_run = tried(pool, lived.observations, since=BEGAN + 15, replica=own)
    lean = tried(replace(pool, slots_per_replica=2 * SLOTS), lived.observations, since=BEGAN + 15, replica=own)
    assert lean.counts.replica_s < 0.8 * as_run.counts.replica_s
    assert lean.counts.waiting_s > as_run.counts.waiting_s
    assert lean.differences.fewer_s > lean.differences.more_s


def test_what_came_before_fills_the_windows_and_counts_for_nothing() -> None:
    backtest = Backtest([Case("tried", policy())], since=25 * TICK_S)
    for seen in steady(2, 3, ticks=30):
        backtest.see([seen])
    (trial,), recorded = backtest.trials, backtest.recorded[0]
    # Twenty ticks of a window were there before: the first tick that counts is one step down already.
    assert values(trial) == [2.0] * 5
    assert recorded.ticks == 5
    assert recorded.counts.replica_s == 3 * 5 * TICK_S
    assert sum(trial.reasons_s.values()) == 5 * TICK_S


def test_an_advice_that_nobody_follows_is_one_change() -> None:
    trial = tried(policy(), steady(16, 2, ticks=60))
    changes = trial.counts.changes
    assert (changes.up, changes.down, changes.reversals) == (1, 0, 0)
    (period,) = trial.differences.periods
    assert (period.ours, period.theirs) == ((4, 4), (2, 2))
    assert "in flight 16" in period.story


def test_changes_against_each_other_are_reversals() -> None:
    up_and_down = [*steady(16, 2, 20), *steady(1, 4, 60, start=20), *steady(16, 2, 20, start=80)]
    trial = tried(policy(), up_and_down)
    assert trial.counts.changes.reversals == 2


def test_own_replicas_follow_at_the_next_tick_and_serve_after_their_cold_start() -> None:
    trial = tried(policy(), steady(15, 2, ticks=10), replica=REPLICA)
    assert values(trial)[:5] == [2, 4, 4, 4, 4]
    assert trial.counts.serving.highs[:5] == [2, 2, 2, 4, 4]
    # 15 in flight on 8 slots, and on 16: 7 wait for the three ticks until the new ones serve.
    assert trial.counts.waiting.highs[:5] == [7, 7, 7, 0, 0]
    assert (trial.counts.queue_s, trial.counts.waiting_s) == (45.0, 7 * 45.0)


def test_a_difference_says_why_the_own_replicas_are_others() -> None:
    trial = tried(policy(), steady(15, 2, ticks=10), replica=REPLICA)
    (period,) = trial.differences.periods
    assert period.start == TICK_S
    assert period.reason == "burst"


def test_own_replicas_begin_as_the_recorded_ones_with_those_that_start() -> None:
    trial = tried(policy(), steady(10, 5, ticks=6, serving=3.0, ready=3.0), replica=REPLICA)
    assert trial.counts.serving.highs == [3, 3, 5, 5, 5, 5]


def test_latencies_have_no_vote_while_replicas_differ_and_it_is_said_for_how_long() -> None:
    slow = steady(14, 4, ticks=40, ttft_p95_s=9.0)
    both = [
        tried(policy(signals=signals), slow, replica=REPLICA) for signals in (policy().signals, policy().signals[:2])
    ]
    assert both[0].unjudged_s > 0
    assert both[1].unjudged_s == 0


def test_missing_data_is_counted_and_holds_the_own_replicas() -> None:
    lost = [Observation(at=tick * TICK_S, notes=("Prometheus did not answer",)) for tick in range(20, 40)]
    trial = tried(policy(), [*steady(15, 2, ticks=20), *lost], replica=REPLICA)
    assert values(trial)[-1] == values(trial)[19]
    assert trial.missing_s["saturation"] == 20 * TICK_S
    assert trial.missing_notes["saturation"] == "Prometheus did not answer"
    assert trial.unanswered_s == 0


def test_a_pool_of_which_nothing_is_known_has_no_answer_and_no_replicas() -> None:
    nothing = [Observation(at=tick * TICK_S) for tick in range(10)]
    backtest = Backtest([Case("advice", policy()), Case("own", policy(), replica=REPLICA)], since=0.0)
    for seen in nothing:
        backtest.see([seen])
    for trial in backtest.trials:
        assert trial.unanswered_s == 10 * TICK_S
        assert trial.counts.replica_s == 0
        assert trial.differences.periods == []
    assert backtest.recorded[0].unknown_s == 10 * TICK_S


@pytest.mark.parametrize("replica", [None, REPLICA])
def test_limits_and_protection_are_counted(replica: Replica | None) -> None:
    trial = tried(policy(max_replicas=3), steady(40, 3, ticks=10, ttft_samples=4.0), replica=replica)
    assert trial.limits_s["max_replicas"] == 10 * TICK_S
    assert trial.protection_s["2"] == 10 * TICK_S


def test_policies_of_different_pools_see_their_own() -> None:
    backtest = Backtest([Case("small", policy(), pool=0), Case("large", policy(), pool=1)], since=0.0)
    for one, other in zip(steady(2, 1), steady(60, 20), strict=True):
        backtest.see([one, other])
    assert [backtest.recorded[pool].counts.replica_s for pool in (0, 1)] == [40 * TICK_S, 20 * 40 * TICK_S]
    assert [values(trial)[0] for trial in backtest.trials] == [1, 20]


def test_impossible_readings_count_as_missing() -> None:
    odd = steady(8, 2, ticks=4, requested=float("nan"), serving=-1.0, waiting=float("inf"))
    trial = tried(policy(), odd, replica=REPLICA)
    assert trial.unanswered_s == 4 * TICK_S


def test_own_replicas_go_to_zero_and_are_woken_by_the_requests_that_were_recorded() -> None:
    name = "activation:gateway"
    pool = policy(min_replicas=0, activation=name, down_windows=4, signals=policy().signals[:2])
    # One replica was run all along, so nothing ever waited at the gateway.
    quiet = steady(0, 1, ticks=20, extras={name: Extra(0.0)})
    busy = steady(3, 1, ticks=20, start=20, extras={name: Extra(0.0)})
    trial = tried(pool, [*quiet, *busy], replica=REPLICA)
    assert values(trial)[19:23] == [0, 0, 1, 1]
    assert trial.counts.waiting.highs[20:24] == [3, 3, 3, 0]
    assert [period.reason for period in trial.differences.periods] == ["need_below"]
