"""Knative's KPA: 70 % of the slots for each pod, over 60 s, and over 6 s in a panic."""

from scaler.sim.rivals.knative import KnativeKpa
from tests.laws import Scene, busy, play


def test_a_steady_load_is_divided_by_seventy_per_cent_of_the_slots() -> None:
    # 10 slots: 7 requests for each pod.
    play(
        KnativeKpa(10, min_replicas=1, max_replicas=50),
        (
            Scene(0, 1, "7 requests on one pod: 7 / 7", busy(1, running=7)),
            Scene(2, 1, "still", busy(1, running=7)),
            Scene(4, 2, "the mean of all three, 8.3, needs two; so does the panic's, and 2 / 1 is a panic",
                  busy(1, running=10, waiting=1)),
        ),
    )  # fmt: skip


def test_in_a_panic_it_goes_up_at_once_and_never_down_until_a_minute_after() -> None:
    law = KnativeKpa(10, min_replicas=1, max_replicas=50)
    calm = tuple(Scene(2.0 * tick, 1, "calm", busy(1, running=7)) for tick in range(30))
    play(
        law,
        (
            *calm,
            Scene(60, 5, "6 s: (7 + 7 + 77) / 3 = 30.3 needs 5 of 7, five times one ready pod", busy(1, running=77)),
            Scene(62, 8, "(7 + 77 + 77) / 3 = 53.7 needs 8", busy(1, running=77)),
            Scene(64, 11, "77 needs 11", busy(1, running=77)),
            Scene(66, 11, "the crowd has gone, the panic has not", busy(11, running=0), 11),
            Scene(120, 11, "54 s later", busy(11)),
            Scene(124, 11, "exactly 60 s after it last needed twice the ready pods", busy(11)),
            Scene(126, 5, "over: down to half of the ready pods at most", busy(11)),
        ),
    )


def test_after_its_own_start_it_keeps_what_there_is_for_a_minute() -> None:
    play(
        KnativeKpa(10, min_replicas=1, max_replicas=50),
        (
            Scene(0, 4, "it knows nothing yet", busy(4)),
            Scene(60, 4, "still", busy(4)),
            Scene(62, 2, "now half of them at most", busy(4)),
        ),
    )


def test_requests_that_wait_at_the_router_count() -> None:
    play(
        KnativeKpa(10, min_replicas=1, max_replicas=50),
        (Scene(0, 3, "21 at the activator, no pod", (), requested=1, unrouted=21),),
    )
