import pytest

from scaler.config.kinds import format_bytes, read_bytes, read_duration_s, read_number, read_whole_number


@pytest.mark.parametrize(
    ("text", "number"), [("0", 0.0), ("-1.5", -1.5), ("1.", 1.0), (".5", 0.5), ("2E-1", 0.2), (" 3 ", 3.0), (7, 7.0)]
)
def test_numbers_are_read(text: object, number: float) -> None:
    assert read_number(text) == number


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "nan",
        "inf",
        "-Infinity",
        "1e400",
        "1_0",
        "1,5",
        "1 2",
        "0x1",
        "٣",
        "\uff11",
        "1e",
        ".",
        True,
        None,
        [1],
    ],
)
def test_what_is_no_finite_ascii_number_is_refused(text: object) -> None:
    with pytest.raises(ValueError, match="number"):
        read_number(text)


@pytest.mark.parametrize("text", ["0.5", "1e-3", "9.999999"])
def test_a_broken_number_is_no_whole_number(text: str) -> None:
    with pytest.raises(ValueError, match="whole"):
        read_whole_number(text)


@pytest.mark.parametrize(
    ("text", "seconds"), [("90", 90.0), ("1m30s", 90.0), ("500ms", 0.5), (" 2h ", 7200.0), (5, 5.0)]
)
def test_durations_are_read(text: object, seconds: float) -> None:
    assert read_duration_s(text) == seconds


@pytest.mark.parametrize(
    "text", ["", "s", "1y", "-1", "nan", "inf", "infinity", "1_0", "٣s", "1 m", "9" * 400 + "h", True]
)
def test_what_is_no_duration_is_refused(text: object) -> None:
    with pytest.raises(ValueError, match="duration"):
        read_duration_s(text)


@pytest.mark.parametrize(
    ("text", "size"), [("0", 0), ("1024", 1024), ("2KiB", 2048), ("64MiB", 64 << 20), ("1GiB", 1 << 30)]
)
def test_sizes_are_read(text: str, size: int) -> None:
    assert read_bytes(text) == size


@pytest.mark.parametrize("text", ["", "-1", "1.5MiB", "1MB", "1 MiB", "1mib", True])
def test_what_is_no_size_is_refused(text: object) -> None:
    with pytest.raises(ValueError, match="not a size"):
        read_bytes(text)


@pytest.mark.parametrize(
    ("size", "text"), [(0, "0 bytes"), (1000, "1000 bytes"), (65536, "64 KiB"), (1 << 30, "1 GiB")]
)
def test_sizes_are_written(size: int, text: str) -> None:
    assert format_bytes(size) == text
