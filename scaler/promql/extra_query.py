"""What is common to all extras: readings that only some pools ask for, each a query of its own.

Pools whose ``ExtraQuery`` are equal share its queries. One that fails takes no other reading with it.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from scaler.model import Extra, PoolLocator
from scaler.promql.batches import Batch, Owners
from scaler.promql.notes import Notes
from scaler.promql.query import LabelNames, Sample
from scaler.units import format_duration


@dataclass(frozen=True, slots=True)
class Reader:
    """The pool that rows are read for.

    Args:
        locator: Where its series are.
        serving: Replicas that report lately; None when that is not known.
    """

    locator: PoolLocator
    serving: int | None

    def too_few_scrapes(self) -> str:
        """Say what it takes for a rate to exist."""
        window = format_duration(self.locator.rate_window_s)
        return f"fewer than two scrapes within the rate window of {window}"


class ExtraQuery(Protocol):
    """What is asked for one extra, and what the answer means. Frozen: equal ones are asked once."""

    @property
    def name(self) -> str:
        """The stable name of its queries, which no other extra of a pool has."""
        ...

    def batches(self, owners: Owners, names: LabelNames) -> Iterator[Batch]:
        """Write the queries that together cover some pools."""
        ...

    def read(self, rows: Sequence[Sample], reader: Reader, notes: Notes) -> Extra:
        """Read one pool's rows, in any order; a note says why a value is missing."""
        ...
