from collections.abc import Iterable

import pytest

from scaler.backtest.cold_start import ColdStarts
from scaler.model import Absent, Observation, Reading


def measured(counts: Iterable[tuple[Reading, Reading]]) -> ColdStarts:
    """Requested and serving replicas, tick by tick, every 15 s."""
    starts = ColdStarts()
    for tick, (requested, serving) in enumerate(counts):
        starts.see(Observation(at=15.0 * tick, requested=requested, serving=serving))
    return starts


@pytest.mark.parametrize(
    ("counts", "found"),
    [
        pytest.param([(4, 4), (6, 4), *[(6, 4)] * 6, (6, 5), (6, 6)], [105, 120], id="as in the worked example"),
        pytest.param([(1, 1), (3, 1), (4, 1), (4, 3), (4, 4)], [30, 30, 30], id="asked for in two steps"),
        pytest.param([(2, 2), (4, 2), (3, 2), (3, 3)], [30], id="the youngest is given up"),
        pytest.param([(2, 2), (5, 2), (2, 2), (3, 2), (3, 3)], [15], id="all are given up"),
        pytest.param([(5, 3), (5, 4), (5, 5)], [], id="asked for before the history begins"),
        pytest.param([(5, 3), (5, 5), (6, 5), (6, 6)], [15], id="only once all serve"),
        pytest.param([(4, 4), (4, 3), (4, 4)], [], id="a replica that dies and comes again"),
        pytest.param([(4, 4), (6, 4), (6, 3), (6, 6), (7, 6), (7, 7)], [15], id="one dies while others start"),
        pytest.param([(4, 4), (3, 4), (4, 4), (4, 3), (4, 4)], [], id="one that drains is in the count"),
        pytest.param([(4, 4), (Absent.MISSING, 4), (5, Absent.MISSING), (5, 4), (5, 5)], [15], id="gaps"),
        pytest.param([(1, 1), (2, 1), *[(2, 1)] * 481, (2, 2)], [], id="what took hours is no start"),
        pytest.param([], [], id="nothing"),
    ],
)
def test_starts_are_measured_where_the_counts_tell_them(
    counts: list[tuple[Reading, Reading]], found: list[float]
) -> None:
    assert list(measured(counts).found) == found


def test_the_median_is_typical() -> None:
    assert measured([(1, 1), (2, 1), (2, 2), (4, 2), (4, 2), (4, 3), (4, 3), (4, 4)]).typical_s == 30.0
    assert measured([(1, 1)]).typical_s is None
