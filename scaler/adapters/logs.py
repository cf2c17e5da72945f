"""Logs: one JSON object a line on stderr.

All goes through the standard library's handlers, which keep errors of formatting and writing to themselves: a log that
cannot be written must never stop a tick.
"""

import logging
import sys
import threading
from collections import OrderedDict
from collections.abc import Hashable, Mapping, MutableMapping
from typing import Any, Final, TextIO

import structlog

_DETAILS: Final = ("signals", "reasons", "limits", "diagnostics", "notes", "story")


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


def _without_details(_logger: object, _method: str, fields: MutableMapping[str, Any]) -> Mapping[str, Any]:
    """Leave out of a decision what does not fit on a person's line; the JSON format has it all."""
    if fields.get("event") == "decision":
        for name in _DETAILS:
            fields.pop(name, None)
    return fields
