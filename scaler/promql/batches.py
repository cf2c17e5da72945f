"""A query with the pools that it is for, and how the rows of its answer find their pools."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Final, TypeAlias

from scaler.errors import PrometheusError
from scaler.model import PoolKey
from scaler.promql.query import Answer, Query, Sample

# Prometheus evaluates a query on one core. The latency query of 250 pools with 4 replicas each took 1 s (2.42, 23 000
# series of buckets); more pools become more queries, which run side by side.
MAX_POOLS: Final = 250
# Bytes of one expression, far below any limit on forms (10 MB in Prometheus): names can be long.
MAX_EXPR_BYTES: Final = 32_000

Identity: TypeAlias = tuple[str, ...]
"""What tells the pools of one query apart: the namespace, then whatever the query needs, such as model and workload."""
Owners: TypeAlias = dict[Identity, list[PoolKey]]
"""The pools behind each identity."""
Claims: TypeAlias = Callable[[Identity], Sequence[Identity]]
"""The identities of the rows that are for a pool, by the pool's own."""


def own_rows(identity: Identity) -> tuple[Identity, ...]:
    """Claim the rows that have the pool's own identity, and no others."""
    return (identity,)


@dataclass(frozen=True, slots=True)
class Batch:
    """One query and the pools that it is for.

    Args:
        query: What is asked.
        identity_labels: Labels of a row which together say whose it is.
        owners: The pools behind each identity.
        claims: Which rows are for a pool; a row that none claims is nobody's.
    """

    query: Query
    identity_labels: tuple[str, ...]
    owners: Mapping[Identity, Sequence[PoolKey]]
    claims: Claims = own_rows

    def rows_by_pool(self, answer: Answer) -> Mapping[PoolKey, Answer]:
        """Hand each pool its rows, or the error that all of them share."""
        if isinstance(answer, PrometheusError):
            return {key: answer for keys in self.owners.values() for key in keys}
        claimed = {identity: self.claims(identity) for identity in self.owners}
        rows: dict[Identity, list[Sample]] = {claim: [] for claims in claimed.values() for claim in claims}
        for sample in answer:
            identity = tuple(sample.labels.get(label, "") for label in self.identity_labels)
            if identity in rows:
                rows[identity].append(sample)
        return {
            key: tuple(chain.from_iterable(rows[claim] for claim in claimed[identity]))
            for identity, keys in self.owners.items()
            for key in keys
        }


def batched(
    owners: Owners,
    identity_labels: tuple[str, ...],
    query: Callable[[Sequence[Identity]], Query],
    claims: Claims = own_rows,
) -> Iterator[Batch]:
    """Halve the pools that can share a query until they are few and their expression is short.

    Args:
        owners: The pools behind each identity.
        identity_labels: Labels of a row which together say whose it is.
        query: Makes the query for some identities, which come ascending.
        claims: Which rows are for a pool.
    """
    identities = sorted(owners)
    if len(identities) <= MAX_POOLS:
        whole = query(identities)
        if len(whole.expr) <= MAX_EXPR_BYTES or len(identities) == 1:
            yield Batch(whole, identity_labels, owners, claims)
            return
    middle = len(identities) // 2
    for half in (identities[:middle], identities[middle:]):
        yield from batched({identity: owners[identity] for identity in half}, identity_labels, query, claims)
