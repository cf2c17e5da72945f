"""The fleet: routing, cold starts, drains, and what the Deployment says."""

import math
import random
import re
from dataclasses import replace

import pytest

from scaler.sim.engine import EngineSpec
from scaler.sim.fleet import DeploymentStatus, Fleet, FleetSpec, Routing
from scaler.sim.replica import Phase
from scaler.sim.request import Outcome, Request
from scaler.sim.workload import ClosedLoop, Load, TokenLengths, Traffic, steps

ENGINE = EngineSpec(slots=4, kv_capacity_tokens=10_000, step_s=0.1, step_per_sequence_s=0.0, prefill_tokens_per_s=1e6)
SPEC = FleetSpec(deployment="vllm", engine=ENGINE, cold_start_s=10.0)


def requests(count: int, *, at: float = 0.0, output_tokens: int = 10) -> list[Request]:
    return [Request(at, prompt_tokens=10, output_tokens=output_tokens) for _ in range(count)]


def fleet(replicas: int, arrivals: list[Request] | None = None, spec: FleetSpec = SPEC) -> Fleet:
    return Fleet(spec, replicas=replicas, arrivals=arrivals or [], seed=1)


def phases(target: Fleet) -> list[Phase]:
    return [replica.phase(target.now) for replica in target.replicas]


def test_requests_go_to_the_replica_with_the_fewest_outstanding() -> None:
    target = fleet(3, requests(7))

    target.advance(0.5)

    assert sorted(replica.engine.in_flight for replica in target.replicas) == [2, 2, 3]


def test_idle_replicas_take_turns() -> None:
    arrivals = [Request(float(second), 10, 1) for second in range(1, 31)]
    target = fleet(3, arrivals)

    served = {outcome.replica for outcome in target.advance(4.0)}

    assert len(served) == 3


def test_a_new_replica_exists_at_once_and_serves_after_its_cold_start() -> None:
    target = fleet(1)

    target.scale(3)

    assert target.status() == DeploymentStatus(spec_replicas=3, replicas=3, ready=1, generation=2)
    target.advance(9.9)
    assert phases(target) == [Phase.SERVING, Phase.STARTING, Phase.STARTING]
    target.advance(10.0)
    assert phases(target) == [Phase.SERVING] * 3


def test_cold_starts_scatter_within_their_spread() -> None:
    target = fleet(1, spec=FleetSpec("vllm", ENGINE, cold_start_s=10.0, cold_start_spread=0.2))

    target.scale(40)

    times = [replica.ready_at for replica in target.replicas[1:]]
    assert 8.0 <= min(times) < 9.0
    assert 11.0 < max(times) <= 12.0


def test_a_replica_that_is_scaled_away_takes_no_more_requests_and_finishes_those_it_has() -> None:
    target = fleet(2, [*requests(4, output_tokens=50), *requests(3, at=1.0)])
    target.advance(0.5)
    leaving = target.replicas[1]

    target.scale(1)

    assert target.status().replicas == 1
    assert leaving in target.replicas
    ended = target.advance(1.5)
    assert leaving.engine.in_flight == 2
    ended += target.advance(100.0)
    assert len(target.replicas) == 1
    assert [outcome.completed for outcome in ended] == [True] * 7
    assert sum(outcome.replica == leaving.name for outcome in ended) == 2


def test_a_drain_that_takes_too_long_is_cut_off() -> None:
    target = fleet(2, requests(2, output_tokens=500), FleetSpec("vllm", ENGINE, cold_start_s=1.0, drain_limit_s=5.0))
    target.advance(1.0)

    target.scale(1)

    ended = target.advance(30.0)
    assert [(outcome.completed, outcome.ended_at) for outcome in ended] == [(False, 6.0)]
    assert len(target.replicas) == 1


def test_replicas_that_do_not_serve_yet_go_first_and_then_the_youngest() -> None:
    target = fleet(1)
    target.scale(2)
    target.advance(20.0)
    oldest, younger = target.replicas
    target.scale(3)

    target.scale(2)
    assert list(target.replicas) == [oldest, younger]
    target.scale(1)
    assert list(target.replicas) == [oldest]


def test_with_no_replica_requests_wait_at_the_router_until_one_serves() -> None:
    target = fleet(0, requests(3, at=1.0, output_tokens=1))
    target.advance(2.0)
    assert (target.waiting, target.running, len(target.awaiting_first_token)) == (3, 0, 3)

    target.scale(1)

    ended = target.advance(20.0)
    assert [outcome.ttft_s for outcome in ended] == [pytest.approx(11.1, abs=0.01)] * 3


def test_the_routers_queue_is_bounded_and_what_can_never_fit_is_refused() -> None:
    too_long = Request(1.0, 9_000, 2_000)
    target = fleet(0, [too_long, *requests(3, at=1.0)], FleetSpec("vllm", ENGINE, cold_start_s=1.0, max_queued=2))

    ended = target.advance(2.0)

    assert target.refused == 2
    assert [(outcome.completed, outcome.replica) for outcome in ended] == [(False, ""), (False, "")]
    assert ended[0].request is too_long


def test_replica_seconds_count_starting_and_draining_pods() -> None:
    target = fleet(1, requests(8, at=15.0, output_tokens=21))
    target.scale(2)
    target.advance(16.0)
    target.scale(1)

    target.advance(30.0)

    # The second pod lives from 0 s until its last request ends, 15 s + 21 steps of 0.1 s (and a bit of prefill) on.
    assert target.replica_seconds == pytest.approx(30.0 + 17.1, abs=0.01)


def test_pods_are_named_as_kubernetes_names_them_and_a_seed_repeats_a_run() -> None:
    first, second = fleet(5), fleet(5)

    names = [replica.name for replica in first.replicas]

    assert names == [replica.name for replica in second.replicas]
    assert len(set(names)) == 5
    assert all(
        re.fullmatch(r"vllm-[bcdfghjklmnpqrstvwxz2456789]{10}-[bcdfghjklmnpqrstvwxz2456789]{5}", name) for name in names
    )
    assert len({name.rsplit("-", 1)[0] for name in names}) == 1


def test_scaling_to_what_is_already_there_changes_nothing() -> None:
    target = fleet(2)
    before = target.replicas

    target.scale(2)

    assert target.replicas == before
    assert target.status().generation == 1


def test_random_routing_leaves_some_replicas_fuller_than_others() -> None:
    target = fleet(4, requests(40, output_tokens=100), replace(SPEC, routing=Routing.RANDOM))

    target.advance(0.5)

    counts = sorted(replica.engine.in_flight for replica in target.replicas)
    assert sum(counts) == 40
    assert counts[-1] - counts[0] >= 3, "the least outstanding would have ten each"


def test_pods_beyond_the_nodes_wait_for_one_and_cost_nothing_until_then() -> None:
    target = fleet(2, requests(1, output_tokens=100), replace(SPEC, nodes=3))

    target.scale(5)

    target.advance(50.0)
    assert phases(target) == [Phase.SERVING] * 3 + [Phase.STARTING] * 2
    assert (target.unschedulable, target.status().ready, target.status().replicas) == (2, 3, 5)
    assert target.replica_seconds == 150.0
    target.scale(4)
    assert target.unschedulable == 1, "those without a node go first"


def test_a_node_is_free_again_when_a_drained_replica_has_gone() -> None:
    target = fleet(2, requests(2, output_tokens=100), replace(SPEC, nodes=2))
    target.advance(1.0)
    target.scale(1)
    target.scale(2)
    assert target.unschedulable == 1

    target.advance(15.0)

    assert target.unschedulable == 0
    assert phases(target) == [Phase.SERVING, Phase.STARTING]
    target.advance(20.1)
    assert phases(target) == [Phase.SERVING] * 2


def test_a_start_that_always_fails_never_serves() -> None:
    target = fleet(1, spec=replace(SPEC, start_failure_share=1.0))
    target.scale(2)

    target.advance(100_000.0)

    assert phases(target) == [Phase.SERVING, Phase.STARTING]


def test_starts_that_fail_are_tried_again_after_a_back_off_and_some_images_take_longer() -> None:
    failing = fleet(1, spec=replace(SPEC, start_failure_share=0.5))
    stalling = fleet(1, spec=replace(SPEC, pull_stall_share=0.3, pull_stall_s=300.0))
    failing.scale(401)
    stalling.scale(401)

    # 10 s; 10 + 10 + 10; 10 + 10 + 10 + 20 + 10.
    starts = [replica.ready_at for replica in failing.replicas[1:]]
    assert sorted(set(starts))[:3] == [10.0, 30.0, 60.0]
    assert starts.count(10.0) == pytest.approx(200, abs=30)
    pulls = [replica.ready_at for replica in stalling.replicas[1:]]
    assert set(pulls) == {10.0, 310.0}
    assert pulls.count(310.0) == pytest.approx(120, abs=28)


def test_a_replica_that_fails_takes_its_requests_with_it_and_is_replaced_by_another() -> None:
    target = fleet(2, requests(4, output_tokens=5000), replace(SPEC, mean_life_s=100.0))
    first = {replica.name for replica in target.replicas}

    ended = target.advance(1000.0)

    assert target.failed_replicas >= 3
    assert [outcome.completed for outcome in ended] == [False] * 4
    assert target.status().replicas == 2
    assert not first & {replica.name for replica in target.replicas}


def test_clients_of_a_closed_loop_send_on_when_they_have_their_answer_even_a_bad_one() -> None:
    asked: list[Outcome] = []

    def follow_up(outcome: Outcome) -> Request | None:
        asked.append(outcome)
        return Request(outcome.ended_at + 1.0, 10, 10) if len(asked) < 6 else None

    too_long = Request(0.0, 9_000, 2_000)
    target = Fleet(SPEC, replicas=1, arrivals=[too_long, *requests(1)], seed=1, follow_up=follow_up)

    ended = target.advance(100.0)

    assert ended == asked
    assert [outcome.completed for outcome in ended] == [False, *[True] * 6]
    assert target.arrived == 7
    # Each answer takes 1 s and each pause another.
    assert ended[-1].ended_at == pytest.approx(6.0, abs=0.2)


@pytest.mark.parametrize(
    "wrong",
    [
        *({"cold_start_s": -1.0}, {"cold_start_spread": 1.0}, {"drain_limit_s": -math.inf}, {"max_queued": -1}),
        *({"nodes": -1}, {"pull_stall_s": -1.0}, {"pull_stall_share": 1.1}, {"start_failure_share": -0.1}),
        {"mean_life_s": 0.0},
    ],
)
def test_an_impossible_fleet_is_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="of a fleet are"):
        FleetSpec(**({"deployment": "vllm", "engine": ENGINE, "cold_start_s": 1.0} | wrong))  # type: ignore[arg-type]


def test_a_negative_count_is_refused() -> None:
    with pytest.raises(ValueError, match="not -1"):
        fleet(1).scale(-1)


def faulty_fleet(source: random.Random, seed: int) -> Fleet:
    """Any fleet, with any faults, under an open or a closed loop."""
    prompt, output = TokenLengths(200, 0.8, 3000), TokenLengths(60, 0.5, 400)
    loads: list[Load] = [
        ClosedLoop(30, 400, prompt, output, duration_s=300.0, think_s=source.choice([0.0, 3.0])),
        Traffic(steps((150.0, 1.0), (150.0, 6.0)), prompt, output, variation=source.choice([1.0, 4.0])),
    ]
    spec = FleetSpec(
        "vllm",
        replace(ENGINE, kv_capacity_tokens=4096, step_per_sequence_s=0.01, step_per_kv_token_s=1e-6),
        cold_start_s=source.choice([0.0, 20.0]),
        cold_start_spread=source.choice([0.0, 0.3]),
        drain_limit_s=source.choice([5.0, math.inf]),
        max_queued=source.choice([5, 1000]),
        routing=source.choice(list(Routing)),
        nodes=source.choice([None, 4]),
        start_failure_share=source.choice([0.0, 0.3]),
        pull_stall_share=source.choice([0.0, 0.5]),
        pull_stall_s=40.0,
        mean_life_s=source.choice([math.inf, 120.0]),
    )
    stream = source.choice(loads).open(seed)
    return Fleet(spec, replicas=2, arrivals=stream.arrivals, follow_up=stream.follow_up, seed=seed)


@pytest.mark.parametrize("seed", range(24))
def test_whatever_happens_each_request_ends_once_and_looking_changes_nothing(seed: int) -> None:
    seldom, often = (faulty_fleet(random.Random(seed), seed) for _ in range(2))
    source = random.Random(f"counts {seed}")
    expected: list[Outcome] = []
    seen: list[Outcome] = []
    for begin in range(0, 300, 30):
        for at in (*sorted(source.uniform(begin, begin + 30) for _ in range(7)), float(begin + 30)):
            seen += often.advance(at)
            assert often.spec.nodes is None or often.replica_seconds <= often.spec.nodes * often.now + 1e-6
            assert often.status().ready <= often.status().replicas == often.spec_replicas
            assert often.arrived == len(seen) + often.running + often.waiting
        expected += seldom.advance(begin + 30.0)
        replicas = source.randint(1, 6)
        seldom.scale(replicas)
        often.scale(replicas)
    seldom.scale(3)
    often.scale(3)
    expected += seldom.advance(20_000.0)
    seen += often.advance(20_000.0)

    assert [(one.request, one.replica, one.completed, one.preemptions) for one in seen] == [
        (one.request, one.replica, one.completed, one.preemptions) for one in expected
    ]
    assert [one.ended_at for one in seen] == pytest.approx([one.ended_at for one in expected], abs=1e-6)
    assert (often.running, often.waiting) == (0, 0)
    assert often.arrived == len(seen)
    assert often.replica_seconds == pytest.approx(seldom.replica_seconds)
    assert [one.ended_at for one in expected] == sorted(one.ended_at for one in expected)
