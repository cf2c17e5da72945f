from scaler.sim.histogram import Histogram


def test_a_value_on_a_bound_counts_below_it_and_one_beyond_all_bounds_counts_in_infinity() -> None:
    histogram = Histogram((0.5, 1.0))

    histogram.observe(0.5)
    histogram.observe(0.6, count=3)
    histogram.observe(99.0)

    assert histogram.cumulative() == (1, 4, 5)
    assert histogram.count == 5
    assert histogram.total == 0.5 + 3 * 0.6 + 99.0
