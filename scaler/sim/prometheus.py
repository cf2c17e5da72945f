"""What Prometheus makes of samples: the increase of a counter over a window, and the quantile of a histogram.

Written from what its engine does, so that a simulated fleet is seen as the service would see it. Counters here never
restart: a pod that comes again has another name.
"""

import math
from bisect import bisect_left
from collections.abc import Sequence
from itertools import pairwise
from typing import Final, TypeAlias

Samples: TypeAlias = Sequence[tuple[float, float]]
"""(time in seconds, value) of one counter, the oldest first."""

# A gap to the window's edge of up to so many times the average interval is bridged; a longer one means that the series
# began or ended there.
_BRIDGED_INTERVALS: Final = 1.1


def increase(samples: Samples, *, since: float, until: float) -> float | None:
    """Return by how much a counter rose within a window, as ``increase(x[window])`` has it.

    Samples rarely lie on the window's edges, so the rise between the first and the last is extrapolated to them: by
    half an interval where the series seems to begin or end, and never to below zero. Worked: 6 at 15 s, 8 at 30 s and
    12 at 45 s, for the window (0, 60]: 6 x (30 + 15 + 15) / 30 = 12.

    Args:
        samples: The counter's samples; those outside the window are not looked at.
        since: The window's start, itself outside.
        until: The window's end, inside.

    Returns:
        The rise; not whole, and None with fewer than two samples in the window.
    """
    inside = [(at, value) for at, value in samples if since < at <= until]
    if len(inside) < 2:  # noqa: PLR2004 - a rise takes two samples
        return None
    (first_at, first), (last_at, last) = inside[0], inside[-1]
    risen, covered_s = last - first, last_at - first_at
    interval_s = covered_s / (len(inside) - 1)
    before_s, after_s = (
        gap if gap < _BRIDGED_INTERVALS * interval_s else interval_s / 2 for gap in (first_at - since, until - last_at)
    )
    if risen > 0:
        before_s = min(before_s, covered_s * first / risen)
    return risen * (covered_s + before_s + after_s) / covered_s


def histogram_quantile(quantile: float, bounds: Sequence[float], counts: Sequence[float]) -> float:
    """Return a quantile of a histogram, as ``histogram_quantile`` has it.

    The value is interpolated within its bucket, evenly: the first bucket begins at 0, and what lies in the last, up to
    infinity, counts as the highest finite bound. Worked: all in (0.25, 0.5]: P95 = 0.25 + 0.25 x 0.95 = 0.4875,
    whatever the truth.

    Args:
        quantile: From above 0 to 1.
        bounds: Upper bounds of the buckets without infinity, ascending, above 0.
        counts: For each bound and for infinity, the observations at or below it; rates do as well.

    Returns:
        The quantile; NaN when nothing was observed.
    """
    # Rates of buckets are extrapolated one by one, and may then fall a little from one bound to the next.
    rising = [max(counts[: index + 1]) for index in range(len(counts))] if _falls(counts) else list(counts)
    if len(rising) < 2 or rising[-1] <= 0:  # noqa: PLR2004 - infinity alone tells nothing
        return math.nan
    rank = quantile * rising[-1]
    bucket = bisect_left(rising, rank)
    if bucket >= len(bounds):
        return bounds[-1]
    lower, below = (bounds[bucket - 1], rising[bucket - 1]) if bucket else (0.0, 0.0)
    return lower + (bounds[bucket] - lower) * (rank - below) / (rising[bucket] - below)


def _falls(counts: Sequence[float]) -> bool:
    return any(after < before for before, after in pairwise(counts))
