"""Asks the queries of a plan, and goes on in parts where one pool spoils a query for the others.

Which parts, and for how long, is said in ``scaler.promql.parting``. Here is when: a query that failed with half of the
tick's time still ahead is halved in the same tick, any other in the next. However much fails, a tick asks at most
``MOST_FURTHER`` queries more than are planned.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Final, TypeAlias

import structlog

from scaler.errors import PrometheusError
from scaler.promql import Answer, Query, ReadPlan
from scaler.promql.batches import Batch
from scaler.promql.parting import LONGEST_PAUSE_S, MOST_FURTHER, Asked, Held, Part, Parted, spoils

Ask: TypeAlias = Callable[[Query], Awaitable[Answer]]
"""Asks one query; what fails is a value."""
_MOST_NAMED: Final = 10
"""Pools that a line of the log names: one namespace can have thousands."""

_LOG = structlog.stdlib.get_logger("scaler.asking")


@dataclass(frozen=True, slots=True)
class Answers:
    """What a plan's pools are told.

    Args:
        batches: The queries as they were asked, with those that are held back; together they are for all pools.
        by_query: The answer to each of them.
    """

    batches: tuple[Batch, ...]
    by_query: dict[Query, Answer]


class Asker:
    """Asks one backend, and remembers which pools spoil which queries.

    Args:
        backend: Its name, for the log.
        monotonic: Seconds on the clock of the deadlines.
    """

    def __init__(self, backend: str, monotonic: Callable[[], float]) -> None:
        self._backend = backend
        self._monotonic = monotonic
        self._held: dict[Query, Held] = {}
        self._parted: tuple[ReadPlan | None, list[Parted]] = (None, [])

    async def ask(self, plan: ReadPlan, ask: Ask, deadline: float) -> Answers:
        """Ask what is planned, and in parts what fails by what it asks for.

        Args:
            plan: The pools and their queries; with the same object, this goes on where the last call ended.
            ask: Asks one query.
            deadline: When all answers must be there, in monotonic seconds.
        """
        known = self._parted
        before = known[1] if known[0] is plan else self.parted(plan)
        now = self._monotonic()
        tick = _Tick(ask, self._monotonic, now + (deadline - now) / 2, _room(before))
        asked = await asyncio.gather(*(tick.ask_parted(one, now) for one in before))
        after = [one.after(of_it, now) for one, of_it in zip(before, asked, strict=True)]
        self._parted = plan, after
        self._remember(before, after, now)
        found = [(each.part.batch, each.answer) for each in chain.from_iterable(asked)]
        tried = {batch.query for batch, _ in found}
        found += [(held.batch, held.error) for one in before for held in one.held if held.batch.query not in tried]
        return Answers(tuple(batch for batch, _ in found), {batch.query: answer for batch, answer in found})

    def _remember(self, before: Sequence[Parted], after: Sequence[Parted], now: float) -> None:
        """Take over what is held back now, and log what that changes."""
        freed = {held.batch.query: held for one in before for held in one.held}
        for held in (held for one in after for held in one.held):
            if freed.pop(held.batch.query, None) is None:
                event = "pools spoil a query that they share, and are asked for apart"
                _LOG.warning(event, **self._about(held), why=str(held.error))
            self._held[held.batch.query] = held
        for query, held in freed.items():
            self._held.pop(query, None)
            _LOG.info("pools are asked for together with others again", **self._about(held))
        # Pools that are gone: nobody has tried them since they were due.
        self._held = {query: held for query, held in self._held.items() if now < held.until + LONGEST_PAUSE_S}

    def _about(self, held: Held) -> dict[str, object]:
        pools = sorted(str(key) for keys in held.batch.owners.values() for key in keys)
        query, names = held.batch.query.name, pools[:_MOST_NAMED]
        return {"backend": self._backend, "query": query, "pools": names, "count": len(pools)}

    def parted(self, plan: ReadPlan) -> list[Parted]:
        """Return the queries of a plan, each without what is known to spoil it."""
        return [Parted.of(batch, self._held) for batch in plan.batches]


class _Tick:
    """The queries of one tick.

    Args:
        ask: Asks one query.
        monotonic: Seconds.
        until: Until when halves are asked for within the tick.
        further: How many more queries than are planned may be asked.
    """

    def __init__(self, ask: Ask, monotonic: Callable[[], float], until: float, further: int) -> None:
        self._ask = ask
        self._monotonic = monotonic
        self._until = until
        self._further = further

    async def ask_parted(self, parted: Parted, now: float) -> Sequence[Asked]:
        """Ask a planned query in its parts, and what is held back and due."""
        due = [Part(held.batch) for held in parted.due(now) if self._may_ask(1)]
        may_halve = parted.may_be_halved(now)
        asked = await asyncio.gather(*(self._ask_part(part, may_halve=may_halve) for part in (*parted.parts, *due)))
        return tuple(chain.from_iterable(asked))

    async def _ask_part(self, part: Part, *, may_halve: bool) -> Sequence[Asked]:
        if part.is_spoilt and may_halve and self._may_ask(1):
            return await self._ask_each(part.batch.halves() or ())
        return await self._go_on(part, await self._ask(part.batch.query), may_halve=may_halve)

    async def _go_on(self, part: Part, answer: Answer, *, may_halve: bool = True) -> Sequence[Asked]:
        """Look at an answer, and ask for halves if that may help and there is time and room for it."""
        if not spoils(answer):
            return (Asked(part, answer),)
        halves = part.batch.halves()
        if halves is not None and may_halve and self._monotonic() < self._until and self._may_ask(2):
            return await self._ask_each(halves)
        return (Asked(Part(part.batch, is_spoilt=halves is not None), answer),)

    async def _ask_each(self, halves: Sequence[Batch]) -> Sequence[Asked]:
        answers = await asyncio.gather(*(self._ask(half.query) for half in halves))
        asked: list[Asked] = []
        # One after the other, each to its end: that shows soonest whether there is anything that can be answered.
        for half, answer in zip(halves, answers, strict=True):
            asked += await self._go_on(Part(half), answer)
        if not any(isinstance(one.answer, PrometheusError) for one in asked):
            # Nothing in it spoils it: it was too much at once.
            return [replace(one, part=replace(one.part, is_apart=True)) for one in asked]
        return asked

    def _may_ask(self, queries: int) -> bool:
        if queries > self._further:
            return False
        self._further -= queries
        return True


def _room(parted: Sequence[Parted]) -> int:
    """Return how many further queries are left, once each part is asked."""
    return MOST_FURTHER - sum(max(0, len(one.parts) - 1) for one in parted)
