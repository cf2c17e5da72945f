from dataclasses import replace
from typing import Any

import pytest

from scaler.backtest.counterfactual import OwnReplicas, Replica, as_seen
from scaler.model import Absent, Extra, Observation, ReplicaLoad, SignalForm, SignalName, SignalPolicy
from tests.builders import DEFAULT_WINDOWS, POLICY, observation, policy

KIND = Replica(slots=16, cold_start_s=120.0)
LOADS = (ReplicaLoad("a", 16.0, 6.0), ReplicaLoad("b", 14.0, 0.0))
RECORDED = observation(
    9, 36.0, 2, running=30.0, waiting=6.0, kv_usage_ratios=(0.3, 0.6), ttft_p95_s=4.0, replicas=LOADS
)
ASLEEP = Observation(at=135.0, requested=0.0, serving=0.0, ready=0.0)


def seen(serving: int, recorded: Observation = RECORDED, *, starting: int = 0, **changes: Any) -> Observation:
    own = OwnReplicas(KIND, serving, [1e9] * starting)
    return as_seen(policy(**changes), own, recorded)


@pytest.mark.parametrize(
    ("serving", "running", "waiting"), [(3, 36.0, 0.0), (1, 16.0, 20.0), (0, Absent.MISSING, Absent.MISSING)]
)
def test_the_recorded_requests_are_spread_over_the_slots_there_are(serving: int, running: Any, waiting: Any) -> None:
    found = seen(serving)
    assert (found.running, found.waiting) == (running, waiting)
    assert (found.requested, found.serving, found.ready) == (serving, serving, serving)


def test_with_as_many_replicas_everything_is_as_recorded() -> None:
    assert seen(2) == RECORDED
    assert seen(2, starting=1) == replace(RECORDED, requested=3.0)


def test_the_slots_of_a_replica_do_not_depend_on_the_policy() -> None:
    assert seen(1, slots_per_replica=64).waiting == 20.0


@pytest.mark.parametrize(("serving", "usage"), [(3, 0.36), (1, 0.48), (0, Absent.MISSING)])
def test_cache_usage_goes_with_the_running_requests(serving: int, usage: float | Absent) -> None:
    # 0.9 caches with 30 running: 1.08 with 36, 0.48 with 16.
    ratios = seen(serving).kv_usage_ratios
    if isinstance(usage, Absent) or isinstance(ratios, Absent):
        assert ratios is usage
    else:
        assert list(ratios) == pytest.approx([usage] * serving)


def test_a_cache_is_never_more_than_full() -> None:
    full = replace(RECORDED, kv_usage_ratios=(0.9, 1.0), running=4.0)
    assert seen(1, full).kv_usage_ratios == (1.0,)


def test_latencies_are_not_known_while_other_replicas_serve() -> None:
    itl = SignalPolicy(SignalName.ITL_P95, SignalForm.LATENCY, 0.1, 0.6, DEFAULT_WINDOWS, "seconds")
    tokens = SignalPolicy(SignalName.PROMPT_TOKENS, SignalForm.CAPACITY, 100.0, 80.0, DEFAULT_WINDOWS, "tokens/s")
    extras = {itl.name: Extra(0.2, 50.0), tokens.name: Extra(800.0)}
    found = seen(3, replace(RECORDED, extras=extras), signals=(*POLICY.signals, itl, tokens))
    assert found.ttft_p95_s is Absent.NO_TRAFFIC
    assert found.extras == {itl.name: Extra(Absent.NO_TRAFFIC, 50.0), tokens.name: Extra(800.0)}
    assert found.replicas == ()


def test_what_could_not_be_read_stays_missing() -> None:
    lost = Observation(at=135.0, notes=("Prometheus did not answer",))
    assert seen(3, lost) == lost
    no_load = replace(RECORDED, running=Absent.MISSING, waiting=Absent.MISSING, ttft_p95_s=Absent.MISSING)
    found = seen(3, no_load)
    assert (found.running, found.waiting, found.ttft_p95_s) == (Absent.MISSING,) * 3
    assert found.kv_usage_ratios is Absent.MISSING
    no_counts = replace(RECORDED, requested=Absent.MISSING, ready=Absent.MISSING)
    assert (seen(3, no_counts).requested, seen(3, no_counts).serving) == (Absent.MISSING, 3.0)


def test_a_pool_that_was_at_zero_had_no_load() -> None:
    found = seen(2, ASLEEP)
    assert (found.running, found.waiting, found.kv_usage_ratios) == (0.0, 0.0, (0.0, 0.0))
    assert (found.ttft_p95_s, found.preemptions) == (Absent.NO_TRAFFIC, 0.0)
    assert seen(0, ASLEEP) == ASLEEP


@pytest.mark.parametrize(("recorded", "wakes"), [(Extra(0.0), 36.0), (Extra(50.0), 50.0)])
def test_at_zero_replicas_the_requests_wait_where_the_pool_is_woken(recorded: Extra, wakes: float) -> None:
    name = "activation:gateway"
    found = seen(0, replace(RECORDED, extras={name: recorded}), activation=name, min_replicas=0)
    assert found.extras[name].value == wakes
    assert seen(1, replace(RECORDED, extras={name: recorded}), activation=name).extras[name] == recorded


def test_replicas_start_after_their_cold_start_and_the_youngest_goes_first() -> None:
    own = OwnReplicas(KIND, serving=2)
    own.go_to(4, now=0.0)
    own.go_to(5, now=60.0)
    own.settle(119.0)
    assert (own.requested, own.serving) == (5, 2)
    own.settle(120.0)
    assert (own.requested, own.serving) == (5, 4)
    own.go_to(3, now=130.0)
    assert (own.requested, own.serving, own.ready_at) == (3, 3, [])
    own.go_to(0, now=140.0)
    assert (own.requested, own.serving) == (0, 0)
