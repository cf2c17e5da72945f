"""The pools that KEDA asks for, and the newest snapshot of each.

What may live here: one entry a pool, with what the law remembers of it and what it decided last. Entries are written by
the event loop alone, a whole snapshot at a time; handlers and scrapes read what is there and never wait for more.
"""

import asyncio
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from scaler.adapters.clock import Clock
from scaler.adapters.pool_metrics import PoolView
from scaler.config.trigger import Trigger
from scaler.errors import LimitError
from scaler.model import Action, Decision, PoolKey, PoolPolicy, ReasonCode
from scaler.policy.history import Filling, History
from scaler.units import format_duration


@dataclass(slots=True, eq=False)
class PoolEntry:
    """One pool: its policy, its history, its newest decision, and who waits for the next."""

    key: PoolKey
    policy: PoolPolicy
    asked_at: float
    """Monotonic seconds of the last call."""
    streams: int = 0
    """Open streams: each counts as asking."""
    history: History = field(default_factory=History)
    filling: Filling | None = field(default_factory=Filling)
    """How far the pool's past is read; None when that is done."""
    decision: Decision | None = None
    decisions: Counter[tuple[Action, ReasonCode]] = field(default_factory=Counter)
    decided: asyncio.Event = field(default_factory=asyncio.Event)
    """Set with the first decision."""
    settled: asyncio.Event = field(default_factory=asyncio.Event)
    """Set with the first decision that rests on the pool's past, or is made though that cannot be read."""
    first_asked_at: float = field(init=False)
    """Monotonic seconds of the first call."""
    signalled: bool = False
    """Whether the newest decision made the pool active on data that may be used."""
    activations: int = 0
    """How often ``signalled`` went from false to true."""
    _edge: asyncio.Event = field(default_factory=asyncio.Event)

    def __post_init__(self) -> None:
        self.first_asked_at = self.asked_at

    def publish(self, history: History, decision: Decision, *, signalled: bool) -> None:
        """Put a new snapshot in place, and wake who waits for it.

        Args:
            history: What the law remembers from now on.
            decision: What it decided.
            signalled: Whether the pool is active on data that may be used.
        """
        self.history = history
        self.decision = decision
        self.decisions[decision.action, decision.reason.code] += 1
        self.decided.set()
        if self.filling is None or self.filling.given_up:
            self.settled.set()
        if signalled and not self.signalled:
            self.activations += 1
            self._edge.set()
            self._edge = asyncio.Event()
        self.signalled = signalled

    async def activation_after(self, seen: int) -> int:
        """Wait until the pool became active more often than ``seen`` times, and return how often it has."""
        while self.activations <= seen:
            await self._edge.wait()
        return self.activations


class Registry:
    """All pools, bounded in number; those that nobody asks for any more are dropped.

    Args:
        clock: For the time of asking.
        max_pools: The most pools that are kept.
        idle_timeout_s: How long after the last call a pool is dropped.
    """

    def __init__(self, clock: Clock, *, max_pools: int, idle_timeout_s: float) -> None:
        self._clock = clock
        self._max_pools = max_pools
        self._idle_timeout_s = idle_timeout_s
        self._entries: dict[PoolKey, PoolEntry] = {}
        self._newcomers: dict[PoolKey, PoolEntry] = {}
        self._has_newcomers = asyncio.Event()

    def __len__(self) -> int:
        return len(self._entries)

    def ask(self, trigger: Trigger) -> tuple[PoolEntry, bool]:
        """Return the pool of a trigger, adding it on first sight, and whether this was the first.

        Raises:
            LimitError: There are as many pools already as there may be.
        """
        entry = self._entries.get(trigger.key)
        if entry is not None:
            entry.asked_at = self._clock.monotonic()
            return entry, False
        if len(self._entries) >= self._max_pools:
            raise LimitError(
                f"this scaler already serves {self._max_pools} pools, the most that max_pools allows: raise "
                "--max-pools, or remove ScaledObjects; a pool is dropped "
                f"{format_duration(self._idle_timeout_s)} after its last call"
            )
        entry = PoolEntry(trigger.key, trigger.policy, self._clock.monotonic())
        self._entries[trigger.key] = self._newcomers[trigger.key] = entry
        self._has_newcomers.set()
        return entry, True

    def entries(self) -> tuple[PoolEntry, ...]:
        """Return all pools at this moment."""
        return tuple(self._entries.values())

    async def newcomers(self, settle_s: float) -> tuple[PoolEntry, ...]:
        """Wait for pools that were never evaluated, and return all that came within ``settle_s`` of the first."""
        await self._has_newcomers.wait()
        await asyncio.sleep(settle_s)
        self._has_newcomers.clear()
        taken = tuple(self._newcomers.values())
        self._newcomers.clear()
        return taken

    def evict_idle(self) -> int:
        """Drop the pools that nobody asked for during the idle timeout, and return how many there were."""
        oldest = self._clock.monotonic() - self._idle_timeout_s
        idle = [entry.key for entry in self._entries.values() if not entry.streams and entry.asked_at < oldest]
        for key in idle:
            del self._entries[key]
        return len(idle)

    def views(self) -> Iterator[PoolView]:
        """Yield what a scrape shows; safe to call from another thread than the event loop's."""
        for entry in tuple(self._entries.values()):
            yield PoolView(entry.key, entry.policy, entry.history, entry.decision, entry.decisions)
