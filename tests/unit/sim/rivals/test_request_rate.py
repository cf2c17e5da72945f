"""Requests per second: follows each wobble without a dead band, and keeps still within one."""

from scaler.sim.rivals.request_rate import RequestRate, with_dead_band
from tests.laws import Scene, busy, play


def test_the_rate_over_the_share_of_the_capacity_is_the_count() -> None:
    play(
        RequestRate(1.0, min_replicas=1, max_replicas=10),
        (
            Scene(0, None, "one sample is no rate", busy(2), arrived=1000),
            Scene(60, 2.5, "120 in 60 s, extrapolated to 240 in 120 s: 2/s over 0.8", busy(2), arrived=1120),
            Scene(120, 2.5, "2/s still, and no dead band at three replicas", busy(3), arrived=1240),
        ),
    )


def test_within_the_dead_band_it_keeps_what_there_is() -> None:
    play(
        with_dead_band(1.0, min_replicas=1, max_replicas=10),
        (
            Scene(0, None, "one sample is no rate", busy(3), arrived=1000),
            Scene(60, 3.0, "2/s: between 2 / 0.8 and 2 / 0.6", busy(3), arrived=1120),
            Scene(120, 2.5, "above 0.8 of two replicas: up", busy(2), arrived=1240),
            Scene(180, 2 / 0.6, "below 0.6 of four: down to what 0.6 leaves", busy(4), arrived=1360),
        ),
    )
