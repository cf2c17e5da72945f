"""What is certain to come is asked for at once, and what may be chance is not."""

from dataclasses import replace
from typing import Any

import pytest

from scaler.model import Absent, Action, Observation, PoolPolicy, ReasonCode, ReplicaLoad, SignalForm
from scaler.policy.decide import advance
from scaler.policy.growth import growth
from scaler.policy.history import History
from scaler.policy.needs import NO_GROWTH, Growth
from tests.builders import observation, policy, run

POOL = policy(slots_per_replica=16)
SERVED_PER_S = 0.8
"""First tokens a second of three full replicas, whose requests take a minute."""


def full(tick: int, load: float, **changes: Any) -> Observation:
    """Three replicas of 16 slots, as many first tokens as they can have."""
    return observation(tick, load, 3, slots=16, **{"ttft_samples": 60 * SERVED_PER_S, **changes})


def grown(*loads: float, calm: int = 20, pool: PoolPolicy = POOL, **changes: Any) -> Growth:
    """The growth seen at the last of these loads, after so many ticks at 48 requests, which fill the slots."""
    history = History()
    ticks = [full(tick, load) for tick, load in enumerate([48.0] * calm + list(loads))]
    for seen in ticks[:-1]:
        history, _ = advance(pool, history, seen)
    return growth(pool, history, replace(ticks[-1], **changes))


def test_a_queue_that_grows_says_what_will_be_in_flight() -> None:
    # 48 more in 30 s are 1.6 a second beyond the 0.8 that are served: 48 x 1.6 / 0.8.
    assert tuple(grown(72, 96)) == pytest.approx((1.6, 0.8, 96))


def test_what_chance_explains_is_no_growth() -> None:
    # Four deviations are 4 x sqrt(2 x 0.8 x 30) = 27.7 requests in 30 s.
    assert grown(62, 75) == NO_GROWTH
    assert grown(62, 76).further > 0


def test_a_slower_growth_shows_over_a_longer_span() -> None:
    # 10 more each 15 s are within the noise over 45 s (30 of 33.9), and beyond it over 60 s (40 of 39.2).
    assert grown(58, 68, 78) == NO_GROWTH
    assert grown(58, 68, 78, 88).per_s == pytest.approx(10 / 15)


def test_traffic_that_always_leaps_has_to_leap_further() -> None:
    # By 22 within each half minute: four deviations are 4 x 1.4826 x 22 = 130.
    restless = [48.0, 48.0, 70.0, 70.0] * 5
    assert grown(*restless, 72, 96, calm=0) == NO_GROWTH
    assert grown(*restless, 110, 170, calm=0) == NO_GROWTH
    assert grown(*restless, 110, 190, calm=0).per_s == pytest.approx(142 / 60)


@pytest.mark.parametrize(
    ("replicas", "further"),
    [
        pytest.param(((16, 20), (16, 20), (16, 8)), 96, id="all have queues"),
        pytest.param(((16, 48), (16, 0), (16, 0)), 96, id="all are full"),
        pytest.param(((16, 48), (16, 0), (15, 0)), 0, id="one has a free slot"),
        pytest.param(((16, 20), (16, 20), (12, 8)), 96, id="a full cache is no room"),
    ],
)
def test_growth_is_heard_while_nobody_has_room(replicas: tuple[tuple[int, int], ...], further: float) -> None:
    loads = tuple(ReplicaLoad(f"vllm-{index}", r, q, 100.0) for index, (r, q) in enumerate(replicas))
    assert grown(72, 96, replicas=loads).further == pytest.approx(further)


def test_what_an_unseen_replica_brings_along_has_not_just_come() -> None:
    assert grown(72, 96, serving=4.0, running=64.0, waiting=32.0) == NO_GROWTH
    assert grown(72, 96, serving=2.0).further > 0


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"running": Absent.MISSING}, id="running"),
        pytest.param({"waiting": Absent.MISSING}, id="waiting"),
        pytest.param({"ttft_samples": Absent.MISSING}, id="first tokens"),
        pytest.param({"serving": Absent.MISSING}, id="serving"),
        pytest.param({"waiting": 0.0}, id="nothing waits"),
    ],
)
def test_without_data_or_queue_there_is_no_growth(changes: dict[str, Any]) -> None:
    assert grown(72, 96, **changes) == NO_GROWTH


def test_a_pool_has_no_growth_until_its_noise_is_known() -> None:
    # Five rate windows are 20 ticks, of which more than half have to be there.
    assert grown(72, 96, calm=9) == NO_GROWTH
    assert grown(72, 96, calm=10).further == pytest.approx(96)


def test_what_has_come_at_once_and_is_worked_off_is_no_growth() -> None:
    assert grown(200).further > 0
    assert grown(200, 196).further > 0
    assert grown(200, 196, 192) == NO_GROWTH
    assert grown(200, 196, 192, 200) == NO_GROWTH


def test_a_silent_replica_makes_what_is_served_no_measure() -> None:
    def seen(tick: int, load: float, pace: float) -> Observation:
        queue = load - 48
        replicas = (*(ReplicaLoad(f"vllm-{index}", 16, queue / 3, 100.0) for index in range(2)),)
        return full(tick, load, replicas=(*replicas, ReplicaLoad("vllm-2", 16, queue / 3, pace)))

    for pace, is_growth in ((100.0, True), (0.0, False)):
        history = History()
        for tick, load in enumerate([49.0] * 20 + [72.0]):
            history, _ = advance(POOL, history, seen(tick, load, 100.0))
        history, decision = advance(POOL, history, seen(21, 96, pace))
        assert ("on their way" in decision.reason.text) is is_growth


def test_a_tick_that_was_lost_is_not_taken_for_an_empty_pool() -> None:
    history, _ = advance(POOL, History(), full(0, 90))
    for tick in range(1, 20):
        history, _ = advance(POOL, history, full(tick, 90) if tick != 17 else Observation(at=tick * 15.0))
    assert growth(POOL, history, full(20, 96)) == NO_GROWTH


def test_what_came_during_a_gap_did_not_come_in_the_last_half_minute() -> None:
    history = History()
    for tick in range(20):
        history, _ = advance(POOL, history, full(tick, 48))
    # 60 more since the newest tick: within 30 s they are a leap, within 90 s growth, and of what is older nobody knows.
    assert growth(POOL, history, full(21, 108)).per_s == pytest.approx(60 / 30)
    assert growth(POOL, history, full(25, 108)).per_s == pytest.approx(60 / 90)
    assert growth(POOL, history, full(26, 108)) == NO_GROWTH


def test_a_few_first_tokens_do_not_tell_how_much_is_served() -> None:
    assert grown(72, 96, ttft_samples=4.9) == NO_GROWTH
    # By 5 a minute an answer would take ten minutes; no more is believed than all that is in flight.
    assert grown(72, 96, ttft_samples=5.0).further == 96


@pytest.mark.parametrize(
    ("tick_s", "window_s", "span_s"),
    [
        pytest.param(5.0, 60.0, 30.0, id="ticks of 5 s"),
        pytest.param(60.0, 60.0, 60.0, id="ticks as long as the window"),
        pytest.param(15.0, 240.0, 120.0, id="scraped once a minute"),
    ],
)
def test_the_shortest_span_is_half_a_rate_window(tick_s: float, window_s: float, span_s: float) -> None:
    pool = replace(POOL, tick_s=tick_s, locator=replace(POOL.locator, rate_window_s=window_s))
    history = History()
    samples = {"ttft_samples": SERVED_PER_S * window_s}
    for tick in range(80):
        history, _ = advance(pool, history, replace(full(0, 48, **samples), at=tick * tick_s))
    leap = replace(full(0, 148, **samples), at=80 * tick_s)
    assert growth(pool, history, leap).per_s == pytest.approx(100 / span_s)


def test_an_increase_for_what_comes_waits_for_nothing_and_says_so() -> None:
    decision = run(POOL, [full(tick, load) for tick, load in enumerate([44.0] * 20 + [64.0, 84.0])])[-1]
    # 84 in flight and 48 x 1.33 / 0.8 = 80 more fill 164 / 16 replicas.
    assert (decision.action, decision.reason.code, decision.target) == (Action.SCALE_UP, ReasonCode.BURST, 7)
    assert decision.signals[0].up_need == 11
    assert decision.signals[0].note == (
        "1.33 requests/s come beyond the 0.8 that are served: 77 more in flight are on their way"
    )
    assert decision.reason.text == (
        "in flight 84 and 77 on their way > 1 x 16 slots x 3 replicas: needs 11 replicas, which no noise explains, so"
        " nothing is waited for: 113 requests are more than the objective allows"
    )


def test_the_next_step_starts_from_what_is_on_its_way() -> None:
    loads = [44.0] * 20 + [120.0, 200.0, 280.0, 360.0]
    decisions = run(replace(POOL, max_replicas=40), [full(tick, load) for tick, load in enumerate(loads)])
    # The count is that of the last scrape all along.
    assert [decision.target for decision in decisions[-4:]] == [7, 14, 28, 40]


def test_a_target_that_is_not_seen_yet_does_not_shrink_under_a_load_that_grows() -> None:
    loads = [44.0] * 20 + [300.0 + 20 * tick for tick in range(14)]
    asked = [decision.target or 0 for decision in run(replace(POOL, max_replicas=100), map(full, range(34), loads))]
    assert asked[20:22] == [7, 14]
    assert asked[20:] == sorted(asked[20:])


def test_a_full_cache_hides_what_comes_too() -> None:
    signal = POOL.signals[1]
    assert signal.form is SignalForm.KV_CACHE
    usage = {"kv_usage_ratios": (0.95, 0.95, 0.98)}
    ticks = [full(tick, load, **usage) for tick, load in enumerate([48.0] * 20 + [72.0, 96.0])]
    needs = [decision.signals[1].up_need for decision in run(POOL, ticks)]
    # 2.88 caches, of which 48 of 48, 72 and 96 + 96 requests want a share.
    assert needs[-3:] == [4, 5, 13]
