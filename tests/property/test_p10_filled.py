"""P10: a history folded from the last hours is the history of having lived for ever, for all that decides."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scaler.model import Decision, Observation, PoolPolicy, SignalForm
from scaler.policy.decide import advance
from scaler.policy.history import Filling, History, memory_ticks
from tests.builders import TICK_S, observation, policy
from tests.property.strategies import fold, pasts, policies


def followed(pool: PoolPolicy, phases: list[tuple[float, int]], lag: int) -> list[Observation]:
    """What is seen of a pool for longer than it remembers: load that comes and goes, and a fleet that follows."""
    loads = [load for load, ticks in phases for _ in range(ticks)]
    repeats = (memory_ticks(pool) + 200) // len(loads) + 1
    history, wanted, seen = History(), [6] * lag, []
    for tick, load in enumerate(loads * repeats):
        requested = wanted.pop(0)
        seen.append(observation(tick, load, requested, slots=pool.slots_per_replica))
        history, decision = advance(pool, history, seen[-1])
        wanted.append(requested if decision.target is None else decision.target)
    return seen


phases = st.lists(st.tuples(st.sampled_from([2.0, 10.0, 30.0, 80.0]), st.integers(10, 120)), min_size=1, max_size=8)


@given(policies(), phases, st.integers(1, 6))
@settings(max_examples=15)
def test_a_filled_history_decides_as_a_lived_one(pool: PoolPolicy, script: list[tuple[float, int]], lag: int) -> None:
    # Of a latency some things are remembered for ever: its newest base, and what it has asked for.
    pool = replace(pool, signals=tuple(one for one in pool.signals if one.form is not SignalForm.LATENCY))
    seen = followed(pool, script, lag)
    lived, before = fold(pool, seen)
    remembered = seen[-memory_ticks(pool) :]
    filled, after = fold(pool, remembered)
    newest = len(after) // 10
    assert [published(one) for one in after[-newest:]] == [published(one) for one in before[-newest:]]
    since = remembered[0].at
    assert decisive(filled, since) == decisive(lived, since)


def published(decision: Decision) -> tuple[object, ...]:
    return decision.action, decision.target, decision.reported_value, [reason.code for reason in decision.reasons]


def decisive(history: History, since: float) -> History:
    """A history without what only tells since when, or for ever; of what was before ``since`` nothing decides."""
    instants = ("changed_at", "increased_at", "grown_at", "fell_at", "decreased_at", "starting_since", "rollout_at")
    old: dict[str, Any] = {name: None for name in instants if (getattr(history, name) or 0.0) <= since}
    return replace(history, over_since=None, latencies=(), latency_floor=None, decision=None, **old)


@given(policies(), pasts(), st.lists(st.integers(0, 50), max_size=6))
def test_a_tick_that_is_seen_again_is_no_new_window(
    pool: PoolPolicy, past: list[Observation], again: list[int]
) -> None:
    once, decisions = fold(pool, past)
    history, repeated = History(), []
    for number, seen in enumerate(past):
        history, decision = advance(pool, history, seen)
        for back in again:
            old = replace(past[max(0, number - back)], running=500.0, requested=1.0)
            assert advance(pool, history, old) == (history, decision)
        repeated.append(decision)
    assert (history, repeated) == (once, decisions)


@given(policies(), pasts())
def test_a_pool_whose_past_is_being_read_is_never_scaled_down(pool: PoolPolicy, past: list[Observation]) -> None:
    history = History()
    for seen in past:
        history, decision = advance(pool, history, seen, Filling(1, 2))
        if decision.target is not None and decision.from_replicas is not None:
            assert decision.target >= decision.from_replicas


@pytest.mark.parametrize("early_s", [0.0, 0.2, 7.0])
def test_a_second_sample_within_a_tick_is_not_a_window_of_its_own(early_s: float) -> None:
    pool = policy()
    history, decision = advance(pool, History(), observation(10, 8.0, 4))
    again = replace(observation(10, 80.0, 4), at=10 * TICK_S + early_s)
    assert advance(pool, history, again) == (history, decision)
