"""What a record of a decision holds, in fields and in words."""

import json
from dataclasses import replace
from pathlib import Path
from typing import get_type_hints

import pytest

from scaler.adapters.record import DecisionRecord, clip, decision_record, iso_time, reference
from scaler.model import Absent, Decision, PoolKey
from scaler.policy.decide import advance
from scaler.policy.history import History
from tests.builders import LOCATOR, observation, policy, run

KEY = PoolKey("serving", "llama", "0a1b2c3d")


def decision(load: float = 80.0, **changes: object) -> Decision:
    return replace(advance(policy(), History(), observation(0, load, 4))[1], **changes)  # type: ignore[arg-type]


def test_a_record_says_what_was_decided_for_whom_and_why() -> None:
    record = decision_record(KEY, LOCATOR, decision())
    head = {
        name: record[name]
        for name in ("namespace", "scaled_object", "trigger", "pool", "prometheus", "action", "from", "to")
    }
    assert head == {
        "namespace": "serving",
        "scaled_object": "llama",
        "trigger": "0a1b2c3d",
        "pool": "deployment/vllm",
        "prometheus": "default",
        "action": "scale_up",
        "from": 4,
        "to": 8,
    }
    assert record["time"] == "1970-01-01T00:00:00.000Z"
    assert record["reason"] == "burst"
    assert record["why"] == record["reasons"][0]["text"]
    assert (record["requested"], record["serving"], record["pending"], record["reported"]) == (4, 4, 0, 8)


def test_a_record_has_each_signal_with_its_thresholds_needs_and_windows() -> None:
    signals = decision_record(KEY, LOCATOR, decision())["signals"]
    assert list(signals) == ["saturation", "kv_cache", "ttft_p95"]
    saturation = signals["saturation"]
    assert (saturation["value"], saturation["unit"]) == (80.0, "requests")
    assert saturation["up_at"] == 16.0
    assert saturation["down_at"] == pytest.approx(6.79, abs=0.01)
    assert (saturation["up_need"], saturation["down_need"]) == (20, 25)
    assert (saturation["up_windows"], saturation["down_windows"]) == ("1/4", "0/20")


def test_a_missing_reading_is_null_with_its_reason_beside_it() -> None:
    seen = observation(0, 8, 4, ttft_p95_s=Absent.NO_TRAFFIC, requested=Absent.MISSING)
    record = decision_record(KEY, LOCATOR, advance(policy(), History(), seen)[1])
    assert record["requested"] is None
    assert record["signals"]["ttft_p95"]["value"] is None
    assert record["signals"]["ttft_p95"]["absent"] == "no_traffic"
    assert record["signals"]["saturation"]["absent"] is None


def test_a_record_is_json_whatever_the_readings() -> None:
    odd = replace(observation(0, 8, 4), newest_sample_age_s=float("nan"), running=float("inf"))
    record = decision_record(KEY, LOCATOR, decision(observation=odd))
    assert json.loads(json.dumps(record, allow_nan=False)) == record
    assert record["sample_age_s"] is None


def test_a_record_is_bounded() -> None:
    notes = tuple("n" * 10_000 for _ in range(100))
    record = decision_record(KEY, LOCATOR, decision(observation=replace(observation(0, 8, 4), notes=notes)))
    assert len(record["notes"]) == 10
    assert len(json.dumps(record)) < 10_000


def test_the_age_of_the_data_is_how_long_the_last_answer_has_been_held() -> None:
    assert decision_record(KEY, LOCATOR, decision(at=100.0, usable_at=40.0))["data_age_s"] == 60.0
    assert decision_record(KEY, LOCATOR, decision(usable_at=None))["data_age_s"] is None


def test_times_are_utc_with_milliseconds() -> None:
    assert iso_time(1_700_000_010.0) == "2023-11-14T22:13:30.000Z"


def test_a_text_that_is_cut_shows_it() -> None:
    assert clip("short", 10) == "short"
    assert clip("twelve chars", 10) == "twelve ch…"


def test_the_story_of_a_scale_up_defends_its_cost() -> None:
    pool = policy(replica_hourly_cost=2.5, max_hourly_cost=24.0)
    seen = [observation(tick, 41, 8, ttft_samples=60.0) for tick in range(4)]
    record = decision_record(KEY, LOCATOR, run(pool, seen)[-1])
    assert record["story"].split(". ") == [
        (
            "Scale up from 8 to 9 replicas: in flight 41 > 1 x 4 slots x 8 replicas for 4 of 4 windows: needs 11"
            " replicas, as 9 requests are more than the objective allows"
        ),
        "This has been asked for 45 s without a break",
        "11 replicas are wanted; maxHourlyCost 24 pays for 9 at 2.5 each",
        "That costs 22.5 an hour, within the 24 allowed",
        "Protection grade 1: 11 replicas are needed, and limits allow 9; a request that comes now waits about 9 s.",
    ]
    assert (record["hourly_cost"], record["max_hourly_cost"], record["within_budget"]) == (22.5, 24.0, False)
    assert record["over_since"] == "1970-01-01T00:00:00.000Z"


def test_a_hold_says_what_it_waits_for_and_how_long_still() -> None:
    calm = [observation(tick, 8, 8) for tick in range(19)]
    waiting = decision_record(KEY, LOCATOR, run(policy(), calm[:2])[-1])
    assert (waiting["waits_for"], waiting["reasons"][0]["windows"], waiting["reasons"][0]["left_s"]) == (
        "2 of 20 windows",
        "2/20",
        270.0,
    )
    starting = [*calm[:17], observation(17, 8, 9, serving=8.0, ready=8.0)]
    assert decision_record(KEY, LOCATOR, run(policy(), starting)[-1])["waits_for"] == "1 replica still starting"


def test_every_field_of_a_record_is_in_its_type() -> None:
    assert set(decision_record(KEY, LOCATOR, decision())) == set(get_type_hints(DecisionRecord))


def test_the_reference_page_is_what_the_types_say() -> None:
    page = Path(__file__).parents[3] / "docs/reference/decision-record.md"
    assert page.read_text(encoding="utf-8") == reference()
