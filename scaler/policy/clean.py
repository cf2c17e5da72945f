"""The law's own door: whatever an observation holds, only plausible numbers get in. The rest is missing, never zero."""

import math
from collections.abc import Callable
from dataclasses import fields, replace
from operator import attrgetter
from typing import Final

from scaler.model import Absent, Observation, Reading

HIGHEST_PLAUSIBLE: Final = 1e9
"""No pool has so many requests, replicas, samples or seconds; beyond it a reading is a fault of its source."""

_READINGS: Final = tuple(one.name for one in fields(Observation) if one.type == Reading)
_readings: Final[Callable[[Observation], tuple[Reading, ...]]] = attrgetter(*_READINGS)


def clean(observation: Observation) -> Observation:
    """Return the observation with implausible readings missing, usage clamped to 0..1 and in ascending order.

    NaN, infinite, negative and absurdly large readings become missing, with a note. A clean one is returned as it is.
    """
    changes: dict[str, Reading | tuple[float, ...] | tuple[str, ...]] = {
        name: Absent.MISSING
        for name, reading in zip(_READINGS, _readings(observation), strict=True)
        if not (isinstance(reading, Absent) or 0.0 <= reading <= HIGHEST_PLAUSIBLE)
    }
    notes = tuple(f"{name} was {getattr(observation, name)}, which no pool has" for name in changes)
    ratios = observation.kv_usage_ratios
    if not isinstance(ratios, Absent):
        clamped = tuple(sorted(min(1.0, max(0.0, ratio)) for ratio in ratios if not math.isnan(ratio)))
        if clamped != ratios:
            changes["kv_usage_ratios"] = clamped if clamped or not ratios else Absent.MISSING
    if notes:
        changes["notes"] = (*observation.notes, *notes)
    return replace(observation, **changes) if changes else observation  # type: ignore[arg-type]  # each is a reading
