"""PromQL that the operator of the service has written and named, for pools to ask for by that name.

It runs as it is, once a tick for all pools that ask, and gives a row for each pool: labelled with the namespace, and
with ``model_name``, the workload's kind (``deployment``, ``statefulset``, ``leaderworkerset``) or ``workload`` where a
namespace has several pools. A pool takes the one row whose labels of these are its own, so no pool can read a row
of another namespace.
"""

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Final

import promql_parser

from scaler.errors import ConfigError
from scaler.model import CUSTOM_SIGNAL_PREFIX, Absent, Extra, PoolLocator
from scaler.promql.answer import quoted
from scaler.promql.batches import Batch, Identity, Owners
from scaler.promql.engines import VLLM
from scaler.promql.extra_query import Reader
from scaler.promql.notes import Notes
from scaler.promql.query import LabelNames, Query, Sample
from scaler.promql.rows import reading, usable
from scaler.promql.workloads import WORKLOAD_LABEL, WORKLOAD_SERIES

QUERY_NAME: Final = re.compile(r"[a-z][a-z0-9_]{0,62}")
"""What a named query may be called: it becomes part of metric labels and of trigger metadata."""
MAX_QUERY_CHARS: Final = 8_000
"""Characters of one expression: far more than a person writes, far less than the HTTP API takes."""
MAX_NAMED_QUERIES: Final = 100
"""Each is a query in every tick in which a pool asks for it."""

_KIND_LABELS: Final = tuple(series.label for series in WORKLOAD_SERIES.values())


def check_named_queries(queries: Mapping[str, str]) -> None:
    """Check names and PromQL before anything is asked.

    Args:
        queries: PromQL by name.

    Raises:
        ConfigError: With a sentence for each thing that is wrong.
    """
    problems = [problem for name, expr in queries.items() for problem in _problems(name, expr)]
    if len(queries) > MAX_NAMED_QUERIES:
        problems.insert(0, f"there are {len(queries)} named queries: {MAX_NAMED_QUERIES} are the most")
    if problems:
        raise ConfigError(tuple(problems))


@dataclass(frozen=True, slots=True)
class NamedQuery:
    """One query of the operator.

    Args:
        query_name: As the operator calls it.
        expr: The PromQL as the operator wrote it.
    """

    query_name: str
    expr: str

    @property
    def name(self) -> str:
        """The signal's name."""
        return f"{CUSTOM_SIGNAL_PREFIX}{self.query_name}"

    def batches(self, owners: Owners, names: LabelNames) -> Iterator[Batch]:
        """Ask once, however many pools there are."""
        labels = (names.namespace, VLLM.model_label, *_KIND_LABELS, WORKLOAD_LABEL)
        yield Batch(Query(self.name, self.expr), labels, owners, _rows_of)

    def read(self, rows: Sequence[Sample], reader: Reader, notes: Notes) -> Extra:
        """Take the value of the pool's one row: NaN is no traffic; none, several or a negative value is missing."""
        distinct = {frozenset(row.labels.items()): row for row in rows}
        if len(distinct) != 1:
            notes.add(f"{self.name} is missing: {_row_problem(len(distinct), reader.locator)}")
            return Extra(Absent.MISSING)
        (row,) = distinct.values()
        if math.isnan(row.value):
            return Extra(Absent.NO_TRAFFIC)
        if not usable(row.value):
            notes.add(f"{self.name} is missing: its value is {row.value:g}, and only 0 or more can be used")
        return Extra(reading(row.value))


def named_identity(locator: PoolLocator) -> Identity:
    """Return what a row may say of a pool, with an empty text for what the pool does not say of itself."""
    kinds = ["" for _ in _KIND_LABELS]
    name = ""
    if locator.workload is not None:
        name = locator.workload.name
        kinds[_KIND_LABELS.index(WORKLOAD_SERIES[locator.workload.kind].label)] = name
    return (locator.namespace, locator.model_name or "", *kinds, name)


def _rows_of(identity: Identity) -> tuple[Identity, ...]:
    """Claim every row of the namespace on which each further label is the pool's own or is not there."""
    namespace, *further = identity
    return tuple((namespace, *labels) for labels in product(*(dict.fromkeys((own, "")) for own in further)))


def _row_problem(rows: int, locator: PoolLocator) -> str:
    if rows == 0:
        return (
            f"the query has no row for {locator} in namespace {locator.namespace}: labels of a row that name the "
            f"namespace, {VLLM.model_label}, {', '.join(_KIND_LABELS)} or {WORKLOAD_LABEL} must be the pool's own"
        )
    return (
        f"the query is ambiguous: {rows} rows are for {locator} in namespace {locator.namespace}: "
        "aggregate them to one for each pool"
    )


def _problems(name: str, expr: str) -> Iterator[str]:
    where = f"named query {quoted(name)!r}"
    if not QUERY_NAME.fullmatch(name):
        yield f"{where}: a name is 1 to 63 of a-z, 0-9 and _, and begins with a letter"
    if len(expr) > MAX_QUERY_CHARS:
        yield f"{where} has {len(expr)} characters: {MAX_QUERY_CHARS} are the most"
        return
    try:
        parsed = promql_parser.parse(expr)
    except (ValueError, UnicodeError) as error:
        yield f"{where} is not PromQL: {quoted(error)}"
        return
    if not _is_vector(parsed):
        yield f"{where} must give an instant vector, with a row for each pool, and not a {_kind(parsed)}"


def _is_vector(parsed: promql_parser.Expr) -> bool:
    """Tell whether an expression gives an instant vector, by the rules of PromQL's types."""
    parts = [parsed]
    while parts:
        match parts.pop():
            case promql_parser.ParenExpr(expr=inner) | promql_parser.UnaryExpr(expr=inner):
                parts.append(inner)
            case promql_parser.BinaryExpr(lhs=left, rhs=right):
                parts += (left, right)
            case promql_parser.Call(func=function):
                if function.return_type == promql_parser.ValueType.Vector:
                    return True
            case promql_parser.VectorSelector() | promql_parser.AggregateExpr():
                return True
    return False


def _kind(expr: promql_parser.Expr) -> str:
    match expr:
        case promql_parser.StringLiteral():
            return "string"
        case promql_parser.MatrixSelector() | promql_parser.SubqueryExpr():
            return "range vector"
        case _:
            return "scalar"
