"""How often engines of a pool restarted, counted as resets of their counters: no exporter but vLLM's own is needed.

A container that was killed for want of memory comes back in its pod, under the same labels, and counts from zero. A pod
that was replaced has new labels and no resets: rollouts and scale-downs are no restarts.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from scaler.model import RESTARTS, Absent, Extra
from scaler.promql.batches import Batch, Identity, Owners, batched
from scaler.promql.engines import VLLM
from scaler.promql.extra_query import Reader
from scaler.promql.notes import Notes
from scaler.promql.queries import EngineShape, duration
from scaler.promql.query import LabelNames, Query, Sample
from scaler.promql.rows import best, usable


@dataclass(frozen=True, slots=True)
class RestartsQuery:
    """The restarts of the engines of some pools.

    Args:
        shape: What the engines' series have in common.
        window_s: How far back to look, seconds.
    """

    shape: EngineShape
    window_s: float

    @property
    def name(self) -> str:
        """The reading's name."""
        return RESTARTS

    def batches(self, owners: Owners, names: LabelNames) -> Iterator[Batch]:
        """Write the queries that together cover some pools."""
        return batched(owners, self.shape.identity_labels(names), partial(self._query, names))

    def read(self, rows: Sequence[Sample], reader: Reader, notes: Notes) -> Extra:
        """Read the count; without a row nothing is known."""
        if not rows:
            if reader.serving != 0:
                notes.add(f"{self.name} are missing: no {VLLM.generation_tokens}")
            return Extra(Absent.MISSING)
        value = best(row.value for row in rows)
        if not usable(value):
            notes.add(
                f"{self.name} are missing: the resets of {VLLM.generation_tokens} are {value:g}, which is no count"
            )
            return Extra(Absent.MISSING)
        return Extra(value)

    def _query(self, names: LabelNames, identities: Sequence[Identity]) -> Query:
        scope = self.shape.scope(identities, names)
        resets = f"resets({VLLM.generation_tokens}{{{scope}}}[{duration(self.window_s)}])"
        return Query(self.name, self.shape.total(resets, names))
