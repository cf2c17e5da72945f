"""Triggers as they stand in the YAML of ScaledObjects, before KEDA has sent them anywhere."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from scaler.config.problems import config_error, escaped, quoted
from scaler.config.trigger import FROM_ENV, SECRET_KEYS, Trigger, parse_trigger
from scaler.config.yaml_file import read_documents
from scaler.errors import ConfigError
from scaler.model import DEFAULT_BACKEND

_WHAT: Final = "ScaledObject file"
_ABOUT: Final = "the ScaledObject"
_EXTERNAL: Final = frozenset({"external", "external-push"})
"""The types of trigger that KEDA asks an external scaler about."""


@dataclass(frozen=True, slots=True)
class WrittenTrigger:
    """One trigger as it was written.

    Args:
        name: What to call it beside others.
        where: Where it stands, for a person who has to mend it.
        namespace: The ScaledObject's namespace.
        scaled_object: The ScaledObject's name.
        metadata: Keys and values as text.
    """

    name: str
    where: str
    namespace: str
    scaled_object: str
    metadata: Mapping[str, str]

    def changed(self, settings: Mapping[str, str], *, name: str = "", where: str = "") -> "WrittenTrigger":
        """Return the trigger with some keys set; what KEDA would have looked up for such a key counts no more.

        Args:
            settings: Values by key.
            name: What to call it from now on; the same as before if empty.
            where: Where the changes were written; added to where the trigger stands.
        """
        replaced = settings.keys() | {key + FROM_ENV for key in settings}
        kept = {key: value for key, value in self.metadata.items() if key not in replaced}
        both = ", ".join(part for part in (self.where, where) if part)
        return replace(self, name=name or self.name, where=both, metadata=kept | dict(settings))

    def read(
        self,
        *,
        tick_s: float,
        namespace_label: str = "namespace",
        queries: Collection[str] = (),
        backends: Collection[str] = (DEFAULT_BACKEND,),
    ) -> Trigger:
        """Read the metadata as the service would; the arguments are those of ``parse_trigger``.

        Raises:
            ConfigError: With all that is wrong, each problem with where it stands.
        """
        looked_up = sorted(key for key in self.metadata.keys() - SECRET_KEYS if key.endswith(FROM_ENV))
        problems = [
            f"{escaped(key)} is looked up in the container by KEDA, which is not here: give the value itself, with"
            f" --set {escaped(key.removesuffix(FROM_ENV))}=VALUE"
            for key in looked_up
        ]
        if problems:
            raise ConfigError(tuple(f"{self.where}: {problem}" for problem in problems))
        try:
            return parse_trigger(
                self.namespace,
                self.scaled_object,
                self.metadata,
                tick_s=tick_s,
                namespace_label=namespace_label,
                queries=queries,
                backends=backends,
            )
        except ConfigError as error:
            raise ConfigError(tuple(f"{self.where}: {problem}" for problem in error.problems)) from error


def read_scaled_objects(path: Path, *, namespace: str) -> tuple[WrittenTrigger, ...]:
    """Read the external triggers of the ScaledObjects in a file of YAML or JSON; other objects are passed over.

    Args:
        path: The file, such as ``kubectl get scaledobject -o yaml`` writes it.
        namespace: The namespace of a ScaledObject that names none.

    Raises:
        ConfigError: The file cannot be read, or has no external trigger that can be understood.
    """
    where = escaped(str(path))
    found: list[WrittenTrigger] = []
    problems: list[str] = []
    for item in objects_of(path):
        _read(item, path, namespace, found, problems)
    if not found and not problems:
        problems.append(f"{where}: there is no ScaledObject with a trigger of type external in it")
    if problems:
        raise config_error(problems, _ABOUT)
    if len(found) > 1:
        return tuple(replace(one, name=f"{one.name}#{number}") for number, one in enumerate(found, start=1))
    return tuple(found)


def objects_of(path: Path) -> list[Mapping[str, Any]]:
    """Read the ScaledObjects of a file as they stand there; every value in them is text.

    Raises:
        ConfigError: The file cannot be read, or is not YAML.
    """
    documents = read_documents(path, _WHAT, about=_ABOUT)
    return [item for item in _objects(documents) if item.get("kind") == "ScaledObject"]


def _objects(documents: Sequence[Any]) -> Iterator[Mapping[str, Any]]:
    """Yield the objects of all documents, those in lists too."""
    for document in documents:
        if isinstance(document, dict):
            items = document.get("items")
            yield from _objects(items) if isinstance(items, list) else (document,)


def _read(
    item: Mapping[str, Any], path: Path, namespace: str, found: list[WrittenTrigger], problems: list[str]
) -> None:
    identity, spec = _mapping(item.get("metadata")), _mapping(item.get("spec"))
    name = str(identity.get("name") or "")
    where = f"{escaped(str(path))}: ScaledObject {quoted(name)}"
    triggers = spec.get("triggers")
    for number, trigger in enumerate(triggers if isinstance(triggers, list) else [], start=1):
        if _mapping(trigger).get("type") not in _EXTERNAL:
            continue
        place = f"{where}, trigger {number}"
        metadata = trigger.get("metadata")
        if not isinstance(metadata, dict):
            problems.append(f"{place}: metadata is not a mapping of keys to values")
            continue
        odd = sorted(str(key) for key, value in metadata.items() if not isinstance(value, str))
        problems += [f"{place}: {escaped(key)} is not a text" for key in odd]
        if not odd:
            texts = {str(key): value for key, value in metadata.items()}
            found.append(WrittenTrigger(path.stem, place, str(identity.get("namespace") or namespace), name, texts))


def _mapping(value: Any) -> Mapping[str, Any]:  # noqa: ANN401 - whatever a file holds
    return value if isinstance(value, dict) else {}
