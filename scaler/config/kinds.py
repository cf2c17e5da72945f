"""The kinds of value that settings have: how each is read from text, and how it is described to a person.

A field's type here, and the range on its ``Field``, are the one source for validation, error texts and reference pages.
"""

import math
import re
import types
import typing
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Annotated, Final, TypeGuard

from pydantic import BeforeValidator
from pydantic.fields import FieldInfo

from scaler.units import format_duration, format_number, parse_duration_s

# Python's own float() also takes "1_000", "nan" and the digits of every script, as no other reader of these texts does.
_NUMBER: Final = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_DURATION: Final = re.compile(rf"{_NUMBER.pattern}|(?:[0-9.]+[a-z]+)+")
_SIZE: Final = re.compile(r"([0-9]+)(|KiB|MiB|GiB)")
_BYTES_PER: Final = {"": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}
# RFC 1123 as Kubernetes applies it: a label is 63 characters at most, a subdomain 253.
_DNS_LABEL: Final = r"[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?"
_DNS_SUBDOMAIN: Final = re.compile(rf"{_DNS_LABEL}(?:\.{_DNS_LABEL})*")
_DNS_SUBDOMAIN_LENGTH: Final = 253
_LABEL_NAME: Final = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")
_TEXT_LENGTH: Final = 253
OFF: Final = "off"
"""The word that switches a signal off, whatever a default or a preset says."""


@dataclass(frozen=True, slots=True)
class Kind:
    """How one kind of value is described; it rides along in a field's annotation."""

    name: str
    """For the reference page: "whole number"."""
    noun: str
    """For sentences, "is not ...": "a whole number"."""
    unit: str = ""
    hint: str = ""
    """Follows the range: ", such as 90 or 1m30s"."""
    show: Callable[[typing.Any], str] = str
    """Writes a bound or a default."""
    word: str = ""
    """A word that is allowed as well, and stands for None: "off"."""


def is_kubernetes_name(text: str) -> bool:
    """Tell whether ``text`` is a DNS-1123 subdomain, as the names of workloads and ScaledObjects are."""
    return len(text) <= _DNS_SUBDOMAIN_LENGTH and _DNS_SUBDOMAIN.fullmatch(text) is not None


def is_namespace(text: str) -> bool:
    """Tell whether ``text`` is a DNS-1123 label, as namespaces are."""
    return re.fullmatch(_DNS_LABEL, text) is not None


def _is_number(value: object) -> TypeGuard[float]:
    """Tell a number from text: most values of a trigger are defaults, and reading those as text costs more than all."""
    return type(value) is float and math.isfinite(value)


def read_number(value: object) -> float:
    """Read a finite number written in ASCII digits: "0.9", " 8 ", "1e2".

    Raises:
        ValueError: It is anything else.
    """
    if _is_number(value):
        return value
    text = str(value).strip()
    if _NUMBER.fullmatch(text) is None or abs(number := float(text)) == float("inf"):
        raise ValueError("not a finite number")
    return number


def read_whole_number(value: object) -> int:
    """Read a whole number; "8.0" is one.

    Raises:
        ValueError: It is anything else.
    """
    if type(value) is int:
        return value
    number = read_number(value)
    if not number.is_integer():
        raise ValueError("not whole")
    return int(number)


def read_duration_s(value: object) -> float:
    """Read a duration, "90", "1m30s" or "500ms", as seconds.

    Raises:
        ValueError: It is anything else.
    """
    if _is_number(value) and value >= 0:
        return value
    text = str(value).strip()
    if _DURATION.fullmatch(text) is None:
        raise ValueError("not a duration")
    return parse_duration_s(text)


def read_bytes(value: object) -> int:
    """Read a size in bytes: "67108864" or "64MiB".

    Raises:
        ValueError: It is anything else.
    """
    match = _SIZE.fullmatch(str(value).strip())
    if match is None:
        raise ValueError("not a size")
    return int(match[1]) * _BYTES_PER[match[2]]


def format_bytes(size: int) -> str:
    """Write bytes for a person: 65536 -> "64 KiB", 1000 -> "1000 bytes"."""
    for unit in ("GiB", "MiB", "KiB"):
        if size and size % _BYTES_PER[unit] == 0:
            return f"{size // _BYTES_PER[unit]} {unit}"
    return f"{size} bytes"


def read_text(value: object) -> str:
    """Read one line of printable text, trimmed.

    Raises:
        ValueError: It is empty, too long, or has control characters.
    """
    text = str(value).strip()
    if not text or len(text) > _TEXT_LENGTH or not text.isprintable():
        raise ValueError("not one line of text")
    return text


def read_kubernetes_name(value: object) -> str:
    """Read the name of a Kubernetes object (a DNS-1123 subdomain), trimmed.

    Raises:
        ValueError: It is not one.
    """
    text = str(value).strip()
    if not is_kubernetes_name(text):
        raise ValueError("not a Kubernetes name")
    return text


def read_label_name(value: object) -> str:
    """Read the name of a Prometheus label, trimmed.

    Raises:
        ValueError: It is not one.
    """
    text = read_text(value)
    if _LABEL_NAME.fullmatch(text) is None or text.startswith("__"):
        raise ValueError("not a label name")
    return text


def read_word(value: object) -> str:
    """Read one of a few words, in any case and trimmed; which ones there are is for the field's ``Literal`` to say."""
    return str(value).strip().lower()


def or_off(read: Callable[[object], float]) -> Callable[[object], float | None]:
    """Return a reader that takes what ``read`` takes, and "off" for None."""
    return lambda value: None if is_off(value) else read(value)


def is_off(value: object) -> bool:
    """Tell whether a value says that what it is for is not used."""
    return value is None or read_word(value) == OFF


_WHOLE: Final = ("whole number", "a whole number")
_NUMBER_WORDS: Final = ("number", "a number")
_RATIO: Final = (*_NUMBER_WORDS, "ratio, where 1 is all of it")
_DURATION_WORDS: Final = (
    "duration",
    "a duration",
    "seconds, or with a unit: ms, s, m, h, d",
    ", such as 90 or 1m30s",
)

WholeNumber = Annotated[int, BeforeValidator(read_whole_number), Kind(*_WHOLE)]
Slots = Annotated[int, BeforeValidator(read_whole_number), Kind(*_WHOLE, "requests")]
Samples = Annotated[int, BeforeValidator(read_whole_number), Kind(*_WHOLE, "first tokens")]
Replicas = Annotated[int, BeforeValidator(read_whole_number), Kind(*_WHOLE, "replicas")]
Ticks = Annotated[int, BeforeValidator(read_whole_number), Kind(*_WHOLE, "ticks")]
Number = Annotated[float, BeforeValidator(read_number), Kind(*_NUMBER_WORDS, show=format_number)]
Ratio = Annotated[float, BeforeValidator(read_number), Kind(*_RATIO, show=format_number)]
RatioOrOff = Annotated[float | None, BeforeValidator(or_off(read_number)), Kind(*_RATIO, show=format_number, word=OFF)]
RequestsOrOff = Annotated[
    float | None,
    BeforeValidator(or_off(read_number)),
    Kind(*_NUMBER_WORDS, "requests", show=format_number, word=OFF),
]
EventsPerSecondOrOff = Annotated[
    float | None,
    BeforeValidator(or_off(read_number)),
    Kind(*_NUMBER_WORDS, "events a second", show=format_number, word=OFF),
]
TokensPerSecondOrOff = Annotated[
    float | None,
    BeforeValidator(or_off(read_number)),
    Kind(*_NUMBER_WORDS, "tokens a second", show=format_number, word=OFF),
]
HourlyCost = Annotated[
    float, BeforeValidator(read_number), Kind(*_NUMBER_WORDS, "your currency, an hour", show=format_number)
]
Duration = Annotated[float, BeforeValidator(read_duration_s), Kind(*_DURATION_WORDS, format_duration)]
DurationOrOff = Annotated[
    float | None, BeforeValidator(or_off(read_duration_s)), Kind(*_DURATION_WORDS, format_duration, word=OFF)
]
ByteSize = Annotated[
    int,
    BeforeValidator(read_bytes),
    Kind("size", "a size", "bytes, or with a unit: KiB, MiB, GiB", ", such as 64MiB", format_bytes),
]
Text = Annotated[str, BeforeValidator(read_text), Kind("text", "one line of text of 1 to 253 characters")]
KubernetesName = Annotated[
    str,
    BeforeValidator(read_kubernetes_name),
    Kind("Kubernetes name", "a Kubernetes name (lower-case letters, digits, - and .; at most 253 characters)"),
]
LabelName = Annotated[
    str,
    BeforeValidator(read_label_name),
    Kind("label name", "a Prometheus label name (letters, digits and _; not starting with a digit or __)"),
]


def kind_of(field: FieldInfo) -> Kind:
    """Return how a field's values are described."""
    return next(item for item in _annotations(field) if isinstance(item, Kind))


def allowed(field: FieldInfo) -> str:
    """Say which values a field takes, to follow "is not": "a whole number from 1 to 65536"."""
    kind = kind_of(field)
    word = f", or {kind.word}" if kind.word else ""
    return f"{kind.noun}{allowed_range(field)}{kind.hint}{word}"


def allowed_range(field: FieldInfo) -> str:
    """Say a field's range, " from 1 to 65536", or nothing where it has none."""
    kind = kind_of(field)
    low, high = (
        next((getattr(item, end) for item in field.metadata if hasattr(item, end)), None) for end in ("ge", "le")
    )
    return "" if low is None or high is None else f" from {kind.show(low)} to {kind.show(high)}"


def default_text(field: FieldInfo) -> str:
    """Write a field's default for a person; where it follows from something else, what it follows from."""
    extra = field.json_schema_extra
    if isinstance(extra, dict) and "default" in extra:
        return str(extra["default"])
    kind = kind_of(field)
    return kind.word or "none" if field.default is None else kind.show(field.default)


def only_with(field: FieldInfo) -> tuple[str, ...]:
    """Return the keys of which one must be set for this field to have an effect; none where it always has one."""
    extra = field.json_schema_extra
    found = extra.get("only_with") if isinstance(extra, dict) else None
    return tuple(str(key) for key in found) if isinstance(found, list) else ()


def _annotations(field: FieldInfo) -> Iterator[object]:
    yield from field.metadata
    # In "Ticks | None" the annotation of Ticks stays on that half of the union.
    if isinstance(field.annotation, types.UnionType) or typing.get_origin(field.annotation) is typing.Union:
        for half in typing.get_args(field.annotation):
            yield from getattr(half, "__metadata__", ())
