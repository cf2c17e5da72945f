"""Inputs that no healthy system gives: what the law makes of each is defined, and never a lower target."""

import math
from dataclasses import replace
from typing import Any

import pytest

from scaler.model import Absent, Action, Observation, ReplicaLoad
from scaler.policy.clean import HIGHEST_PLAUSIBLE, clean
from scaler.policy.decide import advance
from scaler.policy.history import History
from tests.builders import TICK_S, observation, policy, run, targets

READINGS = [
    "running",
    "waiting",
    "ttft_p95_s",
    "ttft_samples",
    "generation_tokens_per_s",
    "preemptions",
    "serving",
    "requested",
    "ready",
    "outdated",
    "newest_sample_age_s",
]
BAD = [math.nan, math.inf, -math.inf, -1.0, 1e300, HIGHEST_PLAUSIBLE * 2]


@pytest.mark.parametrize("name", READINGS)
@pytest.mark.parametrize("value", BAD, ids=str)
def test_an_impossible_reading_is_missing_and_says_so(name: str, value: float) -> None:
    changes: dict[str, Any] = {name: value}
    seen = clean(replace(observation(0, 8, 4), **changes))
    assert getattr(seen, name) is Absent.MISSING
    assert seen.notes[-1].startswith(f"{name} was ")


@pytest.mark.parametrize("value", BAD, ids=str)
def test_an_impossible_load_holds_the_last_answer(value: float) -> None:
    before = [observation(tick, 41, 8) for tick in range(4)]
    seen = [*before, *(observation(tick, 8, 8, running=value) for tick in range(4, 30))]
    assert set(targets(run(policy(), seen))[4:]) == {11}


def test_kv_usage_outside_its_range_is_clamped_and_nan_is_left_out() -> None:
    seen = clean(observation(0, 8, 4, kv_usage_ratios=(-0.3875, math.nan, 0.5, 7.0)))
    assert seen.kv_usage_ratios == (0.0, 0.5, 1.0)
    assert clean(observation(0, 8, 4, kv_usage_ratios=(math.nan,))).kv_usage_ratios is Absent.MISSING


def test_a_counter_reset_that_leaves_no_samples_is_no_reason_to_scale() -> None:
    restarted: dict[str, Any] = {"ttft_p95_s": Absent.NO_TRAFFIC, "ttft_samples": 0.0, "preemptions": 0.0}
    seen = [observation(tick, 29, 8, **(restarted if tick == 10 else {})) for tick in range(40)]
    assert set(targets(run(policy(), seen))) == {8}


def test_series_that_come_and_go_never_scale_down() -> None:
    gone: dict[str, Any] = {"running": Absent.MISSING, "waiting": Absent.MISSING, "kv_usage_ratios": Absent.MISSING}
    seen = [observation(tick, 8, 8, **(gone if tick % 3 == 0 else {})) for tick in range(120)]
    assert set(targets(run(policy(), seen))) == {8}


def test_one_late_sample_changes_nothing() -> None:
    whole = [observation(tick, 41, 8) for tick in range(4)]
    late = [*whole[:2], replace(whole[2], at=whole[2].at + 4.0), whole[3]]
    assert targets(run(policy(), whole))[-1] == targets(run(policy(), late))[-1] == 11


def test_a_gap_is_no_window_that_was_met() -> None:
    # Two ticks at the beginning and one an hour later are not three in a row.
    seen = [observation(0, 41, 8), observation(1, 41, 8), observation(241, 41, 8)]
    assert targets(run(policy(), seen)) == [8, 8, 8]
    history = History()
    for one in seen:
        history, _ = advance(policy(), history, one)
    assert [tick.at for tick in history.ticks[-3:]] == [239 * TICK_S, 240 * TICK_S, 241 * TICK_S]
    assert len(history.ticks) == 21


def test_a_thousand_replicas_are_decided_on_like_eight() -> None:
    replicas = tuple(ReplicaLoad(f"vllm-{index}", 4.0, 1.0, 50.0) for index in range(1000))
    pool = policy(max_replicas=5000, slots_per_replica=4)
    seen = [
        replace(observation(tick, 5000, 1000), kv_usage_ratios=(0.5,) * 1000, replicas=replicas) for tick in range(4)
    ]
    assert run(pool, seen)[-1].target == 1250


def test_an_observation_of_nothing_at_all_is_survived_for_ever() -> None:
    decisions = run(policy(), [Observation(at=tick * TICK_S) for tick in range(100)])
    assert {(decision.target, decision.action) for decision in decisions} == {(None, Action.HOLD)}
