"""Stand-ins for what the service gets from outside: time and Prometheus."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from scaler.adapters.reader import Past
from scaler.config.trigger import Trigger
from scaler.model import Observation, PoolKey, PoolLocator
from tests.builders import TICK_S, observation, policy

START = 1_700_000_010.0
"""A multiple of 15 s, so a tick."""


def trigger(name: str = "vllm", **changes: Any) -> Trigger:
    """A parsed trigger of the ScaledObject ``name`` in the namespace ``serving``."""
    return Trigger(PoolKey("serving", name, "0a1b2c3d"), policy(**changes), ())


class ManualClock:
    """A clock that stands still until a test moves it; sleepers wake when it passes their time."""

    def __init__(self, now: float = START) -> None:
        self._now = now
        self._monotonic = 1000.0
        self._sleepers: list[tuple[float, asyncio.Event]] = []

    def now(self) -> float:
        return self._now

    def monotonic(self) -> float:
        return self._monotonic

    async def sleep_until(self, at: float) -> None:
        delay = max(0.0, at - self._now)
        woken = asyncio.Event()
        self._sleepers.append((self._monotonic + delay, woken))
        self._wake()
        await woken.wait()

    @property
    def sleepers(self) -> int:
        """How many wait for a later time."""
        return len(self._sleepers)

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        self._now += seconds
        self._monotonic += seconds
        self._wake()

    def step(self, seconds: float) -> None:
        """Set the clock, forwards or backwards, while no time passes."""
        self._now += seconds

    def _wake(self) -> None:
        for due, woken in self._sleepers:
            if due <= self._monotonic:
                woken.set()
        self._sleepers = [sleeper for sleeper in self._sleepers if not sleeper[1].is_set()]


@dataclass
class FakeReader:
    """Answers every pool with ``load`` requests in flight on ``replicas`` replicas, or as ``answer`` says."""

    load: float = 8.0
    replicas: int = 4
    answer: Callable[[PoolKey, float], Observation] | None = None
    failure: Exception | None = None
    gate: asyncio.Event | None = None
    """While it is not set, reads hang."""
    past_gate: asyncio.Event | None = None
    """While it is not set, reads of the past hang."""
    past_failures: list[str] = field(default_factory=list)
    """Why the next reads of the past fail, one after the other."""
    past_reads: list[tuple[frozenset[PoolKey], tuple[float, ...]]] = field(default_factory=list)
    reads: list[tuple[frozenset[PoolKey], float]] = field(default_factory=list)

    async def observe(self, pools: Mapping[PoolKey, PoolLocator], at: float) -> dict[PoolKey, Observation]:
        self.reads.append((frozenset(pools), at))
        if self.gate is not None:
            await self.gate.wait()
        if self.failure is not None:
            raise self.failure
        return {key: self._of(key, at) for key in pools}

    async def observe_range(self, pools: Mapping[PoolKey, PoolLocator], ticks: Sequence[float]) -> Past:
        self.past_reads.append((frozenset(pools), tuple(ticks)))
        if self.past_gate is not None:
            await self.past_gate.wait()
        if self.past_failures:
            return Past((), (self.past_failures.pop(0),))
        return Past(tuple({key: self._of(key, at) for key in pools} for at in ticks))

    def _of(self, key: PoolKey, at: float) -> Observation:
        if self.answer is not None:
            return self.answer(key, at)
        return observation(round(at / TICK_S), self.load, self.replicas)

    def sizes_at(self, tick: float) -> list[int]:
        """Of how many pools each read of a tick was."""
        return [len(keys) for keys, at in self.reads if at == tick]

    def at_ticks(self) -> list[float]:
        """The ticks that were read as the present, in order."""
        return [at for _, at in self.reads]


async def eventually(condition: Callable[[], bool], timeout_s: float = 5.0, *, pause_s: float = 0.001) -> None:
    """Wait until ``condition`` holds, looking every ``pause_s``; fail when it does not in time."""
    async with asyncio.timeout(timeout_s):
        while not condition():  # noqa: ASYNC110 - conditions are about state that tells nobody when it changes
            await asyncio.sleep(pause_s)
