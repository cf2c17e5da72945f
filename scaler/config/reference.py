"""The reference pages, made from the fields that validate: ``python -m scaler.config.reference`` writes them."""

import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Final

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from scaler.config import metadata, server
from scaler.config.backends import BACKEND_FIELDS, Backends
from scaler.config.kinds import allowed_range, default_text, kind_of, only_with
from scaler.config.presets import PRESETS, Preset
from scaler.config.sections.base import key_of
from scaler.config.sections.pool import StartingPoint
from scaler.config.sources import CONFIG_ENV, env_name, flag_name

FOLDER: Final = Path("docs/reference")

_TRIGGER_INTRO: Final = """\
# Trigger metadata

These keys stand under `metadata` of an `external` or `external-push` trigger in a ScaledObject. All values are text, so
numbers and `"off"` need quotes. Values are trimmed; durations are seconds (`"90"`) or have units (`"1m30s"`).

```yaml
triggers:
  - type: external
    metricType: AverageValue
    metadata:
      scalerAddress: vllm-scaler.keda.svc.cluster.local:50051
      deployment: vllm-llama
      slotsPerReplica: "16"
      ttftP95Seconds: "1"
      maxReplicas: "40"
```

- Each key may be given as `<key>FromEnv` instead; KEDA then takes the value from that environment variable of the
  workload's container, and leaves the key out when the variable is not set there.
- `scalerAddress`, `enableTLS` and `unsafeSsl` are KEDA's own.
- `caCert`, `tlsClientCert` and `tlsClientKey` belong in a TriggerAuthentication. In metadata KEDA does not use them.
- A key that is not known, a value that is not allowed, or a key that has no effect beside the others makes the trigger
  invalid: replicas stay as they are, and the ScaledObject gets an event that names every problem.

This page is made from the code that checks the keys (`python -m scaler.config.reference`).
"""

_FILE_ONLY: Final = ", ".join(f"`{name}`" for name in server.FIELDS if name in server.FILE_ONLY)
_SETTINGS_INTRO: Final = f"""\
# Settings of the service

Each setting of `vllm-scaler serve` has a key in a YAML file, and each of a single value also a flag and an environment
variable; {_FILE_ONLY} are mappings and stand in the file
only. The flag goes before the environment variable, that before the file, and that before the default. The file is
named by `--config` or `{CONFIG_ENV}`. An empty value counts as not given. Durations are seconds (`90`), or
have units (`1m30s`).

A key of the file that is not known, or a value that is not allowed, stops the service at the start, with every problem
on a line of its own and exit code 2. A `VLLM_SCALER_` variable that is not known is logged as a warning.

This page is made from the code that checks the settings (`python -m scaler.config.reference`).
"""


def trigger_page() -> str:
    """Return docs/reference/trigger-metadata.md."""
    presets = "\n".join(_preset(name, preset) for name, preset in PRESETS.items())
    return _page(_TRIGGER_INTRO, metadata.SECTIONS, key_of, _key_example, {StartingPoint: presets})


def settings_page() -> str:
    """Return docs/reference/settings.md."""
    return _page(_SETTINGS_INTRO, server.SECTIONS, str, _setting_example, {Backends: _backend_keys()})


PAGES: Final[Mapping[str, Callable[[], str]]] = {"trigger-metadata.md": trigger_page, "settings.md": settings_page}
"""Every page by file name."""


def write_pages(folder: Path) -> None:
    """Write every page into ``folder``, which is made when it is missing."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, page in PAGES.items():
        (folder / name).write_text(page(), encoding="utf-8")


def _page(
    intro: str,
    sections: Iterable[tuple[str, type[BaseModel]]],
    key_of: Callable[[str], str],
    example_of: Callable[[str, str], str],
    appendices: Mapping[type[BaseModel], str],
) -> str:
    parts = [intro]
    for title, section in sections:
        fields = {key_of(name): field for name, field in section.model_fields.items()}
        rows = [
            f"| [`{key}`](#{key.lower()}) | {_default(field)} | {_allowed(field)} |" for key, field in fields.items()
        ]
        parts += [
            f"## {title}\n\n{_unwrapped(section.__doc__ or '')}\n",
            "| key | default | allowed |\n| --- | --- | --- |\n" + "\n".join(rows) + "\n",
            *(_entry(key, field, example_of) for key, field in fields.items()),
            *([appendices[section]] if section in appendices else []),
        ]
    return "\n".join(parts)


def _entry(key: str, field: FieldInfo, example_of: Callable[[str, str], str]) -> str:
    kind = kind_of(field)
    unit = f"; unit: {kind.unit}" if kind.unit else ""
    needed = ", ".join(f"`{other}`" for other in only_with(field))
    examples = ", ".join(example_of(key, example) for example in field.examples or ())
    return (
        f"### `{key}`\n\n{field.description}\n\n"
        f"- Type: {kind.name}{unit}.\n- Allowed: {_allowed(field)}.\n- Default: {_default(field)}.\n"
        f"{f'- Only with: {needed}.{chr(10)}' if needed else ''}- Example: {examples}\n"
    )


def _key_example(key: str, example: str) -> str:
    return f"`{key}: '{example}'`"


def _setting_example(key: str, example: str) -> str:
    if key in server.FILE_ONLY:
        return f"in the file\n\n```yaml\n{example}\n```"
    return f"`{flag_name(key)} {example}`, `{env_name(key)}={example}` or `{key}: '{example}'` in the file"


def _backend_keys() -> str:
    rows = [
        f"| `{key}` | {_default(field)} | {_allowed(field)} | {field.description} |"
        for key, field in BACKEND_FIELDS.items()
    ]
    return (
        "These are the keys of one backend. What is said above of `prometheus_*`, of `query_timeout` and of the"
        " settings beside it holds for them too.\n\n"
        "| key | default | allowed | meaning |\n| --- | --- | --- | --- |\n" + "\n".join(rows) + "\n"
    )


def _preset(name: str, preset: Preset) -> str:
    rows = [f"| [`{key}`](#{key.lower()}) | {value.text} | {value.why} |" for key, value in preset.values.items()]
    rows += [f"| [`{key}`](#{key.lower()}) | **give it** | {why} |" for key, why in preset.to_measure.items()]
    return (
        f"#### Preset `{name}`\n\n{preset.purpose}\n\n"
        "| key | value | why |\n| --- | --- | --- |\n" + "\n".join(rows) + "\n"
    )


def _default(field: FieldInfo) -> str:
    return "**required**" if field.is_required() else default_text(field)


def _allowed(field: FieldInfo) -> str:
    kind = kind_of(field)
    word = f", or {kind.word}" if kind.word else ""
    return (allowed_range(field).removeprefix(" from ") or kind.noun) + word


def _unwrapped(docstring: str) -> str:
    paragraphs = docstring.split("\n\n")
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in paragraphs)


if __name__ == "__main__":
    write_pages(Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER)
