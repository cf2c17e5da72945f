"""What a trigger may say of the Prometheus that it is read from: a name that the operator has given."""

from collections.abc import Collection
from typing import Annotated, Final

from scaler.config.kinds import Kind
from scaler.config.problems import detail, escaped, nearest

BackendName = Annotated[
    str, Kind("name of a backend", "the name of a backend that the operator of the scaler has given")
]
URL_REFUSED: Final = "is not allowed: the operator of the scaler chooses the Prometheus, not a trigger"
"""Follows a key that holds an address."""


def read_backend_name(value: object, known: Collection[str]) -> str:
    """Read the name of a backend.

    Args:
        value: The name, trimmed.
        known: What the operator has named.

    Raises:
        PydanticCustomError: There is none of that name; with the text that follows key and value.
    """
    name = str(value).strip()
    if name in known:
        return name
    # What a trigger's author can do nothing about is kept short.
    names = escaped(", ".join(sorted(known)))
    if "/" in name or ":" in name:
        raise detail(f"{URL_REFUSED}; give the name of one that is known: {names}")
    meant = nearest(name, known)
    hint = f"; did you mean {meant}?" if meant else ""
    raise detail(f"is not known, and the operator of the scaler has named: {names}{hint}")
