"""The live law in a simulated cluster: it keeps still under a steady load, and follows a step without swinging."""

import pytest

from scaler.sim.closed_loop import reversals
from tests.steadiness import rush

HOUR_S = 3600.0
QUARTER_S = 900.0


@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize(("load", "replicas"), [(0.1, 1), (0.5, 1), (1.0, 2), (2.0, 3), (3.0, 4), (5.0, 6)])
def test_a_constant_load_changes_the_count_once_at_most(load: float, replicas: int, seed: int) -> None:
    seen = rush((HOUR_S, load), replicas=replicas, seed=seed)
    late = seen.changes_from(QUARTER_S)
    assert reversals(seen.changes) == 0
    assert len(late) <= 1
    assert seen.attainment(2.5) > 0.98


@pytest.mark.parametrize(("before", "after"), [(2.0, 0.4), (5.0, 2.5), (5.0, 1.0)])
def test_a_step_down_is_followed_in_one_direction(before: float, after: float) -> None:
    seen = rush((HOUR_S / 2, before), (HOUR_S, after), replicas=round(before) + 1, seed=1)
    assert [change.is_up for change in seen.changes_from(HOUR_S / 2)].count(True) == 0


@pytest.mark.parametrize(("before", "after"), [(2.0, 4.0), (2.0, 10.0)])
def test_a_step_up_is_followed_at_once_and_only_what_its_queue_asked_for_is_given_back(
    before: float, after: float
) -> None:
    seen = rush((HOUR_S / 2, before), (HOUR_S, after), replicas=round(before) + 1, seed=1)
    changes = seen.changes_from(HOUR_S / 2)
    assert changes[0].is_up
    assert changes[0].at < HOUR_S / 2 + 180
    assert reversals(changes) <= 1
    assert after <= seen.replicas


def test_a_rush_from_one_replica_does_not_scale_on_the_queue_that_the_first_one_keeps() -> None:
    # Ten replicas' worth of load while only one serves: its queue stays its own, whatever is added.
    seen = rush((HOUR_S / 2, 10.0), replicas=1, seed=1)
    highest = max(moment.requested for moment in seen.moments)
    assert 12 <= highest <= 36
    assert seen.changes[0].at < 60
