"""Small readings of values that the decoders share."""

import math
from collections.abc import Iterable

from scaler.model import Absent, Reading


def best(values: Iterable[float]) -> float:
    """Return the one of several values for the same thing: the greatest usable one, else NaN, else the greatest.

    Which one it is does not depend on their order.
    """
    return max(values, key=_worth)


def usable(value: float) -> bool:
    """Tell whether a value is a finite number of zero or more."""
    return math.isfinite(value) and value >= 0


def reading(value: float | None) -> Reading:
    """Return a usable value; any other is missing."""
    return value if value is not None and usable(value) else Absent.MISSING


def _worth(value: float) -> tuple[int, float]:
    if usable(value):
        return 2, value
    return (1, 0.0) if math.isnan(value) else (0, value)
