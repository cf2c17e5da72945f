"""Scores: what counts as a miss, which law is on the front, and which beats another."""

import math
from typing import Any

import pytest

from scaler.sim.closed_loop import Change, Moment, Run
from scaler.sim.request import Outcome, Request, Slo
from scaler.sim.scoring import Score, Standing, front, score, standing

SLO = Slo(ttft_s=2.0, tpot_s=0.1, e2e_s=20.0)


def outcome(*, completed: bool = True, ttft_s: float | None = 1.0, e2e_s: float = 10.0) -> Outcome:
    return Outcome(Request(0.0, 10, 101), "pod", e2e_s, completed, ttft_s, 0)


def run(*outcomes: Outcome, unserved: int = 0, changes: tuple[Change, ...] = (), queue: int = 0) -> Run:
    moments = (Moment(0.0, 1.0, 0, queue, 1, 1, (1.0,)), Moment(15.0, 1.0, 0, 0, 1, 1, (1.0,)))
    return Run(moments, changes, outcomes, unserved, replica_hours=2.0)


@pytest.mark.parametrize(
    "missed",
    [
        outcome(ttft_s=2.1),
        outcome(e2e_s=11.2),
        outcome(ttft_s=11.0, e2e_s=20.5),
        outcome(completed=False),
        outcome(ttft_s=None, completed=False),
    ],
    ids=["first token", "time per token", "end to end", "cut off", "refused"],
)
def test_a_request_that_misses_one_objective_or_fails_is_a_miss(missed: Outcome) -> None:
    assert score(run(outcome(), missed), SLO, step_at_s=None).attainment == 0.5


def test_a_request_that_is_never_served_is_a_miss() -> None:
    seen = score(run(outcome(), unserved=3), SLO, step_at_s=None)
    assert (seen.attainment, seen.requests) == (0.25, 4)


def test_the_first_change_is_the_first_increase_after_the_step() -> None:
    changes = (Change(50.0, 2, 3), Change(120.0, 3, 2), Change(160.0, 2, 4), Change(200.0, 4, 5))
    seen = score(run(outcome(), changes=changes, queue=7), SLO, step_at_s=100.0)
    assert (seen.first_change_s, seen.changes, seen.reversals, seen.worst_queue) == (60.0, 4, 2, 7)
    assert score(run(outcome(), changes=changes), SLO, step_at_s=None).first_change_s is None
    assert score(run(outcome()), SLO, step_at_s=100.0).first_change_s is None


def scored(**changes: Any) -> Score:
    return Score(
        **{
            "attainment": 0.9,
            "replica_hours": 5.0,
            "changes": 2,
            "reversals": 0,
            "first_change_s": 30.0,
            "worst_queue": 1,
            "requests": 10,
        }
        | changes
    )


def test_over_the_seeds_the_worst_attainment_and_the_mean_cost_count() -> None:
    seen = standing(
        "law",
        [
            scored(attainment=0.95, replica_hours=4.0, reversals=3, changes=4, worst_queue=9),
            scored(attainment=0.85, replica_hours=6.0, first_change_s=90.0),
        ],
    )
    assert seen == Standing("law", 0.85, 5.0, 3.0, 3, 90.0, 9)
    assert standing("law", [scored(), scored(first_change_s=None)]).first_change_s is None


def placed(law: str, attainment: float, hours: float) -> Standing:
    return Standing(law, attainment, hours, 0.0, 0, None, 0)


def test_a_law_is_on_the_front_if_none_attains_as_much_for_less() -> None:
    laws = [placed("b", 0.95, 12), placed("c", 0.94, 13), placed("a", 0.90, 10), placed("d", 0.95, 12.5)]
    assert [each.law for each in front(laws)] == ["a", "b"]
    assert front([]) == ()


def test_one_law_beats_another_only_if_it_is_better_in_both() -> None:
    ours = placed("ours", 0.95, 12)
    assert placed("x", 0.96, 11).beats(ours)
    assert not placed("as good and cheaper", 0.95, 11).beats(ours)
    assert not placed("better and dearer", 0.99, 12.1).beats(ours)
    assert not placed("broken", math.nan, 1.0).beats(ours)
