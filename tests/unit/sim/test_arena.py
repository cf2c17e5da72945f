"""The arena: the same conditions for all laws, and each carried out as it is in reality."""

from pathlib import Path

from benchmarks.arena import policy_of
from scaler.sim.arena import BOUNDS, FIXED, ORACLE, OURS, Workload, compete, contestants
from scaler.sim.arena_workloads import ENGINE, SLO, recorded, synthetic
from scaler.sim.closed_loop import Run
from scaler.sim.fleet import FleetSpec
from scaler.sim.workload import TokenLengths, Traffic, steps

# A minute of a few short requests a second, on replicas that come within ten seconds.
SMALL = Workload(
    "small",
    Traffic(steps((60.0, 0.5), (120.0, 3.0)), TokenLengths(100, 0.1, 200), TokenLengths(40, 0.1, 100)),
    FleetSpec("vllm", ENGINE, cold_start_s=10.0),
    SLO,
    step_at_s=60.0,
)
LAWS = contestants(policy_of)


def ran(law: str, seed: int = 1) -> Run:
    return compete(SMALL, LAWS[law], seed)


def test_every_law_serves_the_very_same_requests() -> None:
    served = {
        law: sorted(
            (one.request.arrived_at, one.request.prompt_tokens, one.request.output_tokens) for one in ran(law).outcomes
        )
        for law in LAWS
    }
    assert len(served[OURS]) > 200
    assert all(requests == served[OURS] for requests in served.values())


def test_a_run_can_be_repeated_and_another_seed_is_another_run() -> None:
    assert ran(OURS) == ran(OURS)
    assert ran(OURS).outcomes != ran(OURS, seed=2).outcomes


def test_every_law_keeps_within_the_bounds() -> None:
    for law in LAWS:
        counts = {moment.requested for moment in ran(law).moments}
        assert min(counts) >= 1, law
        assert max(counts) <= SMALL.max_replicas, law


def test_a_controller_of_its_own_acts_at_its_ticks_and_the_others_at_the_syncs() -> None:
    knative = [change.at for change in ran("knative-kpa").changes]
    assert knative
    assert all(at % 2 == 0 for at in knative)
    through_hpa = [change.at for change in ran("hpa-in-flight-0.7").changes]
    assert len({round(at % 15, 6) for at in through_hpa}) == 1


def test_laws_are_told_what_a_load_test_shows() -> None:
    # 40 tokens of 100 ms and 25 ms of prefill: 4 s on 16 slots.
    assert 3.5 < SMALL.capacity_per_s < 4.1
    assert SMALL.slots == 16
    assert SMALL.start_replicas == 1
    assert SMALL.max_replicas == 10


def test_a_fixed_count_is_that_of_the_peak_and_the_oracle_is_there_in_time() -> None:
    assert [change.after for change in ran(FIXED).changes] == [2]
    oracle = ran(ORACLE)
    assert oracle.changes[0].at <= 60.0
    assert oracle.joint_attainment(SLO) == 1.0
    assert {OURS, *BOUNDS} < set(LAWS)


def test_workloads_have_names_of_their_own_and_the_quick_ones_are_the_same_but_shorter() -> None:
    for quick in (True, False):
        names = [workload.name for workload in synthetic(quick=quick)]
        assert len(set(names)) == len(names)
    whole = {workload.name: workload for workload in synthetic(quick=False)}
    for workload in synthetic(quick=True):
        assert workload.load.duration_s < whole[workload.name].load.duration_s


def test_traces_that_are_not_there_are_named_with_where_to_get_them(tmp_path: Path) -> None:
    found = recorded(tmp_path, quick=True)
    assert found.workloads == ()
    assert [each.split(":")[0] for each in found.left_out] == [
        "azure-conversation-x3",
        "azure-code-x2",
        "mooncake-conversation",
    ]
    assert "https://github.com/Azure/AzurePublicDataset" in found.left_out[0]
