"""What the pool does, tick by tick: scenarios as (what is seen, what is expected, why)."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from scaler.model import Absent, Action, Decision, Observation, ReasonCode, SignalName, SignalWindows
from scaler.policy.decide import advance
from scaler.policy.history import History
from tests.builders import SATURATION, TICK_S, drive, observation, policy, run, targets


def steady(load: float, replicas: int, ticks: int, *, start: int = 0, **changes: Any) -> Iterator[Observation]:
    return (observation(start + tick, load, replicas, **changes) for tick in range(ticks))


def codes(decision: Decision) -> list[ReasonCode]:
    return [reason.code for reason in decision.reasons]


# --- up ---------------------------------------------------------------------------------------------------------------


def test_a_load_above_capacity_scales_up_once_it_lasted_its_window() -> None:
    decisions = run(policy(), steady(41, 8, 4))
    assert targets(decisions) == [8, 8, 11, 11]
    assert codes(decisions[0]) == [ReasonCode.WINDOW_UP]
    assert (
        decisions[0].reason.text
        == "in flight 41 > 1 x 4 slots x 8 replicas asks for 11 replicas, for 1 of 4 windows so far"
    )
    assert decisions[2].action is Action.SCALE_UP
    assert decisions[2].reason.text == (
        "in flight 41 > 1 x 4 slots x 8 replicas for 3 of 4 windows: needs 11 replicas,"
        " as 9 requests are more than the objective allows"
    )


def test_one_jittered_sample_does_not_start_the_window_again() -> None:
    seen = [*steady(41, 8, 2), observation(2, 20, 8), observation(3, 41, 8)]
    assert targets(run(policy(), seen)) == [8, 8, 8, 11]


def test_nothing_scales_up_on_a_need_that_the_newest_sample_no_longer_has() -> None:
    seen = [*steady(41, 8, 2), observation(2, 41, 8, requested=8.0), observation(3, 20, 8)]
    assert run(policy(up_windows=8), seen)[-1].action is Action.HOLD


@pytest.mark.parametrize(
    ("changes", "code_text"),
    [
        pytest.param({"kv_usage_ratios": (0.95,) * 4}, "KV-cache usage", id="KV cache"),
        pytest.param({"ttft_p95_s": 4.0}, "ttft_p95", id="TTFT"),
    ],
)
def test_any_one_signal_may_scale_up(changes: dict[str, Any], code_text: str) -> None:
    decision = run(policy(), [*steady(16, 4, 4), *steady(16, 4, 4, start=4, **changes)])[-1]
    assert decision.action is Action.SCALE_UP
    assert decision.reason.code is ReasonCode.NEED_ABOVE
    assert decision.reason.text.startswith(code_text)


def test_missing_signals_do_not_stop_a_scale_up() -> None:
    lost: dict[str, Any] = {"kv_usage_ratios": Absent.MISSING, "ttft_p95_s": Absent.MISSING}
    assert run(policy(), steady(41, 8, 4, **lost))[-1].target == 11


def test_a_burst_waits_for_neither_window_nor_cooldown() -> None:
    decisions = drive(policy(max_step_up=4), [8, 8, 8, 100, 100, 100, 100, 100], replicas=2)
    assert targets(decisions) == [2, 2, 2, 6, 12, 24, 24, 25]
    assert [decision.reason.code for decision in decisions[3:6]] == [ReasonCode.BURST] * 3


def test_a_step_is_limited_and_says_so() -> None:
    decision = run(policy(), [observation(0, 400, 8)])[0]
    assert decision.target == 16
    assert [limit.code for limit in decision.limits] == [ReasonCode.STEP_LIMIT]
    assert decision.limits[0].text == "100 replicas are needed; one step goes from 8 to 16 at most"


def test_max_replicas_caps_and_says_so() -> None:
    decision = run(policy(max_replicas=9), steady(41, 8, 4))[-1]
    assert decision.target == 9
    assert decision.limits[-1].text == "11 replicas are wanted; maxReplicas allows 9"


def test_at_max_replicas_the_limit_is_the_reason_to_hold() -> None:
    decision = run(policy(max_replicas=8), steady(41, 8, 4))[-1]
    assert decision.action is Action.HOLD
    assert codes(decision) == [ReasonCode.MAX_REPLICAS, ReasonCode.NEED_ABOVE]


def test_a_second_increase_waits_for_the_cooldown() -> None:
    pool = policy(up_windows=1, scale_up_cooldown_s=60.0)
    decisions = drive(pool, [41, 57, 57, 57, 57, 57], replicas=8)
    assert targets(decisions) == [11, 11, 11, 11, 15, 15]
    assert codes(decisions[2])[-1] is ReasonCode.COOLDOWN_UP


def test_an_increase_stays_published_until_it_is_carried_out() -> None:
    seen = [*steady(41, 8, 3), *steady(20, 8, 5, start=3)]
    decisions = run(policy(), seen)
    assert targets(decisions) == [8, 8, 11, 11, 11, 11, 8, 8]
    assert codes(decisions[3])[0] is ReasonCode.INCREASE_PENDING


def test_an_increase_that_was_carried_out_is_not_repeated_while_replicas_start() -> None:
    before = list(steady(41, 8, 3))
    after = [observation(tick, 41, 11, serving=8.0) for tick in range(3, 20)]
    decisions = run(policy(), [*before, *after])
    assert set(targets(decisions[2:])) == {11}


# --- down -------------------------------------------------------------------------------------------------------------


def test_a_light_load_scales_down_one_step_after_its_window() -> None:
    decisions = run(policy(), steady(8, 8, 20))
    assert [decision.action for decision in decisions[:17]] == [Action.HOLD] * 17
    last = decisions[17]
    assert (last.action, last.target) == (Action.SCALE_DOWN, 7)
    assert last.reason.text == (
        "4 replicas would have done all through the last 5 min (20 windows): 8 in flight on 8 replicas of 4 slots"
    )
    assert decisions[5].reason.text == (
        "4 replicas would do now, by saturation for 6 of 20 windows (8 in flight on 8 replicas of 4 slots)"
    )


def test_the_next_decrease_waits_for_the_cooldown_and_never_compounds() -> None:
    decisions = run(policy(), steady(8, 8, 26))
    assert targets(decisions[17:]) == [7] * 9
    assert codes(decisions[18])[0] is ReasonCode.DECREASE_PENDING


def test_a_decrease_is_not_undone_because_its_replicas_stop_before_the_counts_are_read_again() -> None:
    decided = list(steady(8, 8, 18))
    lagging = [observation(tick, 8, 8, serving=7.0, ready=7.0) for tick in range(18, 21)]
    decisions = run(policy(), [*decided, *lagging, *steady(8, 7, 3, start=21)])
    assert targets(decisions[17:]) == [7] * 7


def test_a_decrease_that_is_never_carried_out_is_weighed_again_after_four_ticks() -> None:
    decided = list(steady(8, 8, 18))
    starting = [observation(tick, 8, 8, serving=7.0, ready=7.0) for tick in range(18, 24)]
    decisions = run(policy(), [*decided, *starting])
    assert targets(decisions[17:]) == [7, 7, 7, 7, 8, 8, 8]
    assert codes(decisions[21])[0] is ReasonCode.REPLICAS_STARTING


def test_an_increase_that_nobody_follows_stays_published_when_data_were_lost_meanwhile() -> None:
    lost = [Observation(at=9 * TICK_S), Observation(at=10 * TICK_S)]
    seen = [
        *(observation(tick, 22, 4) for tick in range(9)),
        *lost,
        *(observation(tick, 22, 4) for tick in range(11, 16)),
    ]
    decisions = run(policy(), seen)
    assert targets(decisions[3:]) == [6] * 13
    assert (
        decisions[11].reason.text
        == "the increase to 6 replicas is asked for again since data are back, so it stays published"
    )


def test_an_increase_that_is_no_longer_asked_for_is_not_kept_by_lost_data() -> None:
    lost = [Observation(at=9 * TICK_S), Observation(at=10 * TICK_S)]
    seen = [
        *(observation(tick, 22, 4) for tick in range(9)),
        *lost,
        *(observation(tick, 12, 4) for tick in range(11, 16)),
    ]
    assert targets(run(policy(), seen))[-1] == 4


def test_a_decrease_on_its_way_gives_in_to_a_burst() -> None:
    decisions = run(policy(), [*steady(8, 8, 18), observation(18, 100, 8)])
    assert (decisions[17].target, decisions[18].target) == (7, 16)


def test_scale_down_in_closed_loop_goes_step_by_step_to_where_the_load_fits() -> None:
    decisions = drive(policy(scale_down_cooldown_s=30.0), [8] * 60, replicas=8)
    assert targets(decisions)[-1] == 4
    steps = {
        before - after
        for before, after in zip(targets(decisions), targets(decisions)[1:], strict=False)
        if before and after
    }
    assert steps == {0, 1}


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        pytest.param({"serving": 7.0, "ready": 7.0}, ReasonCode.REPLICAS_STARTING, id="a replica is starting"),
        pytest.param({"ready": 9.0}, ReasonCode.REPLICAS_UNREPORTED, id="a ready replica reports nothing"),
        pytest.param({"outdated": 2.0}, ReasonCode.ROLLOUT, id="a rollout is under way"),
        pytest.param({"preemptions": 1.0}, ReasonCode.PREEMPTIONS, id="requests were preempted"),
        pytest.param({"kv_usage_ratios": Absent.MISSING}, ReasonCode.SIGNAL_MISSING, id="KV is missing"),
        pytest.param({"ttft_p95_s": Absent.MISSING}, ReasonCode.SIGNAL_MISSING, id="TTFT is missing"),
        pytest.param({"running": Absent.MISSING}, ReasonCode.NO_DATA, id="load is missing"),
    ],
)
def test_what_forbids_a_scale_down(changes: dict[str, Any], code: ReasonCode) -> None:
    decision = run(policy(), [*steady(8, 8, 17), observation(17, 8, 8, **changes)])[-1]
    assert (decision.action, decision.target) == (Action.HOLD, 8)
    assert decision.reason.code is code


def test_scale_down_needs_its_signals_on_nine_tenths_of_the_window() -> None:
    def seen(lost: int) -> list[Observation]:
        gone: dict[str, Any] = {"kv_usage_ratios": Absent.MISSING}
        return [observation(tick, 8, 8, **(gone if 5 <= tick < 5 + lost else {})) for tick in range(20)]

    assert run(policy(), seen(2))[-1].action is Action.SCALE_DOWN
    assert run(policy(), seen(3))[-1].action is Action.HOLD


def test_one_busy_tick_in_the_window_keeps_every_replica() -> None:
    seen = [*steady(8, 8, 10), observation(10, 31, 8), *steady(8, 8, 19, start=11)]
    assert {decision.action for decision in run(policy(), seen)} == {Action.HOLD}


def test_after_an_increase_a_full_window_is_waited_for() -> None:
    loads = [8.0] * 3 + [100.0] + [8.0] * 40
    decisions = drive(policy(), loads, replicas=4)
    first_down = next(index for index, decision in enumerate(decisions) if decision.action is Action.SCALE_DOWN)
    raised_at = max(index for index, decision in enumerate(decisions) if decision.action is Action.SCALE_UP)
    assert first_down - raised_at >= 20


def test_min_replicas_is_never_undercut() -> None:
    decisions = drive(policy(min_replicas=3), [0.0] * 120, replicas=8)
    assert min(target for target in targets(decisions) if target is not None) == 3


# --- hold, missing data, unknown replicas -----------------------------------------------------------------------------


def test_between_the_thresholds_nothing_happens() -> None:
    decisions = run(policy(), steady(29, 8, 60))
    assert set(targets(decisions)) == {8}
    assert decisions[-1].reason.text == (
        "8 replicas fit: 29 in flight on 8 replicas of 4 slots needs 8, and 10 before fewer would do"
    )


def test_without_data_the_last_answer_is_held_and_its_age_is_known() -> None:
    blind = [Observation(at=tick * TICK_S) for tick in range(4, 40)]
    decisions = run(policy(), [*steady(41, 8, 4), *blind])
    assert set(targets(decisions[4:])) == {11}
    assert decisions[-1].usable_at == 3 * TICK_S
    assert decisions[-1].reason.text.startswith("no data to decide on, for 9 min:")


def test_without_data_the_reader_says_what_the_cause_is() -> None:
    blind = Observation(
        at=4 * TICK_S, notes=("Prometheus at http://prometheus:9090 cannot be asked: connection refused",)
    )
    assert run(policy(), [*steady(41, 8, 4), blind])[-1].reason.text == (
        "no data to decide on, for 15 s: Prometheus at http://prometheus:9090 cannot be asked: connection refused;"
        " the last answer is held"
    )


def test_lost_engine_metrics_hold_the_requested_count() -> None:
    lost = dict.fromkeys(("running", "waiting", "kv_usage_ratios", "ttft_p95_s"), Absent.MISSING)
    decisions = run(policy(), [*steady(8, 8, 5), *steady(8, 8, 60, start=5, **lost, serving=0.0)])
    assert set(targets(decisions)) == {8}


def test_without_kube_state_metrics_the_last_target_stands_for_the_requested_count() -> None:
    decisions = run(policy(), steady(41, 8, 8, requested=Absent.MISSING, ready=Absent.MISSING))
    assert targets(decisions)[-1] == 11
    assert decisions[-1].from_replicas == 11


def test_a_pool_of_which_nothing_is_known_has_no_target_and_says_where_it_looked() -> None:
    decision = run(policy(), [Observation(at=0.0, notes=("no series of this model",))])[0]
    assert decision.target is None
    assert decision.reported_value is None
    assert decision.usable_at is None
    assert "deployment/vllm in namespace serving: no series of this model" in decision.reason.text


def test_a_pool_at_zero_replicas_goes_to_its_minimum() -> None:
    nobody = Observation(at=0.0, requested=0.0, serving=0.0, ready=0.0)
    decision = run(policy(min_replicas=2), [nobody])[0]
    assert (decision.action, decision.target) == (Action.SCALE_UP, 2)
    assert decision.reason.code is ReasonCode.MIN_REPLICAS


def test_a_pool_above_its_maximum_is_brought_back_with_the_limit_as_reason() -> None:
    decision = run(policy(max_replicas=5), [observation(0, 30, 8)])[0]
    assert (decision.action, decision.target) == (Action.SCALE_DOWN, 5)
    assert decision.reason.code is ReasonCode.MAX_REPLICAS


def test_replicas_added_by_hand_are_kept_until_the_window_allows_fewer() -> None:
    decisions = run(policy(), [*steady(29, 8, 5), *steady(29, 12, 10, start=5)])
    assert targets(decisions)[-1] == 12


def test_history_is_bounded() -> None:
    history = History()
    for seen in steady(29, 8, 1000):
        history, _ = advance(policy(), history, seen)
    assert len(history.ticks) == 21
    assert len(history.latencies[0].minima) <= 61


def test_the_newest_signals_stand_in_the_decision_with_their_thresholds() -> None:
    decision = run(policy(), steady(41, 8, 4))[-1]
    states = {state.name: state for state in decision.signals}
    saturation = states[SignalName.SATURATION]
    assert (saturation.value, saturation.unit) == (41.0, "requests")
    assert saturation.scale_up_threshold == 32.0
    assert (saturation.up_need, saturation.down_need) == (11, 14)
    assert (saturation.up_windows_met, saturation.up_windows_required) == (4, 4)
    assert states[SignalName.TTFT_P95].scale_up_threshold == 2.5
    assert states[SignalName.KV_CACHE].scale_up_threshold == pytest.approx(0.9)


def test_windows_of_one_signal_can_differ() -> None:
    pool = policy()
    slow = replace(SATURATION, windows=SignalWindows(scale_up=8, scale_down=20))
    patient = replace(pool, signals=(slow, *pool.signals[1:]))
    assert targets(run(patient, steady(41, 8, 7))) == [8, 8, 8, 8, 8, 11, 11]


def test_at_the_minimum_nothing_is_waited_for() -> None:
    decision = run(policy(min_replicas=2), steady(1, 2, 5))[-1]
    assert decision.action is Action.HOLD
    assert decision.reason.code is ReasonCode.MIN_REPLICAS
    assert decision.reason.text == "1 in flight on 2 replicas of 4 slots needs 1, and minReplicas keeps 2"
