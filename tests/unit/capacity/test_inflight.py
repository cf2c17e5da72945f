import pytest

from scaler.capacity.inflight import in_flight, rises


def test_requests_that_follow_each_other_are_one_in_flight() -> None:
    seen = in_flight([0.0, 1.0, 2.0, 3.0], [1.0, 2.0, 3.0, 4.0])
    assert (seen.mean, seen.highest, seen.quarters) == (1.0, 1, (0.0, 0.0, 0.0, 0.0))


def test_the_mean_is_over_time_and_only_while_requests_came() -> None:
    # One from 0 to 4 and one from 2 on: (2 x 1 + 2 x 2) / 4 until the last one comes, at 4.
    assert in_flight([0.0, 2.0, 4.0], [4.0, 9.0, 9.0]).mean == pytest.approx(1.5)


def test_warm_up_counts_as_load_and_not_as_observer() -> None:
    seen = in_flight([0.0, 1.0, 2.0, 3.0], [10.0] * 4, skip=2)
    assert seen.mean == pytest.approx(3.0)
    assert seen.quarters[-1] == 3


def test_a_single_request_has_no_mean_over_time() -> None:
    assert in_flight([0.0], [5.0]).mean == 0


@pytest.mark.parametrize(
    ("name", "served", "rising"),
    [
        ("all are served at once", 10.0, False),
        ("three quarters are served", 7.5, True),
        ("almost all are served", 9.9, False),
    ],
)
def test_a_queue_rises_when_more_come_than_go(name: str, served: float, rising: bool) -> None:  # noqa: FBT001 - a table
    arrived = [index / 10 for index in range(400)]
    ended = [(index + 1) / served for index in range(400)]
    assert in_flight(arrived, ended).rising is rising, name


@pytest.mark.parametrize(
    ("quarters", "requests", "rising"),
    [
        ((53, 80, 120), 200, True),
        ((53, 80, 75), 200, False),
        ((53, 60, 74), 200, False),  # within three deviations
        ((53, 60, 77), 200, True),
        ((53, 80, 120), 10_000, False),  # less than 2 % of those that came
    ],
)
def test_a_rise_is_more_than_chance_and_more_than_a_little(
    quarters: tuple[float, float, float],
    requests: int,
    rising: bool,  # noqa: FBT001 - a table
) -> None:
    assert rises(*quarters, requests=requests) is rising


def test_a_queue_that_is_worked_off_does_not_rise() -> None:
    # Forty at once at the start, and then one by one.
    arrived = [0.0] * 40 + [float(index) for index in range(1, 161)]
    ended = [float(index) for index in range(1, 41)] + [at + 0.5 for at in arrived[40:]]
    assert in_flight(arrived, ended).rising is False


def test_with_too_few_requests_nobody_knows() -> None:
    assert in_flight([0.0] * 19, [1.0] * 19).rising is None
