"""How long work lets calls through."""

import asyncio
import time
from typing import Final

_SLICE_S: Final = 0.001
"""Longest stretch of deciding before calls get their turn: a call takes some ten turns, so that makes some 10 ms."""


class Breather:
    """Gives calls their turn within long work."""

    def __init__(self) -> None:
        self._until = time.perf_counter() + _SLICE_S

    async def breathe(self) -> None:
        """Let others run if the slice is over."""
        if time.perf_counter() > self._until:
            await asyncio.sleep(0)
            self._until = time.perf_counter() + _SLICE_S
