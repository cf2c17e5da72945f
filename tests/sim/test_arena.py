"""What the arena is there to show, on workloads short enough for every run of the tests."""

import pytest

from benchmarks.arena import LAWS
from scaler.sim.arena import BOUNDS, OURS, compete
from scaler.sim.arena_workloads import synthetic
from scaler.sim.scoring import score as scored
from scaler.sim.scoring import standing

WORKLOADS = {workload.name: workload for workload in synthetic(quick=True)}


@pytest.mark.parametrize("name", ["constant 0.5", "constant 2"])
def test_at_a_constant_load_ours_keeps_still_and_no_rival_attains_more_for_less(name: str) -> None:
    workload = WORKLOADS[name]
    standings = {
        law: standing(law, [scored(compete(workload, made, seed=1), workload.slo, step_at_s=None)])
        for law, made in LAWS.items()
    }
    ours = standings[OURS]
    assert ours.reversals == 0
    assert [law for law, one in standings.items() if one.beats(ours) and law not in BOUNDS] == []


def test_a_law_on_waiting_requests_alone_swings_where_ours_keeps_still() -> None:
    workload = WORKLOADS["constant 2"]
    swinging = scored(compete(workload, LAWS["keda-waiting"], 1), workload.slo, step_at_s=None)
    assert swinging.reversals > 0
    assert swinging.attainment < 0.95


def test_no_law_attains_what_the_oracle_does_when_the_load_triples_at_once() -> None:
    workload = WORKLOADS["step up"]
    oracle, ours = (
        scored(compete(workload, LAWS[law], 1), workload.slo, step_at_s=workload.step_at_s) for law in ("oracle", OURS)
    )
    assert oracle.attainment > 0.99
    assert ours.attainment < oracle.attainment
    assert ours.first_change_s is not None
    assert ours.first_change_s < 120
