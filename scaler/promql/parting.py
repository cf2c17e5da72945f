"""In which parts a planned query is asked, where some of its pools spoil the answer for the others. Pure.

The rules:

- A query that fails by what it asks for (too slow, too large, refused, incomplete) is asked in halves, and a half that
  fails in halves again, until what spoils it is alone: one pool, or pools of one namespace that no matcher tells apart.
- That is held back: for half a minute it is not asked for, then tried by itself; the pause doubles with each failure.
  The others go back into one query.
- If all parts are answered, it was only too much at once. It is asked in these parts, until a pause is over too.
- Nothing is held back unless others of the same query are answered: else not a pool is at fault but Prometheus. If
  eight parts fail and none is answered, they are one query again, and it is not halved until a pause is over.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, Self

from scaler.errors import (
    PrometheusError,
    PrometheusOversizeError,
    PrometheusPartialError,
    PrometheusRejectedError,
    PrometheusTimeoutError,
)
from scaler.promql.batches import Batch
from scaler.promql.query import Answer, Query

MOST_FURTHER: Final = 24
"""Queries that a tick may ask beyond those that are planned, for all pools together. Three queries, of gauges,
freshness and latency, can each be halved four times at once: of 2500 pools 160 are still in doubt then, and the next
ticks go on with them."""
HOPELESS_PARTS: Final = 8
"""So many parts that all fail: seven halvings, of one part after the other, have met no pool that is well."""
FIRST_PAUSE_S: Final = 30.0
"""A pool that was held back for a passing fault is blind for no longer than that."""
LONGEST_PAUSE_S: Final = 960.0
"""A pool that spoils queries for good costs one query in a quarter of an hour."""


@dataclass(frozen=True, slots=True)
class Part:
    """A part of a planned query.

    Args:
        batch: Its pools, and the query for them.
        is_spoilt: It has failed by what it asks for: its halves are asked next.
        is_apart: Together with the others it was too much.
    """

    batch: Batch
    is_spoilt: bool = False
    is_apart: bool = False


@dataclass(frozen=True, slots=True)
class Held:
    """What spoils queries, and is not asked for.

    Args:
        batch: Its pools, and the query for them alone.
        error: How that query failed.
        pause_s: For how long it is left alone.
        until: When it is tried again, in monotonic seconds.
    """

    batch: Batch
    error: PrometheusError
    pause_s: float
    until: float


@dataclass(frozen=True, slots=True)
class Asked:
    """A part that was asked, and what came of it."""

    part: Part
    answer: Answer


@dataclass(frozen=True, slots=True)
class Parted:
    """A planned query as it is asked.

    Args:
        whole: As it was planned.
        parts: What is asked instead, at most one part that is neither spoilt nor apart.
        held: What is held back; with the parts it covers the whole.
        is_given_up: It is asked as one, since no part of it was answered.
        pause_s: For how long parts stay apart, or are given up.
        until: When that ends, in monotonic seconds.
    """

    whole: Batch
    parts: tuple[Part, ...]
    held: tuple[Held, ...] = ()
    is_given_up: bool = False
    pause_s: float = 0.0
    until: float = math.inf

    @classmethod
    def of(cls, whole: Batch, known: Mapping[Query, Held]) -> Self:
        """Return how a query is asked for the first time.

        Args:
            whole: As it is planned.
            known: What was held back of plans before this one, by the query for it alone.
        """
        held = tuple(
            replace(one, batch=alone)
            for one in known.values()
            if whole.write is not None
            and one.batch.owners.keys() <= whole.owners.keys()
            and (alone := whole.part(one.batch.owners)).query == one.batch.query
        )
        left = whole.owners.keys() - {identity for one in held for identity in one.batch.owners}
        parts = () if not left else (Part(whole.part(left) if held else whole),)
        return cls(whole, parts, held)

    def due(self, now: float) -> tuple[Held, ...]:
        """Return what is held back and may be tried again.

        Args:
            now: Monotonic seconds.
        """
        return tuple(one for one in self.held if one.until <= now)

    def may_be_halved(self, now: float) -> bool:
        """Tell whether what fails is to be asked in halves.

        Args:
            now: Monotonic seconds.
        """
        return not self.is_given_up or now >= self.until

    def after(self, asked: Sequence[Asked], now: float) -> "Parted":
        """Return how the query is asked the next time.

        Args:
            asked: What was asked now: all parts or halves of them, and of what is held back what was tried again.
            now: Monotonic seconds.
        """
        is_alive = any(not isinstance(one.answer, PrometheusError) for one in asked)
        held = {one.batch.query: one for one in self.held}
        together: list[Batch] = []
        parts: list[Part] = []
        for one in asked:
            part = one.part
            before = held.pop(part.batch.query, None)
            if not isinstance(one.answer, PrometheusError):
                if part.is_apart and now < self.until:
                    parts.append(part)
                else:
                    together.append(part.batch)
            elif is_alive and spoils(one.answer) and not part.is_spoilt:
                pause_s = _longer(before.pause_s if before else 0.0)
                held[part.batch.query] = Held(part.batch, one.answer, pause_s, now + pause_s)
            elif before is not None:
                held[part.batch.query] = before
            else:
                parts.append(part)
        if together:
            parts.insert(0, Part(self._joined(together)))
        if len(parts) >= HOPELESS_PARTS and all(spoils(one.answer) for one in asked):
            whole = Part(self._joined([part.batch for part in parts]), is_spoilt=True)
            pause_s = _longer(self.pause_s)
            return replace(self, parts=(whole,), is_given_up=True, pause_s=pause_s, until=now + pause_s)
        pause_s, until = self._pause(parts, now, all_answered=len(together) == len(asked))
        return replace(
            self,
            parts=tuple(parts),
            held=tuple(held.values()),
            is_given_up=self.is_given_up and until < math.inf,
            pause_s=pause_s,
            until=until,
        )

    def _joined(self, batches: Sequence[Batch]) -> Batch:
        if len(batches) == 1:
            return batches[0]
        return self.whole.part({identity for batch in batches for identity in batch.owners})

    def _pause(self, parts: Sequence[Part], now: float, *, all_answered: bool) -> tuple[float, float]:
        """Return for how long parts stay apart from now on, and until when."""
        if any(part.is_apart for part in parts):
            if now < self.until < math.inf:
                return self.pause_s, self.until
            pause_s = _longer(self.pause_s)
            return pause_s, now + pause_s
        if self.is_given_up and now < self.until and not all_answered:
            return self.pause_s, self.until
        # Together again: if that fails at once, they are apart for longer.
        is_proven = all_answered and (self.is_given_up or self.until == math.inf)
        return 0.0 if is_proven else self.pause_s, math.inf


def spoils(answer: Answer) -> bool:
    """Tell whether a query failed by what it asked for, so that asking for less may help."""
    return isinstance(
        answer, PrometheusTimeoutError | PrometheusRejectedError | PrometheusPartialError | PrometheusOversizeError
    )


def _longer(pause_s: float) -> float:
    return min(LONGEST_PAUSE_S, 2 * pause_s) if pause_s else FIRST_PAUSE_S
