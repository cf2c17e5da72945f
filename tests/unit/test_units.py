import pytest

from scaler.units import (
    ceil_replicas,
    floor_replicas,
    format_duration,
    format_number,
    grid_floor,
    parse_duration_s,
)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("90", 90.0),
        ("1.5", 1.5),
        ("90s", 90.0),
        ("1m30s", 90.0),
        ("500ms", 0.5),
        ("2h", 7200.0),
        (" 15s ", 15.0),
        ("0", 0.0),
    ],
)
def test_durations_are_read(text: str, seconds: float) -> None:
    assert parse_duration_s(text) == seconds


@pytest.mark.parametrize("text", ["", "s", "-1", "1x", "1m 30s", "nan", "inf", "1e999", "15s later"])
def test_what_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="duration"):
        parse_duration_s(text)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.25, "0.25 s"), (41, "41 s"), (60, "1 min"), (90, "1 min 30 s"), (7200, "2 h"), (3725, "1 h 2 min 5 s")],
)
def test_durations_are_written_for_people(seconds: float, text: str) -> None:
    assert format_duration(seconds) == text


@pytest.mark.parametrize(("value", "text"), [(41.0, "41"), (0.8333, "0.833"), (1234.5, "1234"), (0.0, "0")])
def test_numbers_are_written_for_people(value: float, text: str) -> None:
    assert format_number(value) == text


@pytest.mark.parametrize(("quotient", "replicas"), [(8.000000000000002, 8), (8.01, 9), (0.0, 0), (-3.0, 0)])
def test_rounding_error_is_no_reason_for_a_replica(quotient: float, replicas: int) -> None:
    assert ceil_replicas(quotient) == replicas


@pytest.mark.parametrize(("quotient", "replicas"), [(2.9999999999, 3), (2.99, 2), (0.0, 0), (-3.0, 0)])
def test_rounding_error_costs_no_replica(quotient: float, replicas: int) -> None:
    assert floor_replicas(quotient) == replicas


@pytest.mark.parametrize(("at", "interval", "tick"), [(31.0, 15.0, 30.0), (30.0, 15.0, 30.0), (0.3, 0.1, 0.3)])
def test_ticks_lie_on_multiples_of_the_interval(at: float, interval: float, tick: float) -> None:
    assert grid_floor(at, interval) == pytest.approx(tick)
