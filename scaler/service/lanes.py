"""Work on pools that runs side by side for different backends, so that a slow Prometheus keeps only its own pools."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable

from scaler.service.registry import PoolEntry


def by_backend(entries: Iterable[PoolEntry]) -> dict[str, list[PoolEntry]]:
    """Return the pools of each backend, in the order in which they come."""
    groups: dict[str, list[PoolEntry]] = {}
    for entry in entries:
        groups.setdefault(entry.policy.locator.backend, []).append(entry)
    return groups


class Lanes:
    """One piece of work at a time for each backend; pools that come meanwhile are the next piece, all together.

    Args:
        group: Runs the work.
        work: What to do with pools of one backend; it must not raise.
    """

    def __init__(self, group: asyncio.TaskGroup, work: Callable[[list[PoolEntry]], Awaitable[None]]) -> None:
        self._group = group
        self._work = work
        self._waiting: dict[str, list[PoolEntry]] = {}

    def add(self, entries: Iterable[PoolEntry]) -> None:
        """Have pools worked on, as soon as the work on earlier ones of their backend is done."""
        for backend, pools in by_backend(entries).items():
            if backend in self._waiting:
                self._waiting[backend] += pools
            else:
                self._waiting[backend] = pools
                self._group.create_task(self._run(backend))

    async def _run(self, backend: str) -> None:
        while pools := self._waiting[backend]:
            self._waiting[backend] = []
            await self._work(pools)
        del self._waiting[backend]
