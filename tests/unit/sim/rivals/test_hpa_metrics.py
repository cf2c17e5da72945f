"""One metric, one target: what each of them makes of a full pool, an empty one and lost metrics."""

import pytest

from scaler.sim.hpa import HpaController
from scaler.sim.law import Law
from scaler.sim.rivals.hpa_metrics import GpuUtilisation, InFlight, KedaWaiting
from tests.laws import Scene, busy, play, show, without_metrics

LIMITS = {"min_replicas": 1, "max_replicas": 50}
FULL = show(Scene(0, None, "full", busy(10, running=16, kv=0.9)))


@pytest.mark.parametrize(("share", "expected"), [(0.7, 160 / 11.2), (0.9, 160 / 14.4)])
def test_in_flight_asks_for_all_that_runs_and_waits(share: float, expected: float) -> None:
    play(
        InFlight(16, share, **LIMITS),
        (
            Scene(0, expected, "10 x 16 running", busy(10, running=16)),
            Scene(15, 2 * expected, "and as many waiting", busy(10, running=16, waiting=16)),
            Scene(30, 2 * expected, "replicas that start change nothing", busy(10, running=16, waiting=16), 20),
            Scene(45, 0.0, "nobody there", busy(10)),
        ),
    )


def test_waiting_alone_does_not_see_a_full_pool() -> None:
    play(
        KedaWaiting(with_kv_cache=False, **LIMITS),
        (
            Scene(0, 0.0, "all slots in use, nobody waits: the minimum would do", busy(10, running=16, kv=0.9)),
            Scene(15, 10.0, "50 wait: 50 / 5", busy(10, running=16, waiting=5)),
        ),
    )


def test_a_kv_trigger_holds_a_full_pool_up() -> None:
    play(
        KedaWaiting(with_kv_cache=True, **LIMITS),
        (Scene(0, (0.0, 10 * 0.75 / 0.8), "two metrics, of which the HPA takes the greater", busy(10, kv=0.75)),),
    )


def test_keda_scales_a_full_fleet_to_its_minimum_when_prometheus_loses_the_series() -> None:
    law = KedaWaiting(with_kv_cache=True, **LIMITS)
    answer = law.answer(without_metrics(FULL))
    assert answer == (0.0, 0.0)
    assert law.hpa is not None
    hpa = HpaController(law.hpa)
    counts = [10]
    for sync in range(30):
        value, *further = law.answer(FULL) if sync == 0 else answer
        counts.append(
            hpa.sync(15.0 * sync, spec_replicas=counts[-1], status_replicas=counts[-1], value=value, further=further)
        )
    assert counts[-1] == 1


@pytest.mark.parametrize("law", [InFlight(16, 0.7, **LIMITS), GpuUtilisation(**LIMITS)])
def test_others_keep_still_without_metrics(law: Law) -> None:
    assert law.answer(without_metrics(FULL)) == (None,)


def test_gpu_utilisation_grows_for_as_long_as_each_replica_has_a_request() -> None:
    play(
        GpuUtilisation(**LIMITS),
        (
            Scene(0, 12.5, "one request keeps a GPU busy", busy(10, running=1)),
            Scene(15, 12.5, "as sixteen do", busy(10, running=16, waiting=16)),
            Scene(30, 0.0, "idle", busy(10)),
        ),
    )
