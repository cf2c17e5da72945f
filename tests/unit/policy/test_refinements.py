"""What refines the law: spare replicas, cost, protection, rollouts, regret, futility, zero replicas, the HPA."""

from dataclasses import replace
from typing import Any

import pytest

from scaler.model import (
    Absent,
    Action,
    Decision,
    Extra,
    Observation,
    PoolPolicy,
    Protection,
    Reading,
    ReasonCode,
    SignalForm,
    SignalName,
    SignalPolicy,
)
from scaler.policy.decide import advance
from scaler.policy.history import History
from tests.builders import (
    DEFAULT_WINDOWS,
    KV_CACHE,
    SATURATION,
    TICK_S,
    TTFT,
    drive,
    loads,
    observation,
    policy,
    run,
    targets,
)

AT_ZERO = replace(
    policy(min_replicas=0, activation="activation:router"),
    locator=replace(policy().locator, extras=("activation:router",)),
)


def steady(load: float, replicas: int, ticks: int, *, start: int = 0, **changes: Any) -> list[Observation]:
    return [observation(start + tick, load, replicas, **changes) for tick in range(ticks)]


def diagnosed(decision: Decision) -> set[ReasonCode]:
    return {reason.code for reason in decision.diagnostics}


def limits(decision: Decision) -> list[ReasonCode]:
    return [reason.code for reason in decision.limits]


# --- spare replicas, cost ---------------------------------------------------------------------------------------------


def test_spare_replicas_come_on_top_of_the_need() -> None:
    decisions = drive(policy(warm_replicas=2), [41] * 8, replicas=8)
    assert targets(decisions)[-1] == 13
    up = next(decision for decision in decisions if decision.action is Action.SCALE_UP)
    assert limits(up) == [ReasonCode.WARM_REPLICAS]
    assert up.reason.text.startswith("in flight 41 > 1 x 4 slots x 6 replicas (and 2 spare)")


def test_spare_replicas_stay_when_the_load_goes() -> None:
    assert targets(drive(policy(warm_replicas=2), [0.0] * 200, replicas=8))[-1] == 2


def test_cost_limits_an_increase_and_the_record_shows_the_budget() -> None:
    pool = policy(replica_hourly_cost=2.5, max_hourly_cost=24.0)
    decision = run(pool, steady(41, 8, 4))[-1]
    assert decision.target == 9
    assert decision.limits[-1].code is ReasonCode.COST_LIMIT
    assert decision.limits[-1].text == "11 replicas are wanted; maxHourlyCost 24 pays for 9 at 2.5 each"
    assert (decision.hourly_cost, decision.max_hourly_cost) == (22.5, 24.0)


# --- protection, stuck replicas ---------------------------------------------------------------------------------------


def test_a_capped_pool_is_in_protection_and_a_long_wait_raises_the_grade() -> None:
    pool = policy(max_replicas=8, protect_queue_wait_s=30.0)
    short = run(pool, steady(41, 8, 4, ttft_samples=60.0))[-1]
    long = run(pool, steady(141, 8, 4, ttft_samples=60.0))[-1]
    assert (short.protection, short.queue_wait_s) == (Protection.CAPPED, 9.0)
    assert (long.protection, long.queue_wait_s) == (Protection.QUEUEING, 109.0)
    assert long.protection_reason == (
        "36 replicas are needed, and limits allow 8; a request that comes now waits about 1 min 49 s"
    )


def test_a_pool_that_can_still_grow_is_not_in_protection() -> None:
    decision = run(policy(), steady(41, 8, 4))[-1]
    assert (decision.protection, decision.protection_reason) == (Protection.NONE, "")


def test_a_queue_that_nobody_serves_is_the_highest_grade() -> None:
    decision = run(policy(max_replicas=8), steady(41, 8, 4, ttft_samples=0.0, ttft_p95_s=Absent.NO_TRAFFIC))[-1]
    assert decision.protection is Protection.QUEUEING
    assert decision.queue_wait_s is Absent.NO_TRAFFIC


def starting(ticks: int, *, start: int, load: float = 60.0, timeout_s: float = 600.0) -> list[Decision]:
    """Eleven are requested, nine serve, two never start."""
    pool = policy(cold_start_timeout_s=timeout_s)
    seen = [*steady(41, 8, 4), *steady(load, 11, ticks, start=start, serving=9.0, ready=9.0)]
    return run(pool, seen)


def test_replicas_that_do_not_start_stop_further_increases_after_the_timeout() -> None:
    decisions = starting(60, start=4)
    assert max(target or 0 for target in targets(decisions[:20])) == 15
    stuck = decisions[-1]
    assert stuck.protection >= Protection.CAPPED
    assert stuck.reason.code is ReasonCode.REPLICAS_STUCK
    assert stuck.target == 11
    assert "2 replicas of 11 have been starting for" in stuck.reason.text


def test_replicas_that_do_not_start_do_not_freeze_a_scale_down() -> None:
    decisions = starting(120, start=4, load=4.0)
    assert decisions[-1].action is Action.SCALE_DOWN
    assert decisions[30].action is Action.HOLD


def test_progress_starts_the_cold_start_timeout_again() -> None:
    seen = [*steady(41, 8, 4)]
    seen += [observation(4 + tick, 60, 11, serving=8.0 + tick // 30, ready=8.0 + tick // 30) for tick in range(80)]
    decisions = run(policy(cold_start_timeout_s=600.0), seen)
    assert all(decision.reason.code is not ReasonCode.REPLICAS_STUCK for decision in decisions)


# --- rollouts ---------------------------------------------------------------------------------------------------------


def test_no_scale_down_during_a_rollout_nor_for_a_while_after_it() -> None:
    seen = [*steady(8, 8, 30), *steady(8, 8, 4, start=30, outdated=3.0), *steady(8, 8, 22, start=34)]
    decisions = run(policy(rollout_hold_s=300.0), seen)
    assert decisions[29].action is Action.SCALE_DOWN
    assert all(decision.action is not Action.SCALE_DOWN for decision in decisions[30:54])
    assert decisions[40].reason.text.startswith("a rollout has just ended: no scale-down for")
    assert decisions[-1].action is Action.SCALE_DOWN


def restarting(value: Reading) -> Decision:
    """A pool that would have shrunk, but for what it reads of restarts."""
    locator = replace(policy().locator, extras=("restarts",), restart_window_s=600.0)
    return run(replace(policy(), locator=locator), steady(8, 8, 30, extras={"restarts": Extra(value)}))[-1]


def test_no_scale_down_for_a_while_after_a_restart() -> None:
    held = restarting(2.0)
    assert (held.action, held.reason.code) == (Action.HOLD, ReasonCode.RESTARTS)
    assert held.reason.text == "engines have restarted 2 times within the last 10 min: no scale-down meanwhile"
    assert restarting(0.0).action is Action.SCALE_DOWN


def test_no_scale_down_while_restarts_cannot_be_read() -> None:
    held = restarting(Absent.MISSING)
    assert (held.action, held.reason.code) == (Action.HOLD, ReasonCode.SIGNAL_MISSING)


def test_a_partitioned_rollout_does_not_freeze_the_pool_for_good() -> None:
    decisions = run(policy(cold_start_timeout_s=600.0), steady(8, 8, 60, outdated=3.0))
    assert decisions[30].reason.code is ReasonCode.ROLLOUT
    assert decisions[-1].action is Action.SCALE_DOWN


# --- regret -----------------------------------------------------------------------------------------------------------


def test_an_increase_soon_after_a_decrease_doubles_the_scale_down_window() -> None:
    loads = [8.0] * 22 + [40.0] * 8 + [8.0] * 60
    decisions = drive(policy(), loads, replicas=8)
    raised_at = max(index for index, decision in enumerate(decisions) if decision.action is Action.SCALE_UP)
    lowered_at = [index for index, decision in enumerate(decisions) if decision.action is Action.SCALE_DOWN]
    assert lowered_at[0] < raised_at
    assert min(index for index in lowered_at if index > raised_at) - raised_at >= 40
    assert ReasonCode.REGRET in diagnosed(decisions[-1])
    assert decisions[-1].signals[0].down_windows_required == 40


def test_regret_is_forgotten_after_two_hours_and_never_exceeds_eight_times() -> None:
    history = replace(History(), regrets=tuple(float(at) for at in range(20)))
    assert history.patience == 8
    history, decision = advance(policy(), history, observation(1000, 8, 8))
    assert history.patience == 1
    assert ReasonCode.REGRET not in diagnosed(decision)


# --- futility ---------------------------------------------------------------------------------------------------------


def futile(ticks: int, *, helps: bool) -> list[Decision]:
    """TTFT is far above its objective for prompts that are long by themselves, with some queue and free slots."""
    pool = policy(max_replicas=60, scale_up_cooldown_s=0.0)
    history, decisions, requested = History(), [], 8
    for tick in range(ticks):
        ttft = 40.0 / requested if helps else 5.0
        seen = observation(tick, 2.5 * requested, requested, waiting=1.0, running=2.5 * requested, ttft_p95_s=ttft)
        history, decision = advance(pool, history, seen)
        decisions.append(decision)
        requested = decision.target or requested
    return decisions


def test_latency_that_more_replicas_do_not_lower_stops_asking_after_two_increases() -> None:
    decisions = futile(60, helps=False)
    assert len(set(targets(decisions))) == 3
    assert ReasonCode.FUTILE_LATENCY in diagnosed(decisions[-1])
    assert decisions[-1].action is Action.HOLD


def test_latency_that_more_replicas_lower_goes_on_asking_until_it_is_met() -> None:
    decisions = futile(60, helps=True)
    assert targets(decisions)[-1] == 16
    assert ReasonCode.FUTILE_LATENCY not in diagnosed(decisions[-1])


# --- the latency's base -----------------------------------------------------------------------------------------------


def test_a_quantile_that_lingers_in_a_pool_gone_quiet_is_not_its_base() -> None:
    burst = steady(40, 4, 3, ttft_p95_s=9.0)
    lingering = steady(2, 4, 3, start=3, ttft_p95_s=9.0)
    quiet = steady(2, 4, 8, start=6, ttft_p95_s=0.2)
    history = History()
    for seen in [*burst, *lingering]:
        history, decision = advance(policy(), history, seen)
        assert history.latencies[0].base_s == 0.0
        assert ReasonCode.LATENCY_BASE not in diagnosed(decision)
    for seen in quiet:
        history, _ = advance(policy(), history, seen)
    assert history.latencies[0].base_s == 0.2


# --- how much a latency may ask for ---------------------------------------------------------------------------------


def test_a_latency_asks_for_no_more_than_the_load_would_be_left_with_or_a_quarter() -> None:
    slow: dict[str, Any] = {"ttft_p95_s": 400.0}
    queued = run(policy(), [observation(0, 8, 8), *steady(41, 8, 4, start=1, **slow)])[-1].signals[2]
    long_prompts = run(policy(), [observation(0, 8, 20), *steady(41, 20, 4, start=1, **slow)])[-1].signals[2]
    assert (queued.up_need, long_prompts.up_need) == (12, 25)


def test_a_queue_that_other_replicas_have_room_for_is_no_reason_for_more() -> None:
    stuck = steady(60, 37, 4, running=30.0, waiting=30.0, ttft_p95_s=400.0)
    decision = run(policy(slots_per_replica=16), stuck)[-1]
    assert decision.action is Action.HOLD
    assert decision.signals[2].note == (
        "ttft_p95 is of a queue that other replicas have room for: more replicas cannot mend routing"
    )


# --- zero -------------------------------------------------------------------------------------------------------------


def asleep(tick: int, activation: float | Absent, **changes: Any) -> Observation:
    extras = {"activation:router": Extra(activation)}
    return replace(Observation(at=tick * TICK_S, requested=0.0, serving=0.0, ready=0.0, extras=extras), **changes)


def test_a_pool_at_zero_sleeps_while_nothing_waits_and_wakes_when_something_does() -> None:
    decisions = run(AT_ZERO, [asleep(0, 0.0), asleep(1, 3.0)])
    assert [(one.target, one.active, one.action) for one in decisions] == [
        (0, False, Action.HOLD),
        (1, True, Action.SCALE_UP),
    ]
    assert decisions[1].reason.text == "activation:router is 3 > 0 while no replica runs: the pool wakes"


@pytest.mark.parametrize("lost", [asleep(1, Absent.MISSING), asleep(1, 0.0, extras={})])
def test_a_missing_activation_is_an_error_and_not_idleness(lost: Observation) -> None:
    decision = run(AT_ZERO, [asleep(0, 0.0), lost])[-1]
    assert decision.target is None
    assert decision.reason.code is ReasonCode.ACTIVATION_MISSING


def test_the_last_replica_goes_only_when_what_wakes_the_pool_is_quiet() -> None:
    def idle(tick: int, activation: float | Absent) -> Observation:
        extras = {"activation:router": Extra(activation)}
        return observation(tick, 0, 1, ttft_p95_s=Absent.NO_TRAFFIC, ttft_samples=0.0, extras=extras)

    quiet = run(AT_ZERO, [idle(tick, 0.0) for tick in range(30)])[-1]
    busy = run(AT_ZERO, [idle(tick, 2.0) for tick in range(30)])[-1]
    unknown = run(AT_ZERO, [idle(tick, Absent.MISSING) for tick in range(30)])[-1]
    assert (quiet.target, quiet.active, quiet.reported_value) == (0, False, 0.0)
    assert (busy.target, busy.active) == (1, True)
    assert (unknown.target, unknown.active) == (1, True)


def test_a_woken_pool_stays_until_its_first_replica_reports() -> None:
    seen = [asleep(0, 3.0), *(asleep(tick, 0.0, requested=1.0) for tick in range(1, 20))]
    assert {decision.target for decision in run(AT_ZERO, seen)} == {1}


# --- the HPA ----------------------------------------------------------------------------------------------------------


def test_an_increase_that_the_hpa_would_ignore_goes_to_the_next_count_that_it_follows() -> None:
    decision = run(policy(hpa_tolerance=0.1), steady(84, 20, 4))[-1]
    assert (decision.target, decision.reported_value, decision.lands_on) == (21, 23.0, 23)
    assert decision.limits[-1].code is ReasonCode.HPA_OVERSHOOT


def test_a_large_pool_shrinks_by_a_fifth_at_once() -> None:
    decision = run(policy(max_step_down=1), steady(40, 40, 20))[-1]
    assert (decision.action, decision.target) == (Action.SCALE_DOWN, 32)


def test_an_increase_that_no_noise_explains_waits_for_neither_window_nor_cooldown() -> None:
    rushed = policy(slots_per_replica=16, signals=(SATURATION,))
    decisions = run(rushed, [observation(0, 60, 6, slots=16), observation(1, 140, 6, slots=16)])
    assert decisions[-1].reason.code is ReasonCode.BURST
    assert decisions[-1].target == 9
    assert "which no noise explains" in decisions[-1].reason.text
    # 120 in flight on 96 slots may be noise: three times its square root is 33.
    assert run(rushed, [observation(0, 120, 6, slots=16)])[-1].action is Action.HOLD


def test_a_large_pool_shrinks_by_the_shortest_step_that_the_hpa_follows() -> None:
    decision = run(policy(hpa_tolerance=0.3), steady(40, 20, 20))[-1]
    assert (decision.target, decision.lands_on) == (14, 14)
    assert decision.reported_value == pytest.approx(13.0012)


def test_a_decrease_that_the_hpa_would_swallow_is_a_hold_and_no_change() -> None:
    decisions = run(policy(hpa_tolerance=0.1), steady(59, 20, 40))
    last = decisions[-1]
    assert (last.action, last.target, last.reported_value, last.lands_on) == (Action.HOLD, 20, 20.0, 20)
    assert last.reason.text == (
        "the HPA ignores changes within 10 % of 20: 19 cannot be reached, 20 stay until 18 or fewer are needed"
    )
    assert {decision.action for decision in decisions} == {Action.HOLD}


def test_a_guessed_count_is_reported_as_it_is() -> None:
    decision = run(policy(hpa_tolerance=0.1), steady(84, 20, 4, requested=Absent.MISSING))[-1]
    assert decision.reported_value == decision.target


# --- single replicas --------------------------------------------------------------------------------------------------


def test_one_overloaded_replica_among_idle_ones_is_a_matter_of_routing() -> None:
    seen = observation(0, 14, 4, replicas=loads((4, 8), (1, 0), (1, 0), (0, 0)))
    assert diagnosed(run(policy(), [seen])[-1]) == {ReasonCode.IMBALANCE}


def test_far_more_running_than_slots_is_a_wrong_setting() -> None:
    seen = observation(0, 14, 4, replicas=loads((11, 0), (10, 0), (4, 0), (4, 0)))
    decision = run(policy(), [seen])[-1]
    assert diagnosed(decision) == {ReasonCode.SLOTS_TOO_LOW}
    assert decision.diagnostics[0].text == (
        "vllm-0 (11) run(s) far more requests at once than slotsPerReplica 4: the setting is too low"
    )


def test_an_objective_between_bucket_bounds_is_said() -> None:
    off = policy(signals=(SATURATION, KV_CACHE, replace(TTFT, scale_up=2.0)))
    decision = run(off, [observation(0, 4, 4)])[-1]
    assert decision.diagnostics[0].text == (
        "the objective of ttft_p95, 2 s, lies between the bounds 1 s and 2.5 s of vLLM's histogram, so its P95 is an"
        " estimate"
    )


# --- optional signals -------------------------------------------------------------------------------------------------


def optional(name: str, form: SignalForm, up: float, down: float, support: float = 0.0) -> PoolPolicy:
    signal = SignalPolicy(name, form, up, down, DEFAULT_WINDOWS, "", support)
    return policy(signals=(SATURATION, KV_CACHE, TTFT, signal))


@pytest.mark.parametrize(
    ("pool", "changes", "target"),
    [
        pytest.param(
            optional(SignalName.WAITING, SignalForm.CAPACITY, 2.0, 1.6),
            {"running": 4.0, "waiting": 12.0},
            6,
            id="waiting",
        ),
        pytest.param(
            optional(SignalName.PROMPT_TOKENS, SignalForm.CAPACITY, 2000.0, 1600.0),
            {"extras": {"prompt_tokens": Extra(9000.0)}},
            5,
            id="prompt tokens",
        ),
        pytest.param(
            optional(SignalName.GENERATION_TOKENS, SignalForm.CAPACITY, 100.0, 80.0),
            {"generation_tokens_per_s": 500.0},
            5,
            id="generation tokens",
        ),
        pytest.param(
            optional(SignalName.PREEMPTION_RATE, SignalForm.INTENSITY, 0.2, 0.1),
            {"preemptions": 18.0},
            6,
            id="preemptions",
        ),
        pytest.param(
            optional(SignalName.GPU, SignalForm.INTENSITY, 0.9, 0.7, 0.8),
            {"extras": {"gpu": Extra(0.99, 0.95)}},
            5,
            id="GPU and its memory are busy",
        ),
        pytest.param(
            optional(SignalName.GPU, SignalForm.INTENSITY, 0.9, 0.7, 0.8),
            {"extras": {"gpu": Extra(0.99, 0.5)}},
            4,
            id="GPU is busy with little memory",
        ),
        pytest.param(
            optional(SignalName.ITL_P95, SignalForm.LATENCY, 0.05, 0.6, 20),
            {"extras": {"itl_p95": Extra(0.2, 500.0)}},
            6,
            id="inter-token latency",
        ),
        pytest.param(
            optional("custom:gateway_tokens", SignalForm.CAPACITY, 50.0, 40.0),
            {"extras": {"custom:gateway_tokens": Extra(310.0)}},
            7,
            id="named query",
        ),
    ],
)
def test_an_optional_signal_scales_up_by_itself(pool: PoolPolicy, changes: dict[str, Any], target: int) -> None:
    decisions = run(pool, [observation(tick, 14, 4, **changes) for tick in range(4)])
    assert decisions[-1].target == target


def test_an_optional_signal_that_is_missing_stops_a_scale_down_only() -> None:
    pool = optional(SignalName.PROMPT_TOKENS, SignalForm.CAPACITY, 2000.0, 1600.0)
    assert run(pool, steady(41, 8, 4))[-1].target == 11
    down = run(pool, steady(8, 8, 25))[-1]
    assert (down.action, down.reason.code) == (Action.HOLD, ReasonCode.SIGNAL_MISSING)


def test_since_when_and_what_a_scale_up_costs_stand_in_its_record() -> None:
    decision = run(policy(replica_hourly_cost=2.0, max_hourly_cost=100.0), steady(41, 8, 4))[-1]
    assert decision.over_since == 0.0
    assert decision.hourly_cost == 22.0
    assert decision.reason.text.endswith("needs 11 replicas, as 9 requests are more than the objective allows")
