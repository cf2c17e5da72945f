import math
from itertools import pairwise

import pytest

from scaler.backtest.track import Track


def track(values: list[float | None], most: int) -> Track:
    found = Track(most)
    for value in values:
        found.add(value)
    return found


def test_each_tick_is_a_span_while_there_is_room() -> None:
    found = track([1, 4, 2], 4)
    assert (found.lows, found.highs, found.ticks_per_span) == ([1, 4, 2], [1, 4, 2], 1)


def test_two_spans_become_one_when_there_are_too_many() -> None:
    found = track([1, 4, 2], 2)
    assert (found.lows, found.highs, found.ticks_per_span) == ([1, 2], [4, 2], 2)


@pytest.mark.parametrize("most", [2, 3, 7, 8])
@pytest.mark.parametrize("count", [1, 2, 9, 100, 1001])
def test_spans_are_as_long_as_each_other_and_none_is_lost(most: int, count: int) -> None:
    found = track([float(each) for each in range(count)], most)
    assert len(found.lows) <= most
    assert found.lows[0] == 0
    assert found.highs[-1] == count - 1
    assert all(after - before == found.ticks_per_span for before, after in pairwise(found.lows))
    assert all(low == high + 1 for high, low in zip(found.highs, found.lows[1:], strict=False))


def test_what_is_not_there_is_no_value_of_a_span() -> None:
    found = track([None, 3, None, None], 2)
    assert (found.lows[0], found.highs[0]) == (3, 3)
    assert math.isnan(found.lows[1])
    assert math.isnan(found.highs[1])
