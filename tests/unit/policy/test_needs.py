"""The worked numbers of needs.py, and the cases in which a signal must keep quiet."""

from dataclasses import replace
from typing import Any

import pytest

from scaler.model import Absent, Extra, Observation
from scaler.policy import needs
from scaler.policy.needs import Assessment, LatencyContext, Need
from tests.builders import KV_CACHE, SATURATION, TTFT, observation, policy


def ttft(seen: Observation, context: LatencyContext) -> Assessment:
    return needs.latency(policy(), TTFT, seen, Extra(seen.ttft_p95_s, seen.ttft_samples), context)


QUIET = LatencyContext()


@pytest.mark.parametrize(
    ("in_flight", "slots", "up_at", "expected"),
    [
        pytest.param(41, 4, 1.0, Need(11, 14), id="worked example"),
        pytest.param(0, 4, 1.0, Need(0, 0), id="idle needs nothing"),
        pytest.param(32, 4, 1.0, Need(8, 11), id="exactly full asks for no more"),
        pytest.param(33, 4, 1.0, Need(9, 12), id="one more request asks for one more"),
        pytest.param(100, 16, 0.9, Need(7, 9), id="larger replicas scale at 0.9"),
    ],
)
def test_saturation_counts_slots(in_flight: float, slots: int, up_at: float, expected: Need) -> None:
    seen = observation(0, in_flight, 8, slots=slots)
    signal = replace(SATURATION, scale_up=up_at)
    assert needs.saturation(policy(slots_per_replica=slots), signal, seen).need == expected


def test_plain_rule_without_noise_or_margin_is_one_replica_fewer_still_holds_it() -> None:
    plain = replace(SATURATION, scale_down=1.0)
    assert needs.saturation(policy(scale_down_noise=0.0), plain, observation(0, 28, 8)).need == Need(7, 7)


@pytest.mark.parametrize("lost", ["running", "waiting"])
def test_saturation_without_running_or_waiting_has_no_vote(lost: str) -> None:
    changes: dict[str, Any] = {lost: Absent.MISSING}
    seen = observation(0, 41, 8, **changes)
    assessed = needs.saturation(policy(), SATURATION, seen)
    assert assessed.need == needs.NO_VOTE
    assert assessed.value is Absent.MISSING


@pytest.mark.parametrize("replicas", [1, 2, 8, 14, 40])
def test_release_threshold_is_where_one_replica_fewer_suffices(replicas: int) -> None:
    threshold = needs.saturation_release_threshold(policy(), SATURATION, replicas)
    below = needs.saturation(policy(), SATURATION, observation(0, threshold, replicas)).need.down
    above = needs.saturation(policy(), SATURATION, observation(0, threshold + 0.01, replicas)).need.down
    assert below is not None
    assert above is not None
    assert below <= replicas - 1 < above


def test_release_threshold_worked_example() -> None:
    assert needs.saturation_release_threshold(policy(), SATURATION, 14) == pytest.approx(39.44, abs=0.005)


def test_kv_counts_hidden_demand_when_a_full_replica_has_a_queue() -> None:
    seen = observation(0, 18, 3, running=12.0, waiting=6.0, kv_usage_ratios=(0.93, 0.95, 0.98))
    assert needs.kv_cache(KV_CACHE, seen).need == Need(5, 7)


def test_kv_without_queue_counts_only_what_is_used() -> None:
    seen = observation(0, 12, 3, running=12.0, waiting=0.0, kv_usage_ratios=(0.93, 0.95, 0.98))
    assert needs.kv_cache(KV_CACHE, seen).need == Need(4, 5)


def test_kv_of_replicas_that_do_not_report_it_is_taken_as_the_mean_of_those_that_do() -> None:
    seen = observation(0, 12, 4, kv_usage_ratios=(0.8, 0.9))
    assert needs.kv_cache(KV_CACHE, seen).need == Need(4, 5)


def test_kv_with_a_stuck_queue_and_nothing_running_stays_finite() -> None:
    seen = observation(0, 6, 1, running=0.0, waiting=6.0, kv_usage_ratios=(0.95,))
    assert needs.kv_cache(KV_CACHE, seen).need == Need(7, 9)


@pytest.mark.parametrize("ratios", [Absent.MISSING, ()])
def test_missing_kv_has_no_vote(ratios: tuple[float, ...] | Absent) -> None:
    assert needs.kv_cache(KV_CACHE, observation(0, 6, 1, kv_usage_ratios=ratios)).need == needs.NO_VOTE


def test_ttft_over_its_slo_asks_for_half_as_many_again_at_most() -> None:
    seen = observation(0, 20, 4, ttft_p95_s=4.0)
    context = LatencyContext(base_s=0.5, fewest_serving=4)
    assert ttft(seen, context).need.up == 6


def test_ttft_counts_from_the_fewest_serving_in_its_window() -> None:
    seen = observation(0, 40, 8, ttft_p95_s=2.6)
    context = LatencyContext(base_s=0.0, fewest_serving=4)
    assert ttft(seen, context).need.up == 5


@pytest.mark.parametrize(
    ("changes", "context", "why"),
    [
        pytest.param({"ttft_samples": 5.0}, QUIET, "too few samples", id="too few samples"),
        pytest.param({"ttft_samples": Absent.MISSING}, QUIET, "too few samples", id="unknown samples"),
        pytest.param({"running": 7.0, "waiting": 0.0}, QUIET, "requests that are gone", id="load has gone"),
        pytest.param({"waiting": Absent.MISSING}, QUIET, "the load behind ttft_p95 is unknown", id="unknown load"),
        pytest.param({}, LatencyContext(drain_s=32.0), "will be gone in about 32 s", id="queue is draining"),
        pytest.param(
            {"waiting": 0.0}, LatencyContext(drain_s=0.0), "queue behind ttft_p95 is gone", id="queue is gone"
        ),
        pytest.param({}, LatencyContext(base_s=3.0), "even in a quiet pool", id="SLO below the base"),
    ],
)
def test_a_high_ttft_asks_for_nothing(changes: dict[str, Any], context: LatencyContext, why: str) -> None:
    assessed = ttft(observation(0, 24, 4, **{"ttft_p95_s": 78.0, **changes}), context)
    assert assessed.need.up == 0
    assert why in assessed.note


def test_ttft_well_within_its_slo_lets_go_to_the_count_that_keeps_it_there() -> None:
    seen = observation(0, 8, 4, ttft_p95_s=0.25)
    assert ttft(seen, QUIET).need == Need(0, 3)


def test_ttft_above_the_release_ratio_keeps_every_replica() -> None:
    seen = observation(0, 8, 4, ttft_p95_s=1.6)
    assert ttft(seen, QUIET).need == Need(0, 4)


def test_no_traffic_is_no_need_and_missing_is_no_vote() -> None:
    idle = observation(0, 0, 4, ttft_p95_s=Absent.NO_TRAFFIC)
    lost = observation(0, 8, 4, ttft_p95_s=Absent.MISSING)
    assert ttft(idle, QUIET).need == needs.NO_NEED
    assert ttft(lost, QUIET).need == needs.NO_VOTE
