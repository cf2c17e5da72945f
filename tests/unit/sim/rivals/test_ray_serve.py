"""Ray Serve: ongoing requests for each replica, 30 s up and 600 s down."""

import pytest

from scaler.sim.rivals.ray_serve import RayServe
from tests.laws import Scene, busy, play


def test_it_waits_for_thirty_seconds_and_goes_to_what_is_asked_for_then() -> None:
    # 27 slots: a target of 20.
    play(
        RayServe(27, min_replicas=1, max_replicas=50),
        (
            Scene(0, 1, "20 on one replica", busy(1, running=20)),
            Scene(10, 1, "the mean, 35, needs two: since now", busy(1, running=27, waiting=23)),
            Scene(20, 1, "10 s", busy(1, running=27, waiting=33)),
            Scene(30, 1, "20 s", busy(1, running=27, waiting=33)),
            Scene(40, 3, "30 s: 60 / 20", busy(1, running=27, waiting=33)),
            Scene(50, 3, "asked for, so it need not be asked for again", busy(1, running=27, waiting=33), 3),
        ),
    )


@pytest.mark.parametrize(("interruption", "expected"), [(5, 1), (45, 3)])
def test_it_goes_down_after_ten_minutes_without_a_break(interruption: int, expected: int) -> None:
    quiet = [Scene(10.0 * tick, 3, "not long enough", busy(3, running=1)) for tick in range(60)]
    quiet[30] = Scene(300, 3, "more for a moment", busy(3, running=interruption))
    play(
        RayServe(27, min_replicas=1, max_replicas=50),
        (*quiet, Scene(600, expected, "600 s after the first, or after the break", busy(3, running=1))),
    )


def test_requests_at_the_handles_count() -> None:
    play(
        RayServe(27, min_replicas=1, max_replicas=50),
        tuple(
            Scene(10.0 * tick, 1 if tick < 3 else 2, "40 at the handles", (), requested=1, unrouted=40)
            for tick in range(4)
        ),
    )
