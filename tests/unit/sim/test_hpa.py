"""The HPA's arithmetic, against tables worked out from its code and against what a real one did."""

import math

import pytest

from scaler.sim.hpa import (
    Behavior,
    HpaController,
    HpaSpec,
    PolicyKind,
    ScalingPolicy,
    ScalingRules,
    Select,
    ToleranceRule,
    answered_value,
    milli,
    proposed_replicas,
)

UP, DOWN = Behavior().up, Behavior().down
DEFAULT = HpaSpec(min_replicas=1, max_replicas=100)
OLD = HpaSpec(min_replicas=1, max_replicas=100, tolerance_rule=ToleranceRule.BEFORE_1_33)
EXACT = HpaSpec(
    min_replicas=1,
    max_replicas=400,
    behavior=Behavior(
        ScalingRules(UP.policies, window_s=0.0, tolerance=0.0), ScalingRules(DOWN.policies, window_s=0.0, tolerance=0.0)
    ),
)


def ramp(spec: HpaSpec, value: float, *, start: int, syncs: int, every_s: float = 15.0) -> list[int]:
    """Let an HPA work on a constant value, each change carried out at once."""
    controller = HpaController(spec)
    counts = [start]
    for index in range(syncs):
        current = counts[-1]
        counts.append(
            controller.sync(index * every_s, spec_replicas=current, status_replicas=current, value=value),
        )
    return counts


def stuck(current: int, spec: HpaSpec) -> set[int]:
    """Return the wishes that an HPA ignores at this count."""
    return {
        wish
        for wish in range(1, 2 * current + 2)
        if wish != current and proposed_replicas(wish, status_replicas=current, spec=spec) == current
    }


@pytest.mark.parametrize("current", range(1, 10))
def test_below_ten_replicas_every_wish_is_followed(current: int) -> None:
    assert stuck(current, DEFAULT) == stuck(current, OLD) == set()


@pytest.mark.parametrize(
    ("current", "ignored", "followed_before_1_33"),
    [
        (10, {9, 11}, {11}),
        (11, {10, 12}, set()),
        (19, {18, 20}, set()),
        (20, {18, 19, 21, 22}, {22}),
        (21, {19, 20, 22, 23}, set()),
        (29, {27, 28, 30, 31}, set()),
        (30, {27, 28, 29, 31, 32, 33}, {33}),
        (39, {36, 37, 38, 40, 41, 42}, set()),
        (40, {36, 37, 38, 39, 41, 42, 43, 44}, {44}),
    ],
)
def test_within_a_tenth_a_wish_is_ignored(current: int, ignored: set[int], followed_before_1_33: set[int]) -> None:
    assert stuck(current, DEFAULT) == ignored
    assert stuck(current, OLD) == ignored - followed_before_1_33


@pytest.mark.parametrize("current", [1, 10, 11, 40, 199])
def test_without_tolerance_every_wish_is_followed(current: int) -> None:
    assert stuck(current, EXACT) == set()


@pytest.mark.parametrize(
    ("current", "value", "result"),
    [
        # Observed with the real KEDA 2.20.2 and Kubernetes 1.36.
        *((1, 2, 2), (1, 3, 3), (5, 6, 6), (5, 4, 4), (9, 10, 10), (10, 12, 12), (20, 23, 23), (20, 17, 17)),
        *((40, 45, 45), (10, 11, 10), (11, 12, 11), (20, 21, 20), (20, 22, 20), (20, 19, 20), (20, 18, 20)),
        *((10, 9, 10), (40, 44, 40), (10, 8.5, 9)),
        # A fraction just above the next lower count reaches what the count itself does not.
        *((20, 17.001, 18), (11, 9.9, 11), (11, 9.001, 10), (19, 17.001, 18), (10, 10.5, 10)),
        # A constant half taken off would lose steps that work.
        (5, 5.5, 5),
    ],
)
def test_what_a_value_is_at_the_default_tolerance(current: int, value: float, result: int) -> None:
    assert proposed_replicas(value, status_replicas=current, spec=DEFAULT) == result


@pytest.mark.parametrize(("current", "value"), [(10, 11), (20, 21), (20, 19), (40, 41), (11, 10), (10, 9)])
def test_what_a_value_is_without_tolerance(current: int, value: float) -> None:
    assert proposed_replicas(value, status_replicas=current, spec=EXACT) == value


def test_an_hpa_goes_by_status_and_so_drifts_with_surge_pods() -> None:
    assert proposed_replicas(10, status_replicas=11, spec=DEFAULT) == 11
    assert proposed_replicas(10, status_replicas=11, spec=EXACT) == 10
    assert proposed_replicas(3, status_replicas=0, spec=DEFAULT) == 3


def test_targets_other_than_one_divide() -> None:
    spec = HpaSpec(min_replicas=1, max_replicas=100, target=2.5)

    assert proposed_replicas(10.1, status_replicas=1, spec=spec) == 5


@pytest.mark.parametrize(
    ("value", "expected"),
    [(8.0, 8000), (0.0004, 0), (0.0006, 1), (7.99951, 8000), (math.inf, 0), (math.nan, 0), (-3.0, 0), (1e-9, 0)],
)
def test_keda_hands_on_three_decimals_and_nothing_for_what_is_no_count(value: float, expected: int) -> None:
    assert milli(value) == expected


@pytest.mark.parametrize(
    ("as_float", "as_int", "expected"), [(2.5, 3, 2.5), (0.0, 3, 3.0), (-1.0, 3, 3.0), (math.nan, 3, 3.0)]
)
def test_keda_takes_the_integer_when_the_float_is_not_above_zero(as_float: float, as_int: int, expected: float) -> None:
    assert answered_value(as_float, as_int) == expected


def test_steps_up_are_four_pods_or_a_doubling_every_fifteen_seconds() -> None:
    assert ramp(DEFAULT, 50, start=1, syncs=6) == [1, 5, 10, 20, 40, 50, 50]


def test_syncs_within_a_period_share_its_limit() -> None:
    assert ramp(DEFAULT, 50, start=1, syncs=9, every_s=5.0) == [1, 5, 5, 5, 10, 10, 10, 20, 20, 20]


def test_without_behavior_steps_up_are_a_doubling_or_four() -> None:
    assert ramp(HpaSpec(1, 100, behavior=None), 33, start=1, syncs=7) == [1, 4, 8, 16, 32, 32, 32, 32]


@pytest.mark.parametrize("behavior", [Behavior(), None])
def test_by_default_an_hpa_scales_down_only_after_five_minutes(behavior: Behavior | None) -> None:
    counts = ramp(HpaSpec(1, 100, behavior=behavior), 2, start=8, syncs=25)

    # Observed: 299 s. The count of the first sync is heard for 300 s, so the sync at 300 s is the first without it.
    assert counts == [8] * 21 + [2] * 5


def test_without_a_window_it_scales_down_at_once_and_all_the_way() -> None:
    assert ramp(EXACT, 1, start=8, syncs=1) == [8, 1]


def test_the_highest_wish_of_the_down_window_holds_replicas() -> None:
    behavior = Behavior(UP, ScalingRules(DOWN.policies, window_s=60.0))
    controller = HpaController(HpaSpec(1, 100, behavior=behavior))
    current, counts = 2, []
    for index, value in enumerate([8, 2, 2, 2, 2, 2, 2]):
        current = controller.sync(index * 15.0, spec_replicas=current, status_replicas=current, value=value)
        counts.append(current)

    # At 15 s the step limit is out of the way and 8 may still be reached; from 60 s on nobody wishes for it any more.
    assert counts == [6, 6, 6, 6, 2, 2, 2]


def test_the_lowest_wish_of_the_up_window_delays_a_scale_up() -> None:
    behavior = Behavior(ScalingRules(UP.policies, window_s=30.0), DOWN)
    controller = HpaController(HpaSpec(1, 100, behavior=behavior))
    counts = [controller.sync(at, spec_replicas=2, status_replicas=2, value=4) for at in (0.0, 15.0, 29.0, 30.0)]

    assert counts == [2, 2, 2, 4]


def rules(*policies: tuple[PolicyKind, int], select: Select = Select.MAX) -> ScalingRules:
    return ScalingRules(
        tuple(ScalingPolicy(kind, value, 15.0) for kind, value in policies), window_s=0.0, tolerance=0.0, select=select
    )


PODS_2, PERCENT_50 = (PolicyKind.PODS, 2), (PolicyKind.PERCENT, 50)


@pytest.mark.parametrize(
    ("up", "expected"),
    [
        (rules(PODS_2, PERCENT_50), 15),
        (rules(PODS_2, PERCENT_50, select=Select.MIN), 12),
        (rules(PODS_2, select=Select.DISABLED), 10),
    ],
)
def test_which_policy_counts_on_the_way_up(up: ScalingRules, expected: int) -> None:
    assert ramp(HpaSpec(1, 100, behavior=Behavior(up, DOWN)), 50, start=10, syncs=1)[-1] == expected


@pytest.mark.parametrize(
    ("down", "expected"),
    [
        (rules(PODS_2, PERCENT_50), 5),
        (rules(PODS_2, PERCENT_50, select=Select.MIN), 9),
        (rules(PODS_2, select=Select.DISABLED), 11),
    ],
)
def test_which_policy_counts_on_the_way_down(down: ScalingRules, expected: int) -> None:
    # Half of 11 is 5.5 replicas, of which the HPA keeps 5.
    assert ramp(HpaSpec(1, 100, behavior=Behavior(UP, down)), 1, start=11, syncs=1)[-1] == expected


def test_limits_hold_and_bring_back_what_is_outside_them() -> None:
    spec = HpaSpec(2, 6, behavior=EXACT.behavior)

    assert ramp(spec, 50, start=4, syncs=1) == [4, 6]
    assert ramp(spec, 0, start=4, syncs=1) == [4, 2]
    assert ramp(spec, 50, start=1, syncs=1) == [1, 2]
    assert ramp(spec, 50, start=9, syncs=1) == [9, 6]
    assert HpaController(spec).sync(0.0, spec_replicas=9, status_replicas=9, value=None) == 6


def test_an_error_holds_and_zero_replicas_switch_it_off() -> None:
    controller = HpaController(EXACT)

    assert controller.sync(0.0, spec_replicas=5, status_replicas=5, value=None) == 5
    assert controller.sync(15.0, spec_replicas=0, status_replicas=0, value=9.0) == 0


def test_a_day_of_syncs_remembers_only_the_windows() -> None:
    controller = HpaController(DEFAULT)
    current = 5
    for index in range(5760):
        value = 5 + 4 * math.sin(index / 50)
        current = controller.sync(index * 15.0, spec_replicas=current, status_replicas=current, value=value)

    memory = [*controller._recommendations, *controller._added, *controller._removed]
    assert len(memory) <= 300 / 15 + 4


@pytest.mark.parametrize(("low", "high", "target"), [(0, 5, 1.0), (3, 2, 1.0), (1, 5, 0.0001)])
def test_an_impossible_hpa_is_refused(low: int, high: int, target: float) -> None:
    with pytest.raises(ValueError, match="1 <= min <= max"):
        HpaSpec(low, high, target=target)


def test_a_direction_without_policies_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one policy"):
        ScalingRules((), window_s=0.0)


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ((5.0, 8.0), 8),
        ((8.0, 5.0), 8),
        ((8.0, None), 8),
        ((5.0, None), 6),
        ((None, 5.0), 6),
        ((None, None), 6),
        ((5.0, 4.0), 5),
    ],
)
def test_of_several_metrics_the_greatest_counts_and_one_that_is_missing_bars_the_way_down(
    values: tuple[float | None, float | None], expected: int
) -> None:
    value, further = values
    assert (
        HpaController(EXACT).sync(0.0, spec_replicas=6, status_replicas=6, value=value, further=(further,)) == expected
    )
