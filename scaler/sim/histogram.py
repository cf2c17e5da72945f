"""Histograms as Prometheus clients keep them, with the bucket bounds that vLLM uses."""

import math
from bisect import bisect_left
from collections.abc import Sequence
from itertools import accumulate
from typing import Final

# vLLM's bounds, in seconds, unchanged from release 0.8.5 to 0.33.
TTFT_BOUNDS_S: Final = (
    *(0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75),
    *(1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0, 80.0, 160.0, 640.0, 2560.0),
)
INTER_TOKEN_BOUNDS_S: Final = (
    *(0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75),
    *(1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0, 80.0),
)
REQUEST_BOUNDS_S: Final = (
    *(0.3, 0.5, 0.8, 1.0, 1.5, 2.0, 2.5, 5.0, 10.0, 15.0, 20.0, 30.0, 40.0, 50.0, 60.0),
    *(120.0, 240.0, 480.0, 960.0, 1920.0, 7680.0),
)
"""End-to-end and queue times."""


class Histogram:
    """Counts of observations per bucket.

    Args:
        bounds: Upper bounds of the buckets, inclusive and ascending; one more bucket up to infinity is added.
    """

    __slots__ = ("bounds", "counts", "total")

    def __init__(self, bounds: Sequence[float]) -> None:
        self.bounds = tuple(bounds)
        self.counts = [0] * (len(self.bounds) + 1)
        self.total = 0.0
        """Sum of all observed values."""

    def observe(self, value: float, count: int = 1) -> None:
        """Record ``value``, ``count`` times."""
        self.counts[bisect_left(self.bounds, value)] += count
        self.total += value * count

    def observe_rising(self, first: float, growth: float, steps: int, count: int) -> None:
        """Record ``first``, ``first + growth`` and so on, ``steps`` values, each ``count`` times."""
        self.total += count * (steps * first + growth * (steps * (steps - 1) / 2))
        done = 0
        while done < steps:
            bucket = bisect_left(self.bounds, first + growth * done)
            until = steps
            if growth > 0 and bucket < len(self.bounds):
                until = min(steps, max(done, math.floor((self.bounds[bucket] - first) / growth)) + 1)
            self.counts[bucket] += count * (until - done)
            done = until

    @property
    def count(self) -> int:
        """Number of observations."""
        return sum(self.counts)

    def cumulative(self) -> tuple[int, ...]:
        """Return, for each bound and for infinity, how many observations were at or below it."""
        return tuple(accumulate(self.counts))
