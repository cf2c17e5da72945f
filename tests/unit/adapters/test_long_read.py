import asyncio
from collections.abc import Mapping, Sequence

import pytest

from scaler.adapters.long_read import FIRST_TICKS, MOST_FAILURES, MOST_TICKS, read_ticks
from scaler.adapters.reader import Past
from scaler.errors import PrometheusUnavailableError
from scaler.model import Observation, PoolKey, PoolLocator
from tests.builders import LOCATOR
from tests.fakes import FakeReader

KEY = PoolKey("serving", "vllm", "0")
OTHER = PoolKey("serving", "vllm", "1")
ELSEWHERE = PoolLocator("serving", "llama", None, backend="second")


class Clock:
    """Time that passes by so much with each read."""

    def __init__(self, read_s: float = 0.0) -> None:
        self.read_s = read_s
        self.now = 0.0
        self.pauses: list[float] = []

    def monotonic(self) -> float:
        self.now += self.read_s
        return self.now

    async def pause(self, seconds: float) -> None:
        self.pauses.append(seconds)


def ticks(count: int) -> list[float]:
    return [15.0 * number for number in range(count)]


def read(
    reader: FakeReader, wanted: Sequence[float], clock: Clock, pools: Mapping[PoolKey, PoolLocator] | None = None
) -> list[tuple[float, Mapping[PoolKey, Observation]]]:
    async def collect() -> list[tuple[float, Mapping[PoolKey, Observation]]]:
        found = read_ticks(reader, pools or {KEY: LOCATOR}, wanted, pause=clock.pause, monotonic=clock.monotonic)
        return [each async for each in found]

    return asyncio.run(collect())


def parts(reader: FakeReader) -> list[int]:
    return [len(wanted) for _, wanted in reader.past_reads]


def test_every_tick_comes_once_and_in_order() -> None:
    reader = FakeReader()
    seen = read(reader, ticks(1000), Clock())
    assert [at for at, _ in seen] == ticks(1000)
    assert [observed[KEY].at for _, observed in seen] == ticks(1000)


@pytest.mark.parametrize(
    ("read_s", "expected"),
    [
        (0.1, [FIRST_TICKS, 2 * FIRST_TICKS, 4 * FIRST_TICKS, 8 * FIRST_TICKS, MOST_TICKS, MOST_TICKS]),
        (3.0, [FIRST_TICKS] * 6),
        (8.0, [FIRST_TICKS, FIRST_TICKS // 2, FIRST_TICKS // 4, FIRST_TICKS // 8, FIRST_TICKS // 16]),
    ],
)
def test_parts_are_as_long_as_prometheus_is_quick(read_s: float, expected: list[int]) -> None:
    reader = FakeReader()
    read(reader, ticks(10_000), Clock(read_s))
    assert parts(reader)[: len(expected)] == expected


def test_what_fails_is_asked_again_after_a_pause_and_for_half() -> None:
    reader, clock = FakeReader(past_failures=["busy", "busy"]), Clock(3.0)
    seen = read(reader, ticks(300), clock)
    assert [at for at, _ in seen] == ticks(300)
    assert parts(reader) == [FIRST_TICKS, FIRST_TICKS // 2, *[FIRST_TICKS // 4] * 5]
    assert clock.pauses == [1.0, 2.0]


def test_what_keeps_failing_ends_with_where_and_why() -> None:
    reader, clock = FakeReader(), Clock(3.0)
    reader.past_failures = [f"latency: no answer {number}" for number in range(MOST_FAILURES)]
    with pytest.raises(PrometheusUnavailableError, match=r"in 5 attempts, after 0 of 300 ticks: latency: no answer 4"):
        read(reader, ticks(300), clock)
    assert clock.pauses == [1.0, 2.0, 4.0, 8.0]


def test_pools_of_several_backends_are_read_for_the_same_ticks() -> None:
    reader = FakeReader()
    seen = read(reader, ticks(10), Clock(), {KEY: LOCATOR, OTHER: ELSEWHERE})
    assert [set(observed) for _, observed in seen] == [{KEY, OTHER}] * 10
    assert [keys for keys, _ in reader.past_reads] == [{KEY}, {OTHER}]


def test_nothing_asked_is_nothing_read() -> None:
    reader = FakeReader()
    assert read(reader, [], Clock()) == []
    assert reader.past_reads == []


async def test_no_more_than_one_part_is_read_ahead() -> None:
    reader = FakeReader()
    found = read_ticks(reader, {KEY: LOCATOR}, ticks(5000))
    await anext(found)
    assert len(reader.past_reads) == 1
    assert isinstance(await reader.observe_range({KEY: LOCATOR}, []), Past)
    await found.aclose()
