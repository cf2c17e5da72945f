import pytest

from scaler.sim.histogram import Histogram


def test_a_value_on_a_bound_counts_below_it_and_one_beyond_all_bounds_counts_in_infinity() -> None:
    histogram = Histogram((0.5, 1.0))

    histogram.observe(0.5)
    histogram.observe(0.6, count=3)
    histogram.observe(99.0)

    assert histogram.cumulative() == (1, 4, 5)
    assert histogram.count == 5
    assert histogram.total == 0.5 + 3 * 0.6 + 99.0


@pytest.mark.parametrize(
    ("first", "growth", "steps"), [(0.2, 0.0, 7), (0.2, 0.1, 12), (0.45, 0.05, 2), (5.0, 0.5, 3), (0.1, 1e-9, 40)]
)
def test_rising_values_count_as_if_each_was_recorded(first: float, growth: float, steps: int) -> None:
    together, single = Histogram((0.5, 1.0)), Histogram((0.5, 1.0))

    together.observe_rising(first, growth, steps, count=3)
    for step in range(steps):
        single.observe(first + growth * step, count=3)

    assert together.counts == single.counts
    assert together.total == pytest.approx(single.total)
