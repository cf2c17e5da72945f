"""What is reported to KEDA, against the HPA's arithmetic: every count to 200, every target to 400, every version."""

import math
from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scaler.model import ReasonCode
from scaler.policy.hpa import Report, nearest_above, nearest_below, report
from scaler.sim.hpa import Behavior, HpaSpec, PolicyKind, ScalingPolicy, ScalingRules, ToleranceRule, proposed_replicas

ROOMY = 10_000
ANY_STEP = (ScalingPolicy(PolicyKind.PERCENT, 100, 15.0),)


@cache
def hpas(tolerance: float) -> tuple[HpaSpec, ...]:
    """One HPA of each reading of the band."""
    rules = ScalingRules(ANY_STEP, window_s=0.0, tolerance=tolerance)
    return tuple(HpaSpec(1, ROOMY, behavior=Behavior(rules, rules), tolerance_rule=rule) for rule in ToleranceRule)


def destinations(value: float, current: int, tolerance: float) -> set[int]:
    """Where HPAs go with a value, whether KEDA rounds it to thousandths or cuts it there."""
    seen = {float(f"{value:.3f}"), int(value * 1000) / 1000}
    return {proposed_replicas(one, status_replicas=current, spec=spec) for one in seen for spec in hpas(tolerance)}


def can_be_reached(target: int, current: int, tolerance: float) -> bool:
    """Tell whether a value in (target - 1, target] leads there: if any, the farthest does."""
    farthest = float(target) if target > current else target - 1 + 0.001
    return {proposed_replicas(farthest, status_replicas=current, spec=spec) for spec in hpas(tolerance)} == {target}


@pytest.mark.parametrize("tolerance", [0.0, 0.05, 0.1])
def test_every_hpa_goes_where_the_report_says_and_to_the_target_where_any_value_leads_there(tolerance: float) -> None:
    wrong: list[tuple[int, int, Report]] = []
    for current in range(1, 201):
        for target in range(1, 401):
            made = report(target, current, tolerance=tolerance, highest=ROOMY)
            is_true = destinations(made.value, current, tolerance) == {made.lands_on}
            if made.lands_on != target:
                is_true &= not can_be_reached(target, current, tolerance) and made.lands_on > target
                is_true &= target > current or made.lands_on == current
            is_true &= (made.reason is None) == (made.value == target) and made.value > 0
            if not is_true:
                wrong.append((current, target, made))
    assert wrong == []


@pytest.mark.parametrize("tolerance", [0.05, 0.1])
@pytest.mark.parametrize("current", [9, 10, 11, 20, 29])
def test_trying_every_value_near_the_count_reaches_no_more_targets(current: int, tolerance: float) -> None:
    near = range(current * 4 // 5, current * 6 // 5 + 2)
    reached = set[int]()
    for milli in range(1000 * near[0] - 999, 1000 * near[-1] + 1):
        to = {proposed_replicas(milli / 1000, status_replicas=current, spec=spec) for spec in hpas(tolerance)}
        reached |= to if len(to) == 1 else set()
    reports = {target: report(target, current, tolerance=tolerance, highest=ROOMY) for target in near}
    assert {target for target, made in reports.items() if made.lands_on == target} == reached & {*near}


@settings(deadline=None)
@given(
    target=st.integers(0, 3000),
    current=st.integers(0, 3000),
    per_mille=st.integers(0, 500),
    spare=st.integers(0, 500),
)
def test_any_tolerance_and_limit_are_respected(target: int, current: int, per_mille: int, spare: int) -> None:
    tolerance, highest = per_mille / 1000, target + spare
    made = report(target, current, tolerance=tolerance, highest=highest)
    assert made.lands_on <= max(highest, current)
    assert destinations(made.value, current, tolerance) == {made.lands_on}
    assert destinations(made.value, made.lands_on, tolerance) == {made.lands_on}, "told again, it moves again"
    whole = destinations(math.ceil(made.value), current, tolerance)
    assert min(whole) >= made.lands_on, "a KEDA that reads integers goes too low"
    if target > current:
        assert made.lands_on >= target or made.lands_on == current
    else:
        assert target <= made.lands_on <= current


@pytest.mark.parametrize(
    ("current", "target", "value", "lands_on"),
    [
        (20, 23, 23.0, 23),
        (20, 17, 17.0, 17),
        (20, 18, 17.0012, 18),
        (20, 19, 20.0, 20),
        (20, 21, 23.0, 23),
        (20, 22, 23.0, 23),
    ],
)
def test_worked_example(current: int, target: int, value: float, lands_on: int) -> None:
    made = report(target, current, tolerance=0.1, highest=ROOMY)
    assert made.value == pytest.approx(value, abs=1e-9)
    assert made.lands_on == lands_on


@pytest.mark.parametrize(
    ("current", "target"), [(1, 2), (1, 3), (5, 6), (5, 4), (9, 10), (10, 12), (20, 23), (20, 17), (40, 45)]
)
def test_what_a_real_hpa_followed_is_reported_as_it_is(current: int, target: int) -> None:
    assert report(target, current, tolerance=0.1, highest=ROOMY) == Report(float(target), target)


@pytest.mark.parametrize(("current", "target"), [(10, 11), (11, 10), (20, 21), (20, 19), (40, 41)])
def test_without_tolerance_every_target_is_reported_as_it_is(current: int, target: int) -> None:
    assert report(target, current, tolerance=0.0, highest=ROOMY) == Report(float(target), target)


@pytest.mark.parametrize(
    ("current", "target", "lands_on"),
    [(10, 11, 12), (11, 12, 13), (20, 21, 23), (20, 22, 23), (20, 19, 20), (20, 18, 18), (10, 9, 9), (40, 44, 45)],
)
def test_what_a_real_hpa_ignored_is_reported_otherwise(current: int, target: int, lands_on: int) -> None:
    made = report(target, current, tolerance=0.1, highest=ROOMY)
    assert made.value != target
    assert made.lands_on == lands_on


@pytest.mark.parametrize(
    ("current", "ignored", "unreachable"),
    [
        (9, set[int](), set[int]()),
        (10, {9, 11}, {11}),
        (11, {10, 12}, {12}),
        (19, {18, 20}, {20}),
        (20, {18, 19, 21, 22}, {19, 21, 22}),
        (29, {27, 28, 30, 31}, {28, 30, 31}),
        (30, {27, 28, 29, 31, 32, 33}, {28, 29, 31, 32, 33}),
        (39, {36, 37, 38, 40, 41, 42}, {37, 38, 40, 41, 42}),
        (40, {36, 37, 38, 39, 41, 42, 43, 44}, {37, 38, 39, 41, 42, 43, 44}),
    ],
)
def test_which_targets_are_ignored_and_which_of_them_no_value_reaches(
    current: int, ignored: set[int], unreachable: set[int]
) -> None:
    made = {target: report(target, current, tolerance=0.1, highest=ROOMY) for target in range(2 * current)}
    assert {target for target, one in made.items() if one.value != target} == ignored
    assert {target for target, one in made.items() if one.lands_on != target} == unreachable


@pytest.mark.parametrize(
    ("current", "below", "above"),
    [(1, 0, 2), (9, 8, 10), (10, 9, 12), (19, 18, 21), (20, 18, 23), (30, 27, 34), (40, 36, 45)],
)
def test_nearest_counts_that_can_be_reached(current: int, below: int, above: int) -> None:
    assert nearest_below(current, tolerance=0.1) == below
    assert nearest_above(current, tolerance=0.1) == above


def test_a_value_on_the_edge_of_the_band_is_not_tried() -> None:
    # 19 less 42.1 % is 11.001: the least fraction above 11 is ignored, 11 is not.
    assert report(12, 19, tolerance=0.421, highest=ROOMY).lands_on == 19
    assert report(11, 19, tolerance=0.421, highest=ROOMY) == Report(11.0, 11)


def test_a_ramp_that_stops_one_short_is_finished() -> None:
    made = report(17, 16, tolerance=0.1, highest=ROOMY)
    assert destinations(17.0, 16, 0.1) == {16}, "the HPA would stay"
    assert destinations(made.value, 16, 0.1) == {18}


@pytest.mark.parametrize(
    ("current", "target", "tolerance"), [(3, 2, 0.5), (10, 9, 0.1), (36, 33, 0.1), (285, 257, 0.1), (292, 263, 0.1)]
)
def test_a_keda_that_cuts_decimals_off_does_not_go_one_replica_too_low(
    current: int, target: int, tolerance: float
) -> None:
    assert int((target - 0.999) * 1000) == 1000 * (target - 1), "the obvious value would be cut to one replica fewer"
    made = report(target, current, tolerance=tolerance, highest=ROOMY)
    assert made.value != target
    assert destinations(made.value, current, tolerance) == {target}


def test_scaling_from_and_to_zero_is_kedas_and_reported_as_it_is() -> None:
    assert report(3, 0, tolerance=0.1, highest=3) == Report(3.0, 3)
    assert report(0, 1, tolerance=0.1, highest=3) == Report(0.0, 0)


@pytest.mark.parametrize(
    ("target", "highest", "code", "text"),
    [
        (
            19,
            50,
            ReasonCode.HPA_TOLERANCE,
            "the HPA ignores changes within 10 % of 20: 19 cannot be reached, 20 stay until 18 or fewer are needed",
        ),
        (
            21,
            22,
            ReasonCode.HPA_TOLERANCE,
            "the HPA ignores changes within 10 % of 20: 21 cannot be reached, 23 is above the 22 allowed: 20 stay",
        ),
        (
            21,
            23,
            ReasonCode.HPA_OVERSHOOT,
            "the HPA ignores changes within 10 % of 20: 21 cannot be reached, so 23 are asked for",
        ),
        (
            18,
            50,
            ReasonCode.HPA_FRACTION,
            "the HPA ignores changes within 10 % of 20: 18 is reported as 17.0012, which is outside and is rounded up",
        ),
    ],
)
def test_the_reason_names_the_numbers(target: int, highest: int, code: ReasonCode, text: str) -> None:
    reason = report(target, 20, tolerance=0.1, highest=highest).reason
    assert reason is not None
    assert (reason.code, reason.text) == (code, text)
