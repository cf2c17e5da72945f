"""The one source of time, so that tests and the simulator can put their own in its place."""

import asyncio
import time
from typing import Protocol


class Clock(Protocol):
    """What the service asks of a clock."""

    def now(self) -> float:
        """Return Unix time in seconds. It can be stepped, forwards and backwards, while the service runs."""
        ...

    def monotonic(self) -> float:
        """Return seconds since some instant. It never runs backwards: use it for ages and timeouts."""
        ...

    async def sleep_until(self, at: float) -> None:
        """Sleep for as long as ``at`` lies ahead at the time of the call, and return at once where it does not.

        Whoever waits looks at ``now()`` again afterwards: a clock that was stepped meanwhile reads something else.

        Args:
            at: Unix time in seconds.
        """
        ...


class SystemClock:
    """The machine's clock."""

    def now(self) -> float:
        """Return Unix time in seconds."""
        return time.time()

    def monotonic(self) -> float:
        """Return seconds since some instant in the past."""
        return time.monotonic()

    async def sleep_until(self, at: float) -> None:
        """Sleep once for what is left until ``at``; stepping the clock makes it neither longer nor shorter."""
        await asyncio.sleep(max(0.0, at - time.time()))
