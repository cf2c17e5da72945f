"""A query with the pools that it is for, and how the rows of its answer find their pools."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, groupby
from operator import itemgetter
from typing import Final, TypeAlias

from scaler.errors import PrometheusError
from scaler.model import PoolKey
from scaler.promql.query import Answer, Query, Sample

# The longest answer about so many pools, with two replicas each, has some 10 MB, where 64 MiB are read by default.
MAX_POOLS: Final = 3500
# Bytes of one expression, far below any limit on forms (10 MB in Prometheus, 1 MB in many proxies): names can be long.
MAX_EXPR_BYTES: Final = 128_000
# More names make a query longer but hardly narrower: namespaces alone do then, and rows of others are dropped here.
MAX_NAMES: Final = 250

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
        identity_of = _identity_reader(self.identity_labels)
        for sample in answer:
            of_owner = rows.get(identity_of(sample.labels))
            if of_owner is not None:
                of_owner.append(sample)
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
    *,
    max_pools: int = MAX_POOLS,
) -> Iterator[Batch]:
    """Share queries among as many pools as one answer and one expression have room for.

    Pools of one namespace stay together: a query for many pools asks for whole namespaces.

    Args:
        owners: The pools behind each identity.
        identity_labels: Labels of a row which together say whose it is.
        query: Makes the query for some identities, which come ascending.
        claims: Which rows are for a pool.
        max_pools: The most pools of one query, where they are not of one namespace.
    """
    shard: list[Identity] = []
    for _, namespace in groupby(sorted(owners), key=itemgetter(0)):
        identities = list(namespace)
        if shard and len(shard) + len(identities) > max_pools:
            yield from _short_enough(shard, owners, identity_labels, query, claims)
            shard = []
        shard += identities
    if shard:
        yield from _short_enough(shard, owners, identity_labels, query, claims)


def _short_enough(
    identities: Sequence[Identity],
    owners: Owners,
    identity_labels: tuple[str, ...],
    query: Callable[[Sequence[Identity]], Query],
    claims: Claims,
) -> Iterator[Batch]:
    """Halve pools until their expression is short."""
    whole = query(identities)
    if len(whole.expr) <= MAX_EXPR_BYTES or len(identities) == 1:
        yield Batch(whole, identity_labels, {identity: owners[identity] for identity in identities}, claims)
        return
    middle = len(identities) // 2
    for half in (identities[:middle], identities[middle:]):
        yield from _short_enough(half, owners, identity_labels, query, claims)


def _identity_reader(names: tuple[str, ...]) -> Callable[[Mapping[str, str]], Identity]:
    """Return what reads a row's identity; the quick way is for rows that have all labels, as nearly all have."""
    all_of = itemgetter(*names) if len(names) > 1 else None

    def identity(labels: Mapping[str, str]) -> Identity:
        if all_of is not None:
            try:
                return all_of(labels)  # type: ignore[no-any-return]  # a tuple, for several names
            except KeyError:
                pass
        return tuple([labels.get(name, "") for name in names])

    return identity
