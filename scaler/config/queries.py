"""Queries that the operator of the service has named, and what triggers may say of them.

Only the settings file holds PromQL. A trigger names a query and can neither change it nor write one of its own.
"""

from collections.abc import Collection, Mapping
from typing import Annotated, Final

from pydantic import PlainSerializer

from scaler.config.kinds import Kind, is_off, read_number, read_word
from scaler.config.problems import detail, escaped, nearest, quoted, several
from scaler.errors import ConfigError
from scaler.model import CUSTOM_ACTIVATION_PREFIX, GATEWAY_ACTIVATION, ROUTER_ACTIVATION
from scaler.promql.named import QUERY_NAME, check_named_queries
from scaler.units import format_number

CUSTOM_LIMIT: Final = 8
"""Custom queries of one trigger: each is a signal that has to agree before the pool may scale down."""
CUSTOM_LENGTH: Final = 1024
"""Characters of all of them; eight of the longest names and numbers are no longer."""
LEAST_CAPACITY: Final = 0.001
MOST_CAPACITY: Final = 1e9
"""What one replica carries may be any quantity, but not so far from 1 that a slip of the unit looks like one."""
_QUERY_PREFIX: Final = "query:"
_ACTIVATIONS: Final = {"router": ROUTER_ACTIVATION, "gateway": GATEWAY_ACTIVATION}
_EXAMPLE: Final = "name=20,other=5"

NamedQueries = Annotated[
    Mapping[str, str],
    Kind("mapping", "a mapping of names to PromQL"),
    # In the log of all settings the names stand for the queries, which may be long.
    PlainSerializer(sorted, when_used="json"),
]
CustomQueries = Annotated[
    tuple[tuple[str, float], ...],
    Kind(
        "names and numbers",
        f"names of queries with what one replica carries, such as {_EXAMPLE}",
        "that of the query",
    ),
]
Activation = Annotated[str | None, Kind("one of a few words", "router, gateway or query:NAME")]


def read_named_queries(value: object, where: str) -> Mapping[str, str]:
    """Read the operator's queries.

    Args:
        value: PromQL by name.
        where: What the user calls the setting.

    Raises:
        PydanticCustomError: With a sentence for each thing that is wrong.
    """
    if not isinstance(value, Mapping):
        raise detail("is not a mapping of names to PromQL")
    queries = {str(name): expr.strip() for name, expr in value.items() if isinstance(expr, str)}
    problems = [
        f"named query '{escaped(str(name))}' is not text" for name, expr in value.items() if not isinstance(expr, str)
    ]
    try:
        check_named_queries(queries)
    except ConfigError as error:
        problems += error.problems
    if problems:
        raise several([f"{where}: {problem}" for problem in problems])
    return queries


def read_custom_queries(value: object, known: Collection[str]) -> tuple[tuple[str, float], ...]:
    """Read the queries that a trigger asks for, with what one replica carries of each.

    Args:
        value: Such as ``name=20,other=5``.
        known: What the operator has named.

    Returns:
        Names and numbers, by name.

    Raises:
        PydanticCustomError: With the text that follows key and value in the problem's sentence.
    """
    text = str(value).strip()
    if is_off(text):
        return ()
    entries = text.split(",")
    if len(text) > CUSTOM_LENGTH or len(entries) > CUSTOM_LIMIT:
        raise detail(f"is too long: {CUSTOM_LIMIT} queries and {CUSTOM_LENGTH} characters are allowed")
    capacities: dict[str, float] = {}
    for entry in entries:
        name, _, amount = (part.strip() for part in entry.partition("="))
        if QUERY_NAME.fullmatch(name) is None:
            raise detail(f"has no query's name in {quoted(entry.strip())}; write it like {_EXAMPLE}")
        if name in capacities:
            raise detail(f"names {name} twice")
        capacities[name] = _capacity(name, amount)
    if unknown := sorted(capacities.keys() - set(known)):
        raise detail(_not_named(unknown, known))
    return tuple(sorted(capacities.items()))


def read_activation(value: object, known: Collection[str]) -> str:
    """Read what wakes a pool at zero replicas.

    Args:
        value: ``router``, ``gateway`` or ``query:NAME``.
        known: What the operator has named.

    Returns:
        The extra reading that wakes the pool.

    Raises:
        PydanticCustomError: There is no query of that name; with the text that follows key and value.
        ValueError: It is anything else.
    """
    word = read_word(value)
    if word in _ACTIVATIONS:
        return _ACTIVATIONS[word]
    name = word.removeprefix(_QUERY_PREFIX).strip()
    if not word.startswith(_QUERY_PREFIX) or QUERY_NAME.fullmatch(name) is None:
        raise ValueError("not an activation signal")
    if name not in known:
        raise detail(_not_named([name], known))
    return f"{CUSTOM_ACTIVATION_PREFIX}{name}"


def _capacity(name: str, amount: str) -> float:
    try:
        capacity = read_number(amount)
    except ValueError:
        capacity = -1.0
    if not LEAST_CAPACITY <= capacity <= MOST_CAPACITY:
        span = f"{format_number(LEAST_CAPACITY)} to {format_number(MOST_CAPACITY)}"
        raise detail(f"must give {name} a number from {span}, what one replica carries, and not {quoted(amount)}")
    return capacity


def _not_named(unknown: list[str], known: Collection[str]) -> str:
    # What a trigger's author can do nothing about is kept short: the operator may have named a hundred.
    names = escaped(", ".join(sorted(known))) or "none"
    meant = nearest(unknown[0], known)
    hint = f"; did you mean {meant}?" if meant else ""
    return f"names {escaped(', '.join(unknown))}, and the operator of the scaler has named: {names}{hint}"
