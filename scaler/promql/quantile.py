"""What Prometheus says of a histogram's quantile -> a reading."""

import math

from scaler.model import Absent, Reading
from scaler.promql.notes import Notes
from scaler.promql.rows import reading, usable
from scaler.units import format_number


def read_p95(quantile: float | None, samples: Reading, metric: str, notes: Notes) -> Reading:
    """Read a P95: NaN is no traffic where nothing was observed, and a broken histogram where something was.

    VictoriaMetrics leaves a row out whose value would be NaN, so no row is no traffic where nothing was observed.

    Args:
        quantile: Seconds; None when there is no row.
        samples: Observations in the window.
        metric: The histogram, for the notes.
        notes: Gets a sentence where a value is not what it should be.
    """
    if samples == 0 and (quantile is None or math.isnan(quantile)):
        return Absent.NO_TRAFFIC
    if quantile is None or usable(quantile):
        return reading(quantile)
    if not isinstance(samples, Absent) and samples > 0:
        notes.add(
            f"the quantile of {metric} is {quantile:g} though its count rose by {format_number(samples)}: "
            "its buckets are incomplete (no +Inf bucket?)"
        )
    else:
        notes.add(f"the quantile of {metric} is {quantile:g}, which is no time, and its count does not explain it")
    return Absent.MISSING
