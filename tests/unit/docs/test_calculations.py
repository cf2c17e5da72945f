"""Every worked number of docs/calculations.md, computed by the code, and found on the page."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from scaler.model import Absent, Extra, Observation, ReplicaLoad, SignalForm, SignalPolicy
from scaler.policy import hpa, limits, needs
from scaler.policy.combine import sustain
from scaler.policy.decide import advance
from scaler.policy.growth import growth
from scaler.policy.history import History, Tick, down_window
from scaler.policy.needs import NO_GROWTH, Growth, LatencyContext, Need
from scaler.policy.signals import assess
from tests.builders import DEFAULT_WINDOWS, KV_CACHE, SATURATION, TTFT, drive, observation, policy, run

PAGE = (Path(__file__).parents[3] / "docs/calculations.md").read_text(encoding="utf-8")


def latency(seen: Observation, context: LatencyContext) -> Need:
    return needs.latency(policy(), TTFT, seen, Extra(seen.ttft_p95_s, seen.ttft_samples), context).need


def sustained(*ups: int) -> int | None:
    ticks = [Tick(float(at), 1, 1.0, 0.0, preempted=False, needs=(Need(up, up),)) for at, up in enumerate(ups)]
    return sustain(ticks, 0, up_window=4, down_window=4, requested=1).up


def capacity() -> Need:
    signal = SignalPolicy("prompt_tokens", SignalForm.CAPACITY, 2000.0, 1600.0, DEFAULT_WINDOWS, "tokens/s")
    return needs.capacity(signal, 9000.0).need


def intensity() -> int | None:
    signal = SignalPolicy("preemption_rate", SignalForm.INTENSITY, 0.2, 0.1, DEFAULT_WINDOWS, "events/s")
    return needs.intensity(signal, observation(0, 4, 4), Extra(0.3), None).need.up


def counted() -> float | Absent:
    replicas = tuple(ReplicaLoad(f"vllm-{index}", 4.0, waiting) for index, waiting in enumerate((34.0, 0.0, 0.0, 0.0)))
    return run(policy(), [observation(0, 50, 4, replicas=replicas)])[-1].signals[0].value


def grown(more: float) -> Growth:
    """Three full replicas of 16 slots that give 48 first tokens a minute, and have had more to do for two ticks."""
    pool, history = policy(slots_per_replica=16), History()
    for tick in range(20):
        history, _ = advance(pool, history, observation(tick, 48, 3, slots=16, ttft_samples=48.0))
    later = observation(20, 48 + more / 2, 3, slots=16, ttft_samples=48.0)
    history, _ = advance(pool, history, later)
    return growth(pool, history, observation(21, 48 + more, 3, slots=16, ttft_samples=48.0))


def drain_note() -> str:
    """The queue of 20 was 8 s ago: with ticks of 8 s, one tick."""
    pool = policy(tick_s=8.0)
    before = replace(observation(0, 24, 1), at=0.0)
    history = History(ticks=(Tick(0.0, 1, 1.0, before.waiting, preempted=False, needs=()),))
    seen = replace(observation(0, 20, 1, ttft_p95_s=9.7), at=8.0)
    return assess(pool, history, seen, seen=seen, coming=NO_GROWTH, saturated=False)[0][2].note


def steps_up() -> list[int]:
    found = [decision.target or 0 for decision in drive(policy(), [80.0] * 12, replicas=2)]
    return list(dict.fromkeys(found))


BUSY = observation(0, 41, 8)
KV = observation(0, 18, 3, running=12.0, waiting=6.0, kv_usage_ratios=(0.93, 0.95, 0.98))
RUSHED = policy(slots_per_replica=16, signals=(replace(SATURATION, scale_up=0.9),), scale_down_noise=3.0)
PAID = policy(replica_hourly_cost=2.5, max_hourly_cost=24.0)


@pytest.mark.parametrize(
    ("text", "computed", "expected"),
    [
        (
            "up = ceil(41 / 4) = **11**",
            lambda: needs.saturation(policy(), SATURATION, observation(0, 41, 8)).need.up,
            11,
        ),
        ("13.45)) = **14**", lambda: needs.saturation(policy(), SATURATION, observation(0, 41, 8)).need.down, 14),
        ("up = **5**, down = **7**", lambda: needs.kv_cache(KV_CACHE, KV).need, Need(5, 7)),
        (
            "up = ceil(4 x 1.5) = **6**",
            lambda: latency(observation(0, 20, 4, ttft_p95_s=4.0), LatencyContext(base_s=0.5, fewest_serving=4)).up,
            6,
        ),
        ("are gone in **32 s**", lambda: "32 s" in drain_note(), True),
        ("of which **20** count", counted, 20),
        ("so **96** more are on their way", lambda: round(grown(48).further, 6), 96),
        (
            "so 27 more are nothing and **28** are growth",
            lambda: [grown(more).further > 0 for more in (27, 28)],
            [False, True],
        ),
        ("2.36, so **3**", lambda: latency(observation(0, 8, 4, ttft_p95_s=0.25), LatencyContext()).down, 3),
        ("up = **5**, down = **6**", capacity, Need(5, 6)),
        ("on 4 replicas: up = **6**", intensity, 6),
        ("window of 4 makes **11**", lambda: sustained(11, 11, 5, 11), 11),
        ("of 11, 11, 11, 5 it makes **5**", lambda: sustained(11, 11, 11, 5), 5),
        ("go to **6**, then **12**, then **20**", steps_up, [6, 12, 20]),
        ("8 replicas that need 3 go to **7**", lambda: limits.step_down(policy(), 8, 3).replicas, 7),
        ("40 go to **32**", lambda: limits.step_down(policy(), 40, 3).replicas, 32),
        ("/ 14.4 still needs **4**", lambda: needs.certain_saturation_need(RUSHED, RUSHED.signals[0], 80.0), 4),
        (
            "with `warmReplicas` 2 is **13**",
            lambda: run(policy(warm_replicas=2), [observation(tick, 41, 8) for tick in range(4)])[-1].target,
            13,
        ),
        ("pays for **9**", lambda: PAID.affordable_replicas, 9),
        ("**23** is reported for 21", lambda: hpa.report(21, 20, tolerance=0.1, highest=100).value, 23.0),
        ("**17.0012** for", lambda: hpa.report(18, 20, tolerance=0.1, highest=100).value, pytest.approx(17.0012)),
        ("**20** for 19", lambda: hpa.report(19, 20, tolerance=0.1, highest=100).value, 20.0),
        (
            "are **109 s**",
            lambda: run(policy(), [observation(0, 141, 8, ttft_samples=60.0)])[-1].queue_wait_s,
            109.0,
        ),
        (
            "two regrets make 20 windows **80**",
            lambda: down_window(SATURATION, History(regrets=(0.0, 1.0)).patience),
            80,
        ),
    ],
)
def test_a_worked_number_is_what_the_code_gives(text: str, computed: Callable[[], object], expected: object) -> None:
    assert text in " ".join(PAGE.split())
    assert computed() == expected


def test_every_bold_number_of_the_page_is_among_them() -> None:
    # Adding an example without a test shows here: 28 bold numbers stand on the page.
    bold = [part for part in PAGE.split("**")[1::2] if part[:1].isdigit()]
    assert len(bold) == 28
