"""That logs are readable by machines and people, and harm nobody."""

import json
import logging
import sys
from collections.abc import Iterator
from dataclasses import replace

import pytest
import structlog

from scaler.adapters import logs
from scaler.adapters.logs import OncePerKey
from scaler.adapters.record import decision_record
from scaler.model import Decision, PoolKey
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
    assert "which no noise explains" in shown
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
