"""What is made from the chart's values and from the code: ``python -m tools.chart_reference`` writes it in place.

The table of the chart's README comes from the comments of values.yaml that begin with two dashes, as in the charts of
KEDA. The part of values.schema.json about ``config`` comes from the service's own settings, so that a wrong key is
refused before anything is installed.
"""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal, get_args, get_origin

import yaml
from pydantic.fields import FieldInfo

from scaler.config.backends import BACKEND_FIELDS, BACKEND_LIMIT
from scaler.config.kinds import kind_of
from scaler.config.server import FIELDS, FILE_ONLY, Tls

ROOT: Final = Path(__file__).resolve().parent.parent
CHART: Final = ROOT / "deploy" / "helm" / "vllm-keda-scaler"

SET_BY_THE_CHART: Final = frozenset({"grpc_port", "http_port", *Tls.model_fields})
"""Settings that have values of their own: probes, Services and mounts have to agree with them."""

_COMMENT: Final = re.compile(r" *# ?(.*)")
_MARK: Final = "-- "
_TABLE: Final = re.compile(r"(?<=<!-- values -->\n).*(?=<!-- end of values -->)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Value:
    """One row of the table: a value's path, its default as JSON, and what its comment says."""

    path: str
    default: str
    text: str


def values(source: str) -> Iterator[Value]:
    """Read the values of a values.yaml that have a comment of their own, in their order.

    Args:
        source: The file's text.

    Raises:
        ValueError: A value has no comment, and none of those that it stands in has one.
    """
    root = yaml.compose(source, Loader=yaml.SafeLoader)
    assert isinstance(root, yaml.MappingNode), "values are a mapping"
    yield from _values(root, source.splitlines(), "")


def table(source: str) -> str:
    """Return the table of a values.yaml in Markdown."""
    rows = [f"| `{value.path}` | `{value.default}` | {value.text} |" for value in values(source)]
    return "\n".join(["| value | default | meaning |", "| --- | --- | --- |", *rows, ""])


def with_table(readme: str, source: str) -> str:
    """Return a README with its table made anew."""
    return _TABLE.sub(lambda _: table(source), readme)


def settings_schema() -> dict[str, Any]:
    """Return the JSON schema of the value ``config``."""
    own = {name: field for name, field in FIELDS.items() if name not in SET_BY_THE_CHART}
    properties = {name: _setting_schema(field) for name, field in own.items() if name not in FILE_ONLY}
    texts: dict[str, object] = {"type": "object", "additionalProperties": {"type": ["string", "number", "boolean"]}}
    mappings: dict[str, object] = dict.fromkeys((name for name in own if name in FILE_ONLY), texts)
    backend: dict[str, object] = {name: _setting_schema(field) for name, field in BACKEND_FIELDS.items()}
    mappings["backends"] = {
        "type": "object",
        "maxProperties": BACKEND_LIMIT,
        "additionalProperties": {
            "type": "object",
            "additionalProperties": False,
            "required": ["url"],
            "properties": backend | {"headers": texts, "external_labels": texts},
        },
    }
    return {"type": "object", "additionalProperties": False, "properties": properties | mappings}


def with_settings(schema: str) -> str:
    """Return a values.schema.json with its part about ``config`` made anew."""
    parsed = json.loads(schema)
    parsed["properties"]["config"] = settings_schema()
    return json.dumps(parsed, indent=2) + "\n"


def _values(node: yaml.MappingNode, lines: list[str], prefix: str) -> Iterator[Value]:
    for key, value in node.value:
        path = f"{prefix}{key.value}"
        text = _comment_above(lines, key.start_mark.line)
        if text is not None:
            yield Value(path, _default(value), text)
        elif isinstance(value, yaml.MappingNode) and value.value:
            yield from _values(value, lines, f"{path}.")
        else:
            raise ValueError(f"{path} has no comment that begins with '# {_MARK.strip()}'")


def _comment_above(lines: list[str], line: int) -> str | None:
    """Return the comment that ends right above a line, if it begins with the mark."""
    found: list[str] = []
    while line > 0 and (comment := _COMMENT.fullmatch(lines[line - 1])) is not None:
        line -= 1
        found.insert(0, comment[1])
        if comment[1].startswith(_MARK):
            return " ".join(found).removeprefix(_MARK)
    return None


def _default(node: yaml.Node) -> str:
    return json.dumps(yaml.safe_load(yaml.serialize(node)))


def _setting_schema(field: FieldInfo) -> Mapping[str, object]:
    if get_origin(field.annotation) is Literal:
        return {"enum": list(get_args(field.annotation))}
    match kind_of(field).name:
        case "URL":
            return {"type": "string", "pattern": "^https?://"}
        case "address" | "path" | "label name" | "text":
            return {"type": "string"}
        case _:
            return {"type": ["string", "number"]}


def write() -> None:
    """Write the table and the schema in place."""
    source = (CHART / "values.yaml").read_text(encoding="utf-8")
    readme, schema = CHART / "README.md", CHART / "values.schema.json"
    readme.write_text(with_table(readme.read_text(encoding="utf-8"), source), encoding="utf-8")
    schema.write_text(with_settings(schema.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    write()
