"""Small readings of values that the decoders share."""

import math
from collections.abc import Iterable
from typing import TypeAlias

from scaler.model import Absent, Reading
from scaler.promql.queries import SIGNAL_LABEL
from scaler.promql.query import LabelNames, Sample

Source: TypeAlias = tuple[str, str]
"""Pod and scraped address: what one sample came from."""


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


def source_of(row: Sample, names: LabelNames) -> Source:
    """Return what a row of one replica came from."""
    return row.labels.get(names.pod, ""), row.labels.get(names.instance, "")


def replica_of(source: Source) -> str:
    """Return the replica's name: its pod, or its address where there is no pod label."""
    pod, instance = source
    return pod or instance


def by_signal(rows: Iterable[Sample]) -> dict[str, float]:
    """Return the best value of each part of a union."""
    values: dict[str, list[float]] = {}
    for row in rows:
        values.setdefault(row.labels.get(SIGNAL_LABEL, ""), []).append(row.value)
    return {signal: best(of_signal) if len(of_signal) > 1 else of_signal[0] for signal, of_signal in values.items()}


def _worth(value: float) -> tuple[int, float]:
    if usable(value):
        return 2, value
    return (1, 0.0) if math.isnan(value) else (0, value)
