"""Durations, numbers in words, and the tick grid. Imports nothing of ours."""

import math
import re
from typing import Final

_DURATION_PART: Final = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)")
_SECONDS_PER: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
# A quotient such as 8.000000000000002 is 8 with rounding error, not a reason for a ninth replica.
_ROUNDING: Final = 1e-9


def parse_duration_s(text: str) -> float:
    """Read a duration, "90", "1.5", "90s", "1m30s", "500ms" or "2h", as seconds.

    Raises:
        ValueError: The text is not a finite, non-negative duration.
    """
    stripped = text.strip()
    try:
        seconds = float(stripped)
    except ValueError:
        parts = _DURATION_PART.findall(stripped)
        if not parts or "".join(number + unit for number, unit in parts) != stripped:
            message = f"{text!r} is not a duration such as 15s, 1m30s or 500ms"
            raise ValueError(message) from None
        seconds = sum(float(number) * _SECONDS_PER[unit] for number, unit in parts)
    if not math.isfinite(seconds) or seconds < 0:
        message = f"{text!r} is not a finite duration of zero or more"
        raise ValueError(message)
    return seconds


def format_duration(seconds: float) -> str:
    """Write seconds for a person: 0.25 -> "0.25 s", 41 -> "41 s", 90 -> "1 min 30 s", 7200 -> "2 h"."""
    if seconds < 60:  # noqa: PLR2004 - seconds in a minute
        return f"{format_number(seconds)} s"
    whole = round(seconds)
    hours, rest = divmod(whole, 3600)
    minutes, left = divmod(rest, 60)
    parts = [(hours, "h"), (minutes, "min"), (left, "s")]
    return " ".join(f"{count} {unit}" for count, unit in parts if count)


def format_number(value: float) -> str:
    """Write a number with at most three significant decimals: 41.0 -> "41", 0.8333 -> "0.833", 1234.5 -> "1234"."""
    if not math.isfinite(value):
        return str(value)
    if value == int(value) or abs(value) >= 1000:  # noqa: PLR2004 - beyond a thousand, decimals are noise
        return str(int(value))
    return f"{value:.3g}"


def ceil_replicas(quotient: float) -> int:
    """Round a quotient up to whole replicas, forgiving rounding error: 8.000000000000002 -> 8, 8.01 -> 9, 0 -> 0."""
    return max(0, math.ceil(quotient - _ROUNDING))


def floor_replicas(quotient: float) -> int:
    """Round a quotient down to whole replicas, forgiving rounding error: 2.9999999999 -> 3, 2.99 -> 2."""
    return max(0, math.floor(quotient + _ROUNDING))


def grid_floor(at: float, interval_s: float) -> float:
    """Return the newest tick at or before ``at``: the multiple of ``interval_s`` (Unix time), so (31.0, 15) -> 30.0."""
    return math.floor(at / interval_s + _ROUNDING) * interval_s
