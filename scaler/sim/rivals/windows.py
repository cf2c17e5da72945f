"""Means and maxima over the last seconds, as many laws keep them."""

from collections import deque


class Window:
    """The values of the last ``length_s`` seconds, the newest included."""

    def __init__(self, length_s: float) -> None:
        self.length_s = length_s
        self._values: deque[tuple[float, float]] = deque()

    def add(self, at: float, value: float) -> None:
        """Add the newest value and forget those that are too old; one of exactly ``length_s`` ago is."""
        self._values.append((at, value))
        while self._values[0][0] <= at - self.length_s:
            self._values.popleft()

    @property
    def mean(self) -> float:
        """The mean of what is in the window; there must be something."""
        return sum(value for _, value in self._values) / len(self._values)

    @property
    def highest(self) -> float:
        """The greatest value in the window; there must be one."""
        return max(value for _, value in self._values)

    def mean_of_last(self, span_s: float) -> float:
        """Return the mean of the last ``span_s`` seconds of the window; there must be something."""
        newest = self._values[-1][0]
        recent = [value for at, value in self._values if at > newest - span_s]
        return sum(recent) / len(recent)
