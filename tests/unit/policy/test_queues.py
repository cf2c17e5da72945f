"""What waits at a replica stays there: it counts for that replica's slots, and its latency asks for nothing."""

from dataclasses import replace

import pytest

from scaler.model import Observation, ReasonCode, ReplicaLoad
from tests.builders import TICK_S, loads, observation, policy, run


def test_a_wedged_replica_is_named_and_all_that_it_has_counts_for_its_slots_only() -> None:
    healthy = loads((4, 0), (4, 0))

    def seen(tick: int, pace: float) -> Observation:
        stuck = ReplicaLoad("vllm-9", 2.0, 40.0, pace)
        return observation(tick, 50, 3, running=10.0, waiting=40.0, replicas=(*healthy, stuck), requested=3.0)

    ticks = [seen(tick, 100.0 if tick < 5 else 0.0) for tick in range(12)]
    decisions = run(policy(max_step_up=1, max_replicas=3), ticks)
    # While it works its queue counts for its slots, beside what it runs; once it is silent both count for its slots.
    assert decisions[4].signals[0].value == 14.0
    assert decisions[-1].signals[0].value == 12.0
    assert ReasonCode.WEDGED_REPLICA in [reason.code for reason in decisions[-1].diagnostics]
    assert decisions[-1].observation.waiting == 40.0


@pytest.mark.parametrize(
    ("replicas", "counted"),
    [
        pytest.param(loads((4, 34), (3, 0), (2, 0), (1, 0)), 14.0, id="others have room"),
        pytest.param(loads((4, 34), (4, 0), (4, 0), (4, 0)), 20.0, id="all are full"),
        pytest.param(loads((4, 10), (4, 10), (4, 10), (4, 4)), 32.0, id="all have queues"),
        pytest.param(loads((4, 3), (4, 0), (4, 1), (4, 0)), 20.0, id="short queues"),
        pytest.param((), 50.0, id="nobody knows whose queue it is"),
    ],
)
def test_a_queue_counts_for_the_slots_of_its_replica_at_most(replicas: tuple[ReplicaLoad, ...], counted: float) -> None:
    running = sum(one.running for one in replicas) or 16.0
    waiting = sum(one.waiting for one in replicas) or 34.0
    seen = observation(0, running + waiting, 4, running=running, waiting=waiting, replicas=replicas)
    decision = run(policy(), [seen])[-1]
    assert decision.signals[0].value == counted
    assert decision.observation.waiting == waiting


STRANDED = "ttft_p95 is of a queue that other replicas have room for: more replicas cannot mend routing"


@pytest.mark.parametrize(
    ("replicas", "note"),
    [
        pytest.param(((16, 60), (15, 0), (10, 0)), STRANDED, id="most have room"),
        pytest.param(((16, 60), (16, 0), (10, 0)), "", id="a third has room"),
        pytest.param(((16, 60), (16, 0), (16, 0)), "", id="nobody has"),
        pytest.param(((16, 4), (15, 0), (10, 0)), "", id="fewer than one in twenty of the window's 100"),
        pytest.param(((16, 60), (15, 0), (10, 1)), "", id="the third has a queue of its own"),
        pytest.param(((9, 60), (9, 3), (5, 2)), "", id="all caches are full"),
    ],
)
def test_a_latency_of_requests_that_are_stuck_is_no_reason_for_more(
    replicas: tuple[tuple[float, float], ...], note: str
) -> None:
    running, waiting = (sum(each) for each in zip(*replicas, strict=True))
    seen = observation(0, running + waiting, 3, running=running, waiting=waiting, replicas=loads(*replicas))
    stuck = [replace(seen, at=tick * TICK_S, ttft_p95_s=400.0) for tick in range(8)]
    state = run(policy(slots_per_replica=16), stuck)[-1].signals[2]
    assert state.note == note
    assert (state.up_need == 0) is bool(note)


def test_a_full_pool_is_judged_by_all_that_waits_and_asks_for_what_others_can_take() -> None:
    # Counted are 8, which might be chance beside the slots of one replica; 16 in flight are not.
    decision = run(policy(), [observation(0, 16, 1, replicas=loads((4, 12)))])[-1]
    assert (decision.target, decision.reason.code) == (2, ReasonCode.BURST)
