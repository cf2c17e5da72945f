"""KAITO: all metrics have to agree, and one replica in five minutes is the most."""

from scaler.sim.hpa import HpaController
from scaler.sim.rivals.kaito import Kaito
from tests.laws import Scene, busy, play, show, without_metrics


def law() -> Kaito:
    return Kaito(min_replicas=1, max_replicas=50)


def test_a_long_queue_that_is_not_old_does_not_scale_up() -> None:
    play(
        law(),
        (
            Scene(0, 2.0, "nothing ended yet: hold", busy(2, running=16, waiting=50)),
            Scene(60, 2.0, "20 ended after 10 s each: hold", busy(2, waiting=50), queue_time_s=200, ended=20),
            Scene(120, 4.0, "20 more after 90 s each, so 50 s in the mean: double", busy(2, waiting=50),
                  queue_time_s=2000, ended=40),
            Scene(135, 3.0, "one starts: hold", busy(2, waiting=50), 3, queue_time_s=2000, ended=40),
        ),
    )  # fmt: skip


def test_a_full_pool_without_a_queue_is_halved() -> None:
    play(law(), (Scene(0, 2.0, "every slot is in use", busy(4, running=16, kv=0.9)),))


def test_the_queue_time_of_five_minutes_ago_is_forgotten() -> None:
    play(
        law(),
        (
            Scene(0, 1.0, "idle: half", busy(2)),
            Scene(100, 2.0, "100 ended after 90 s each: hold", busy(2), queue_time_s=9000, ended=100),
            Scene(299, 2.0, "still within the window", busy(2), queue_time_s=9000, ended=100),
            Scene(401, 1.0, "nothing ended since: half", busy(2), queue_time_s=9000, ended=100),
        ),
    )


def test_the_hpa_lets_one_replica_through_in_five_minutes() -> None:
    spec = law().hpa
    assert spec is not None
    hpa, counts = HpaController(spec), [2]
    for sync in range(41):
        now = counts[-1]
        counts.append(hpa.sync(15.0 * sync, spec_replicas=now, status_replicas=now, value=2.0 * now))
    steps = [15.0 * sync for sync in range(41) if counts[sync + 1] > counts[sync]]
    assert counts[-1] == 4
    assert steps[1] - steps[0] == 300.0


def test_it_keeps_still_without_metrics() -> None:
    assert law().answer(without_metrics(show(Scene(0, None, "", busy(4))))) == (None,)
