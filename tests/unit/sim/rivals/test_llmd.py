"""llm-d's saturation analyzer: spare cache and spare queue, one replica at a time."""

from scaler.sim.rivals.llmd import LlmdSaturation
from tests.laws import Scene, busy, play, show, without_metrics


def law() -> LlmdSaturation:
    return LlmdSaturation(min_replicas=1, max_replicas=50)


def test_it_adds_one_when_too_little_is_spare() -> None:
    play(law(), (Scene(0, 4.0, "0.8 - 0.72 = 0.08 of the cache", busy(3, running=9, kv=0.72)),))
    play(law(), (Scene(0, 4.0, "5 - 3 = 2 of the queue", busy(3, running=16, waiting=3, kv=0.5)),))
    play(law(), (Scene(0, 4.0, "all saturated", busy(3, running=16, waiting=9, kv=0.9)),))


def test_it_takes_one_away_when_the_others_could_take_over() -> None:
    play(law(), (Scene(0, 2.0, "0.45 x 3 / 2 = 0.675 leaves 0.125", busy(3, kv=0.45)),))
    play(law(), (Scene(0, 3.0, "0.5 x 3 / 2 = 0.75 leaves 0.05: hold", busy(3, kv=0.5)),))
    play(law(), (Scene(0, 1.0, "the last one stays", busy(1)),))


def test_a_full_batch_without_a_queue_is_not_saturated() -> None:
    play(law(), (Scene(0, 2.0, "every slot in use, the cache is not", busy(3, running=16, kv=0.4)),))


def test_the_peak_of_the_last_minute_counts_not_the_newest_value() -> None:
    play(
        law(),
        (
            Scene(0, 4.0, "a queue", busy(3, running=16, waiting=4, kv=0.4)),
            Scene(45, 4.0, "it was there within the minute", busy(3, running=16, kv=0.4)),
            Scene(75, 2.0, "now it was not", busy(3, running=16, kv=0.4)),
        ),
    )


def test_while_replicas_start_it_keeps_the_count() -> None:
    play(law(), (Scene(0, 5.0, "two start", busy(3, running=16, waiting=9, kv=0.9), 5),))


def test_it_keeps_still_without_metrics() -> None:
    assert law().answer(without_metrics(show(Scene(0, None, "", busy(4))))) == (None,)
