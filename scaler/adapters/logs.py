"""Logs: one JSON object a line on stderr, and the record of a decision with field names that stay.

All goes through the standard library's handlers, which keep errors of formatting and writing to themselves: a log that
cannot be written must never stop a tick.
"""

import logging
import math
import sys
import threading
from collections import OrderedDict
from collections.abc import Hashable, Mapping, MutableMapping
from datetime import UTC, datetime
from typing import Any, Final, TextIO

import structlog

from scaler.model import Absent, Decision, PoolKey, PoolLocator, Reading, Reason, SignalState

MAX_TEXT_CHARS: Final = 500
"""Longest sentence in a record: twice the longest that the law writes; a query's error text can be far longer."""
MAX_NOTES: Final = 10
"""Most notes in a record: each reading has at most one, and there are fewer than ten kinds of them."""
_SIGNIFICANT_DIGITS: Final = 6
_DETAILS: Final = ("signals", "reasons", "limits", "notes")


class OncePerKey:
    """Tells whether something is said for the first time, so that a fault in every tick is not a log line in each.

    Any thread may ask.

    Args:
        limit: How many keys are remembered; the one that was not met for longest is forgotten first.
    """

    def __init__(self, limit: int = 1000) -> None:
        self._limit = limit
        self._met: OrderedDict[Hashable, None] = OrderedDict()
        self._lock = threading.Lock()

    def first(self, key: Hashable) -> bool:
        """Return whether ``key`` was not met before, and remember it."""
        with self._lock:
            is_new = key not in self._met
            self._met[key] = None
            self._met.move_to_end(key)
            if len(self._met) > self._limit:
                self._met.popitem(last=False)
        return is_new


def configure(level: str, log_format: str, stream: TextIO | None = None) -> None:
    """Send all logs of this process, those of libraries too, to one place.

    Args:
        level: Name of the lowest level that is written: debug, info, warning, error.
        log_format: ``json`` for one object a line, ``console`` for a person.
        stream: Where to; stderr by default.
    """
    stream = sys.stderr if stream is None else stream
    logging.raiseExceptions = False
    shared: list[Any] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.processors.MaybeTimeStamper(fmt="iso", utc=True, key="time"),
        structlog.processors.StackInfoRenderer(),
    ]
    if log_format == "console":
        final: list[Any] = [_without_details, structlog.dev.ConsoleRenderer(colors=stream.isatty())]
    else:
        final = [structlog.processors.format_exc_info, structlog.processors.JSONRenderer(default=str)]
    handler = logging.StreamHandler(stream)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *final],
        )
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    structlog.configure(
        processors=[
            structlog.stdlib.filter_by_level,
            *shared,
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
    )


def iso_time(at: float) -> str:
    """Write an instant as ISO 8601 in UTC with milliseconds: 1700000010.0 -> "2023-11-14T22:13:30.000Z"."""
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def clip(text: str, limit: int = MAX_TEXT_CHARS) -> str:
    """Cut a text to at most ``limit`` characters, and show that it was cut."""
    return text if len(text) <= limit else text[: limit - 1] + "…"


def decision_record(key: PoolKey, locator: PoolLocator, decision: Decision) -> dict[str, Any]:
    """Return a decision as one flat record: what a person asks of "why did it scale, or why didn't it".

    Args:
        key: The pool.
        locator: Where its series are.
        decision: What was decided.

    Returns:
        JSON-compatible fields whose names do not change between releases. A reading that is not a number is null, with
        the reason in ``absent`` beside it. Ages are seconds, counts are replicas.
    """
    seen = decision.observation
    return {
        "time": iso_time(decision.at),
        "namespace": key.namespace,
        "scaled_object": key.scaled_object,
        "trigger": key.trigger,
        "pool": str(locator),
        "action": decision.action.value,
        "from": decision.from_replicas,
        "to": decision.target,
        "reported": decision.reported_value,
        "active": decision.active,
        "reason": decision.reason.code.value,
        "why": clip(decision.reason.text),
        "reasons": [_reason(reason) for reason in decision.reasons],
        "limits": [_reason(limit) for limit in decision.limits],
        "up_need": decision.up_need,
        "down_need": decision.down_need,
        "signals": {state.name.value: _signal(state) for state in decision.signals},
        "requested": _number(seen.requested),
        "serving": _number(seen.serving),
        "ready": _number(seen.ready),
        "pending": decision.pending,
        "running": _number(seen.running),
        "waiting": _number(seen.waiting),
        "data_age_s": None if decision.usable_at is None else _round(max(0.0, decision.at - decision.usable_at)),
        "sample_age_s": _number(seen.newest_sample_age_s),
        "notes": [clip(note) for note in (*seen.notes, *decision.notes)[:MAX_NOTES]],
    }


def _reason(reason: Reason) -> dict[str, str]:
    return {"code": reason.code.value, "text": clip(reason.text)}


def _signal(state: SignalState) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "value": _number(state.value),
        "unit": state.unit,
        "up_at": _round(state.scale_up_threshold),
        "down_at": _round(state.scale_down_threshold),
        "up_need": state.up_need,
        "down_need": state.down_need,
        "up_sustained": state.up_sustained,
        "down_sustained": state.down_sustained,
        "up_windows": f"{state.up_windows_met}/{state.up_windows_required}",
        "down_windows": f"{state.down_windows_met}/{state.down_windows_required}",
    }
    if isinstance(state.value, Absent):
        fields["absent"] = state.value.value
    if state.note:
        fields["note"] = clip(state.note)
    return fields


def _number(reading: Reading) -> float | None:
    return None if isinstance(reading, Absent) else _round(reading)


def _round(value: float) -> float | None:
    # NaN and infinity are no JSON.
    return float(f"{value:.{_SIGNIFICANT_DIGITS}g}") if math.isfinite(value) else None


def _without_details(_logger: object, _method: str, fields: MutableMapping[str, Any]) -> Mapping[str, Any]:
    """Leave out of a decision what does not fit on a person's line; the JSON format has it all."""
    if fields.get("event") == "decision":
        for name in _DETAILS:
            fields.pop(name, None)
    return fields
