"""What a record of a decision holds, and that logging harms nobody."""

import json
import logging
import sys
from collections.abc import Iterator
from dataclasses import replace

import pytest
import structlog

from scaler.adapters import logs
from scaler.adapters.logs import OncePerKey, clip, decision_record, iso_time
from scaler.model import Absent, Decision, PoolKey
from scaler.policy.decide import advance
from scaler.policy.history import History
from tests.builders import LOCATOR, observation, policy

KEY = PoolKey("serving", "llama", "0a1b2c3d")


def decision(load: float = 80.0, **changes: object) -> Decision:
    return replace(advance(policy(), History(), observation(0, load, 4))[1], **changes)  # type: ignore[arg-type]


@pytest.fixture
def restored_logging() -> Iterator[None]:
    """Give back the logging that other tests had."""
    root = logging.getLogger()
    before = root.handlers[:], root.level, logging.raiseExceptions
    yield
    root.handlers[:], level, logging.raiseExceptions = before
    root.setLevel(level)
    structlog.reset_defaults()


def written(capsys: pytest.CaptureFixture[str]) -> list[dict[str, object]]:
    return [json.loads(line) for line in capsys.readouterr().err.splitlines()]


def test_a_record_says_what_was_decided_for_whom_and_why() -> None:
    record = decision_record(KEY, LOCATOR, decision())
    head = {name: record[name] for name in ("namespace", "scaled_object", "trigger", "pool", "action", "from", "to")}
    assert head == {
        "namespace": "serving",
        "scaled_object": "llama",
        "trigger": "0a1b2c3d",
        "pool": "deployment/vllm",
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
    assert (saturation["up_at"], saturation["down_at"]) == (16.0, pytest.approx(6.79, abs=0.01))
    assert (saturation["up_need"], saturation["down_need"]) == (20, 25)
    assert (saturation["up_windows"], saturation["down_windows"]) == ("1/4", "0/20")


def test_a_missing_reading_is_null_with_its_reason_beside_it() -> None:
    seen = observation(0, 8, 4, ttft_p95_s=Absent.NO_TRAFFIC, requested=Absent.MISSING)
    record = decision_record(KEY, LOCATOR, advance(policy(), History(), seen)[1])
    assert record["requested"] is None
    assert record["signals"]["ttft_p95"]["value"] is None
    assert record["signals"]["ttft_p95"]["absent"] == "no_traffic"
    assert "absent" not in record["signals"]["saturation"]


def test_a_record_is_json_whatever_the_readings() -> None:
    odd = replace(observation(0, 8, 4), newest_sample_age_s=float("nan"), running=float("inf"))
    record = decision_record(KEY, LOCATOR, decision(observation=odd))
    assert json.loads(json.dumps(record, allow_nan=False)) == record
    assert record["sample_age_s"] is None


def test_a_record_is_bounded() -> None:
    notes = tuple("n" * 10_000 for _ in range(100))
    record = decision_record(
        KEY, LOCATOR, decision(observation=replace(observation(0, 8, 4), notes=notes), notes=notes)
    )
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


def test_a_key_is_new_once_and_forgotten_in_the_end() -> None:
    once = OncePerKey(limit=2)
    assert [once.first(key) for key in ("a", "a", "b", "a", "c", "a", "b")] == [
        True,
        False,
        True,
        False,
        True,
        False,
        True,
    ]


@pytest.mark.usefixtures("restored_logging")
def test_logs_are_one_json_object_a_line_libraries_included(capsys: pytest.CaptureFixture[str]) -> None:
    logs.configure("info", "json")
    structlog.stdlib.get_logger("scaler").info("decision", **decision_record(KEY, LOCATOR, decision()))
    structlog.stdlib.get_logger("scaler").debug("left out")
    logging.getLogger("some.library").warning("said %s", "so")
    own, foreign = written(capsys)
    assert (own["event"], own["level"], own["time"]) == ("decision", "info", "1970-01-01T00:00:00.000Z")
    assert (foreign["event"], foreign["level"]) == ("said so", "warning")
    assert str(foreign["time"]).endswith("Z")


@pytest.mark.usefixtures("restored_logging")
def test_a_traceback_is_a_field_of_its_record(capsys: pytest.CaptureFixture[str]) -> None:
    logs.configure("info", "json")
    structlog.stdlib.get_logger("scaler").error("failed", exc_info=ValueError("broken"))
    (record,) = written(capsys)
    assert "ValueError: broken" in str(record["exception"])


@pytest.mark.usefixtures("restored_logging")
def test_the_console_shows_a_decision_without_its_details(capsys: pytest.CaptureFixture[str]) -> None:
    logs.configure("info", "console")
    structlog.stdlib.get_logger("scaler").info("decision", **decision_record(KEY, LOCATOR, decision()))
    shown = capsys.readouterr().err
    assert len(shown.splitlines()) == 1
    assert "scale_up" in shown
    assert "at least twice as many" in shown
    assert "kv_cache" not in shown


@pytest.mark.usefixtures("restored_logging")
def test_a_log_that_cannot_be_written_raises_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    class Full:
        def write(self, _text: str) -> None:
            raise OSError("no space left on device")

        def flush(self) -> None:
            raise OSError("no space left on device")

        def isatty(self) -> bool:
            return False

    monkeypatch.setattr(sys, "stderr", Full())
    logs.configure("info", "json")
    structlog.stdlib.get_logger("scaler").info("decision")
