"""Reads a long stretch of the past in parts, each as long as Prometheus answers quickly."""

import asyncio
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from typing import Final, Protocol

from scaler.adapters.reader import Past
from scaler.errors import PrometheusUnavailableError
from scaler.model import Observation, PoolKey, PoolLocator

FIRST_TICKS: Final = 240
"""Ticks of the first part, an hour at 15 s: before it is known how fast Prometheus answers."""
MOST_TICKS: Final = 2_000
"""Some 100 MB of samples where the pools have two dozen replicas together."""
SLOW_S: Final = 5.0
"""A part that takes longer is followed by one of half its length, one that takes a quarter of it by a longer one."""
MOST_FAILURES: Final = 5
"""Failed reads in a row until it is given up: after 1 + 2 + 4 + 8 s of pauses."""


class RangeReader(Protocol):
    """Where the past comes from: ``scaler.adapters.reader.MetricsReader``, or a stand-in."""

    async def observe_range(self, pools: Mapping[PoolKey, PoolLocator], ticks: Sequence[float]) -> Past:
        """Return observations of every pool at past ticks, whatever failed."""
        ...


async def read_ticks(
    reader: RangeReader,
    pools: Mapping[PoolKey, PoolLocator],
    ticks: Sequence[float],
    *,
    pause: Callable[[float], Awaitable[None]] = asyncio.sleep,
    monotonic: Callable[[], float] = time.monotonic,
) -> AsyncGenerator[tuple[float, Mapping[PoolKey, Observation]], None]:
    """Observe pools at past ticks; no more than one part of them is in memory.

    Args:
        reader: Where the past comes from.
        pools: Where each pool's series are; of any backends.
        ticks: Instants in Unix seconds, ascending and equally far apart.
        pause: Waits so many seconds.
        monotonic: Seconds since some instant, to time the reads.

    Yields:
        Each tick with an observation of every pool. What Prometheus refuses is missing in it.

    Raises:
        PrometheusUnavailableError: A part could not be read, not even when asked again and for less.
    """
    by_backend: dict[str, dict[PoolKey, PoolLocator]] = {}
    for key, locator in pools.items():
        by_backend.setdefault(locator.backend, {})[key] = locator
    done, most, failures = 0, FIRST_TICKS, 0
    while done < len(ticks):
        part = ticks[done : done + most]
        began = monotonic()
        # One after the other: whoever else asks this Prometheus should find it free to answer.
        pasts = [await reader.observe_range(group, part) for group in by_backend.values()]
        took_s = monotonic() - began
        problems = [problem for past in pasts for problem in past.failures]
        if problems:
            failures += 1
            if failures >= MOST_FAILURES:
                raise PrometheusUnavailableError(
                    f"the past could not be read in {failures} attempts, after {done} of {len(ticks)} ticks:"
                    f" {problems[0]}"
                )
            most = max(1, most // 2)
            await pause(2.0 ** (failures - 1))
            continue
        failures = 0
        for at, *seen in zip(part, *(past.observations for past in pasts), strict=True):
            yield at, {key: observation for group in seen for key, observation in group.items()}
        done += len(part)
        if took_s > SLOW_S:
            most = max(1, most // 2)
        elif took_s < SLOW_S / 4:
            most = min(most * 2, MOST_TICKS)
