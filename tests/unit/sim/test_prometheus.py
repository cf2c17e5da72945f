"""What Prometheus 2.42 said of the same histograms and counters (its recorded edge cases)."""

import math

import pytest

from scaler.policy.buckets import TTFT_BOUNDS_S
from scaler.sim.prometheus import histogram_quantile, increase


@pytest.mark.parametrize(
    ("bounds", "counts", "value"),
    [
        pytest.param((0.25, 0.5), (0.0, 4.0, 4.0), 0.4875, id="all in one bucket"),
        pytest.param((0.3,), (4.0, 4.0), 0.285, id="all in the first bucket"),
        pytest.param((0.5, 2560.0), (0.0, 0.0, 4.0), 2560.0, id="all beyond the last bound"),
        pytest.param((2.5, 5.0), (0.0, 1.0, 1.0), 4.875, id="one sample"),
    ],
)
def test_a_quantile_is_interpolated_within_its_bucket(
    bounds: tuple[float, ...], counts: tuple[float, ...], value: float
) -> None:
    assert histogram_quantile(0.95, bounds, counts) == pytest.approx(value)


def test_nothing_observed_is_not_a_number() -> None:
    assert math.isnan(histogram_quantile(0.95, TTFT_BOUNDS_S, (0.0,) * (len(TTFT_BOUNDS_S) + 1)))


def test_an_increase_reaches_to_the_edges_of_its_window() -> None:
    assert increase([(15.0, 6.0), (30.0, 8.0), (45.0, 12.0)], since=0.0, until=60.0) == pytest.approx(12.0)


def test_one_sample_has_no_increase() -> None:
    assert increase([(15.0, 6.0)], since=0.0, until=60.0) is None
