"""AIBrix's APA: KV-cache usage against 0.5, and a step in proportion."""

from scaler.sim.rivals.aibrix import AibrixApa
from tests.laws import Scene, busy, play, show, without_metrics


def law() -> AibrixApa:
    return AibrixApa(min_replicas=1, max_replicas=50)


def test_it_follows_the_usage_over_its_target_outside_the_tolerance() -> None:
    play(law(), (Scene(0, 4, "0.54 is within 10 % of 0.5", busy(4, kv=0.54)),))
    play(law(), (Scene(0, 5, "0.6 is 1.2 times the target: 4.8", busy(4, kv=0.6)),))
    play(law(), (Scene(0, 8, "1.0 is twice the target, and twice is the most", busy(4, kv=1.0)),))
    play(law(), (Scene(0, 3, "0.3: 2.4", busy(4, kv=0.3)),))
    play(law(), (Scene(0, 2, "0.05 would need one; half is the least", busy(4, kv=0.05)),))


def test_while_replicas_start_it_multiplies_again() -> None:
    play(
        law(),
        (
            Scene(0, 8, "twice", busy(4, kv=1.0)),
            Scene(10, 16, "four still serve and are as full: twice of what was asked for", busy(4, kv=1.0), 8),
            Scene(20, 32, "and so on", busy(4, kv=1.0), 16),
        ),
    )


def test_the_greatest_recommendation_of_five_minutes_holds_against_a_scale_down() -> None:
    play(
        law(),
        (
            Scene(0, 4, "within the tolerance", busy(4, kv=0.5)),
            Scene(290, 4, "too soon", busy(4, kv=0.3)),
            Scene(300, 3, "the first recommendation is forgotten", busy(4, kv=0.3)),
        ),
    )


def test_a_queue_on_slots_is_not_seen_while_the_cache_is_half_empty() -> None:
    play(law(), (Scene(0, 1, "100 wait", busy(1, running=16, waiting=100, kv=0.4)),))


def test_it_keeps_still_without_metrics() -> None:
    assert law().answer(without_metrics(show(Scene(0, None, "", busy(4, kv=0.9))))) == (None,)
