"""Sentences about what is wrong with a setting, bounded and safe to show.

They end up in Kubernetes events, logs and terminals, so every value is quoted, cut and stripped of control characters.
"""

import difflib
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from pydantic import ValidationError, ValidationInfo
from pydantic.fields import FieldInfo
from pydantic_core import PydanticCustomError

from scaler.config.kinds import allowed
from scaler.errors import ConfigError
from scaler.model import DEFAULT_BACKEND

TEXT_LIMIT_BYTES: Final = 850
"""All of one error's text. An event's message holds 1024 bytes, and KEDA puts about 150 of its own before ours."""
PROBLEM_LIMIT: Final = 20
"""Problems listed one by one; whoever has more than these mends some first."""
VALUE_LIMIT_BYTES: Final = 80
"""One quoted value: long enough to recognise it, short enough that several problems fit into an event."""


def quoted(text: str) -> str:
    """Quote a value for a person: control characters escaped, at most ``VALUE_LIMIT_BYTES``, "…" where it was cut."""
    return f'"{escaped(text)}"'


def escaped(text: str) -> str:
    """Return ``text`` as one printable line of at most ``VALUE_LIMIT_BYTES`` bytes of UTF-8, "…" where it was cut."""
    shown: list[str] = []
    size = 0
    for character in text:
        piece = character if character.isprintable() else character.encode("unicode_escape").decode("ascii")
        size += len(piece.encode())
        if size > VALUE_LIMIT_BYTES:
            return "".join(shown) + "…"
        shown.append(piece)
    return "".join(shown)


def nearest(word: str, known: Iterable[str]) -> str | None:
    """Return the known key that was probably meant: same but for case, - and _, else the most alike, else None."""
    by_folded = {_folded(key): key for key in known}
    folded = _folded(word[:VALUE_LIMIT_BYTES])
    if folded in by_folded:
        return by_folded[folded]
    alike = difflib.get_close_matches(folded, by_folded, n=1)
    return by_folded[alike[0]] if alike else None


def _folded(key: str) -> str:
    return key.lower().replace("-", "").replace("_", "")


def config_error(problems: Sequence[str], where: str) -> ConfigError:
    """Make the one error that holds all ``problems``, in at most ``PROBLEM_LIMIT`` entries and ``TEXT_LIMIT_BYTES``.

    Args:
        problems: One sentence each, at least one.
        where: What they are about, such as "the trigger's metadata".
    """
    listed = tuple(problems[:PROBLEM_LIMIT])
    if len(problems) > PROBLEM_LIMIT:
        listed = (*listed[:-1], f"and {len(problems) - PROBLEM_LIMIT + 1} more")
    return ConfigError(listed, text=_numbered(problems, where))


def _numbered(problems: Sequence[str], where: str) -> str:
    count = len(problems)
    if count == 1:
        return f"1 problem in {where}: {problems[0]}"
    text = f"{count} problems in {where}: "
    for number, problem in enumerate(problems, start=1):
        part = f"({number}) {problem}"
        more = f"and {count - number + 1} more"
        # The room for "and N more" is kept free, so that it always fits when the next problem does not.
        if number > PROBLEM_LIMIT or len(f"{text}{part}; {more}".encode()) > TEXT_LIMIT_BYTES:
            return text + more
        text += part + ("; " if number < count else "")
    return text


@dataclass(frozen=True, slots=True)
class Given:
    """How the user wrote each value, by field key, so that a problem names it in the user's own words."""

    texts: Mapping[str, str] = field(default_factory=dict)
    """The value as text, with secrets already taken out."""
    names: Mapping[str, str] = field(default_factory=dict)
    """What to call the key, such as "flag --grpc-port"; the key itself where it is not here."""
    namespace_label: str = "namespace"
    """The label that holds a series' namespace, which selectors must leave alone."""
    queries: Collection[str] = ()
    """The names of the queries that the operator of the service has named."""
    preset: str = ""
    """The set of defaults that was asked for."""
    preset_texts: Mapping[str, str] = field(default_factory=dict)
    """Its values by field key."""
    backends: Collection[str] = (DEFAULT_BACKEND,)
    """The names of the Prometheus backends that the operator of the service has named."""

    @staticmethod
    def of(info: ValidationInfo) -> "Given":
        """Return what a model was validated with, or an empty one when it was built in code."""
        return info.context if isinstance(info.context, Given) else Given()

    def name(self, key: str) -> str:
        """Return what the user calls ``key``."""
        return self.names.get(key, key)

    def show(self, key: str, default: str) -> str:
        """Return name and value of a setting: as given, or what they come from, a preset or the default."""
        if key in self.texts:
            return f"{self.name(key)} {quoted(self.texts[key])}"
        if key in self.preset_texts:
            return f"{key} {self.preset_texts[key]} (of preset {self.preset})"
        return f"{key} {default} (the default)"

    def chosen(self, key: str) -> str | None:
        """Return the value's text as given, else the preset's; None where the default holds."""
        return self.texts.get(key, self.preset_texts.get(key))


def defaults(fields: Mapping[str, FieldInfo]) -> dict[str, Any]:
    """Return the fixed defaults, to be validated like given values.

    pydantic stops looking at defaults after the first error, and then would not compare a given value with a default.
    """
    return {
        key: field.default for key, field in fields.items() if not field.is_required() and field.default_factory is None
    }


def cross_field(text: str) -> PydanticCustomError:
    """Return the error of a check across fields; ``text`` is the whole sentence."""
    return PydanticCustomError("cross_field", "{text}", {"text": text})


def several(texts: Sequence[str]) -> PydanticCustomError:
    """Return the error of a field in which several things are wrong; ``texts`` are whole sentences."""
    return PydanticCustomError("several", "{texts}", {"texts": list(texts)})


def detail(text: str) -> PydanticCustomError:
    """Return the error of one value; ``text`` follows the key and the value."""
    return PydanticCustomError("detail", "{text}", {"text": text})


def sentences(error: ValidationError, fields: Mapping[str, FieldInfo], given: Given) -> list[str]:
    """Translate pydantic's errors, a sentence for each thing that is wrong, in the order of ``fields``.

    Args:
        error: What the model raised.
        fields: The model's fields by the key that users write.
        given: How the user wrote them.
    """
    order = {key: place for place, key in enumerate(fields)}
    found: list[tuple[int, str]] = []
    for item in error.errors(include_url=False):
        key = str(item["loc"][0])
        match item["type"]:
            case "default_factory_not_called":
                continue  # a default that follows another field waits until that field is mended
            case "several":
                found += [(order[key], text) for text in item["ctx"]["texts"]]
                continue
            case "cross_field":
                text = item["msg"]
            case "missing":
                text = f"{given.name(key)} is missing: give {allowed(fields[key])}"
            case "detail":
                text = f"{given.show(key, '')} {item['msg']}"
            case _:
                text = f"{given.show(key, '')} is not {allowed(fields[key])}"
        found.append((order[key], text))
    return [text for _, text in sorted(found, key=lambda pair: pair[0])]
