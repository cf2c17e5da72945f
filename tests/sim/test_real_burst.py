"""A burst on a real vLLM 0.32 (24 requests at once on 4 slots, scraped every 2 s), replayed through the law.

The recording: 20 wait at once; the P95 TTFT reads 0.2 s at first, tops when the queue is gone, and stays at 76 to 78 s
for 48 s with nothing in flight.
"""

import csv
import math
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from scaler.model import Absent, Action, Decision, Observation, ReasonCode, SignalName
from tests.builders import TTFT, policy, run

RECORDING = Path(__file__).parents[1] / "data/vllm-captures/prom_burst_timeline.csv"
TICK_S = 4.0
OBJECTIVE_S = 2.5


def recorded() -> list[Observation]:
    with RECORDING.open(encoding="utf-8") as lines:
        return [_observation(row) for row in csv.DictReader(lines)]


def _observation(row: dict[str, str]) -> Observation:
    running, waiting = float(row["running"]), float(row["waiting"])
    return Observation(
        at=float(row["t_s"]),
        running=running,
        waiting=waiting,
        # It stayed below 1.6 % all along: the cache is blind to a queue that the slots make.
        kv_usage_ratios=(0.016 if running else 0.0,),
        ttft_p95_s=_reading(row["p95_ttft_1m"]),
        ttft_samples=60 * float(row["ttft_rate_1m"]) if row["ttft_rate_1m"] else Absent.MISSING,
        preemptions=0.0,
        serving=1.0,
        requested=1.0,
        ready=1.0,
        outdated=0.0,
    )


def _reading(text: str) -> float | Absent:
    if not text:
        return Absent.MISSING
    value = float(text)
    return Absent.NO_TRAFFIC if math.isnan(value) else value


@pytest.fixture(scope="module")
def decisions() -> list[Decision]:
    # Few samples suffice here, so that it is not their number that keeps the latency quiet.
    signals = (*policy().signals[:2], replace(TTFT, min_support=5))
    return run(policy(tick_s=TICK_S, signals=signals, max_replicas=20), recorded())


def test_the_recording_is_the_one_that_is_described() -> None:
    seen = recorded()
    assert {(second.at - first.at) for first, second in pairwise(seen)} == {TICK_S}
    lingering = [one for one in seen if one.running == 0 and isinstance(one.ttft_p95_s, float) and one.ttft_p95_s > 70]
    assert lingering[-1].at - lingering[0].at + TICK_S == 48
    assert [one.ttft_p95_s for one in lingering][-1] == 78


def test_it_scales_up_on_the_queue_at_once(decisions: list[Decision]) -> None:
    first = next(decision for decision in decisions if decision.observation.waiting == 20)
    assert (first.action, first.target, first.up_need) == (Action.SCALE_UP, 5, 0)
    assert first.reason.code is ReasonCode.BURST
    assert first.reason.text.startswith("in flight 24 > 1 x 4 slots x 1 replica: needs 6 replicas")
    ttft = first.signals[2].value
    assert isinstance(ttft, float)
    assert ttft < OBJECTIVE_S


def test_it_does_not_scale_up_on_the_ttft_that_lingers(decisions: list[Decision]) -> None:
    idle = [decision for decision in decisions if decision.at > 88 and decision.observation.running == 0]
    asked = [decision.signals[2].up_need for decision in idle]
    above = [one.signals[2].value for one in idle if isinstance(one.signals[2].value, float)]
    assert idle[0].signals[2].name == SignalName.TTFT_P95
    # A law that looked at the quantile alone would ask for more all that time.
    assert sum(value > OBJECTIVE_S for value in above) == 12
    assert set(asked) == {0}
    assert all(decision.up_need == 0 for decision in idle)
    assert all(decision.target == 1 for decision in idle[4:])
