from dataclasses import replace

import pytest

from scaler.demo.record import Change, RunRecord, clock_time, reversals
from scaler.model import Decision, Reason, ReasonCode
from scaler.policy.decide import advance
from scaler.policy.history import History
from scaler.sim.engine import EngineSpec
from scaler.sim.fleet import Fleet, FleetSpec
from scaler.sim.request import Outcome, Request
from scaler.sim.workload import LoadPhase, LoadProfile
from tests.builders import observation, policy

PROFILE = LoadProfile(
    (LoadPhase("calm", 100.0, 2.0, 2.0), LoadPhase("rise", 100.0, 2.0, 8.0), LoadPhase("high", 100.0, 8.0, 8.0))
)
ENGINE = EngineSpec(slots=4, kv_capacity_tokens=10_000, step_s=0.1, step_per_sequence_s=0.0, prefill_tokens_per_s=1e6)


def record() -> RunRecord:
    return RunRecord(PROFILE, ttft_slo_s=1.0, settle_s=20.0, replicas=2)


def change(at: float, before: int, after: int) -> Change:
    return Change(at, before, after, "", "")


def decision(target: int, text: str, *limits: str) -> Decision:
    _, made = advance(policy(), History(), observation(1, 4.0, 2))
    return replace(
        made,
        target=target,
        reasons=(Reason(ReasonCode.NEED_ABOVE, text),),
        limits=tuple(Reason(ReasonCode.MAX_REPLICAS, limit) for limit in limits),
    )


def outcome(ttft_s: float | None, *, completed: bool = True) -> Outcome:
    return Outcome(Request(0.0, 1, 1), "pod", ended_at=5.0, completed=completed, ttft_s=ttft_s, preemptions=0)


@pytest.mark.parametrize(
    ("changes", "count"),
    [
        ([], 0),
        ([change(30, 2, 3), change(50, 3, 4)], 0),
        ([change(30, 2, 3), change(50, 3, 2)], 1),
        ([change(30, 2, 3), change(50, 3, 2), change(70, 2, 3)], 2),
        # Within 20 s of the phase's beginning replicas still follow what was before.
        ([change(10, 2, 3), change(50, 3, 2)], 0),
        # The rate was changing at one of them, or between them.
        ([change(90, 2, 3), change(110, 3, 2)], 0),
        ([change(150, 2, 3), change(170, 3, 2)], 0),
        ([change(90, 2, 3), change(240, 3, 2), change(260, 2, 3)], 1),
    ],
)
def test_only_changes_back_under_steady_load_are_reversals(changes: list[Change], count: int) -> None:
    assert reversals(changes, PROFILE, settle_s=20.0) == count


def test_a_change_is_explained_by_the_decision_that_first_wanted_it() -> None:
    seen = record()
    seen.see(30, decision(2, "2 fit"))
    seen.see(70, decision(5, "in flight 70", "9 replicas are wanted; maxReplicas allows 5"))
    seen.see(50, decision(5, "the increase is not carried out yet"))

    seen.add_change(42.0, 5)

    assert seen.changes == [
        Change(42.0, 2, 5, "calm", "in flight 70; 9 replicas are wanted; maxReplicas allows 5"),
    ]
    assert str(seen.changes[0]).startswith("0:42 calm      2 -> 5   in flight 70")
    assert seen.peak_load == 70


def test_the_summary_says_what_requests_got_and_what_it_cost() -> None:
    arrivals = [Request(98.0, 10, 500), *[Request(99.0, 10, 500)] * 9]
    fleet = Fleet(FleetSpec("vllm", ENGINE, cold_start_s=1.0), replicas=2, arrivals=arrivals, seed=1)
    seen = record()
    fleet.advance(60.0)
    seen.add_change(60.0, 3)
    fleet.scale(3)
    fleet.advance(80.0)
    seen.add_change(80.0, 2)
    fleet.scale(2)
    seen.see(40, None)
    seen.add_outcomes([outcome(0.5)] * 7 + [outcome(1.0), outcome(2.0)] + [outcome(None, completed=False)])
    # Two slots too few: two requests wait, and have missed the objective of 1 s by now.
    fleet.advance(100.1)

    lines = seen.summary(fleet)

    assert lines == [
        "ran for              1 min 40 s of 5 min",
        "peak load            40 requests in flight, 8 arriving a second",
        "replicas             2 to 3, 2 changes",
        "steady load          1 reversals",
        "requests             9 served, 10 in flight at the end, 1 lost",
        "time to first token  72.7% within 1 s",
        "replica-seconds      220; 3 all along: 300 (27% less)",
        "changes of replicas:",
        "  1:00 calm      2 -> 3   ",
        "  1:20 calm      3 -> 2   ",
    ]


def test_a_run_without_requests_and_changes_has_a_summary_too() -> None:
    fleet = Fleet(FleetSpec("vllm", ENGINE, cold_start_s=1.0), replicas=2, arrivals=[], seed=1)

    lines = record().summary(fleet)

    assert "time to first token  none to judge within 1 s" in lines
    assert lines[-1] == "  none"


@pytest.mark.parametrize(("seconds", "text"), [(0.0, "0:00"), (59.9, "0:59"), (95.2, "1:35"), (3600.0, "60:00")])
def test_times_are_minutes_and_seconds(seconds: float, text: str) -> None:
    assert clock_time(seconds) == text
