"""Histograms as Prometheus clients keep them."""

import math
from bisect import bisect_left
from collections.abc import Sequence
from itertools import accumulate


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
