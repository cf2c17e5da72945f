"""Where the service's settings come from: flag before environment before file before default.

An empty value counts as not given, so that a template may leave one blank.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pydantic import ValidationError

from scaler.config.backends import DEFAULT_PREFIX, SECRETIVE, access_problems, narrowing_problems
from scaler.config.problems import Given, config_error, defaults, escaped, nearest, quoted, sentences
from scaler.config.server import FIELDS, FILE_ONLY, FLAGS, ServerSettings
from scaler.config.server_base import without_credentials
from scaler.config.yaml_file import read_documents

ENV_PREFIX: Final = "VLLM_SCALER_"
CONFIG_ENV: Final = f"{ENV_PREFIX}CONFIG"
"""The environment variable that names the settings file, as the flag --config does."""

# Kubernetes sets these in every pod of a namespace for a Service whose name begins with vllm-scaler ("service links").
_SERVICE_LINK_NAME: Final = re.compile(r"\w*(?:SERVICE_HOST|SERVICE_PORT\w*|PORT_[0-9]+_(?:TCP|UDP|SCTP)\w*)")
_SERVICE_LINK_VALUE: Final = re.compile(r"(?:tcp|udp|sctp)://.*")


@dataclass(frozen=True, slots=True)
class LoadedSettings:
    """Settings, and sentences about what was ignored on the way."""

    settings: ServerSettings
    warnings: tuple[str, ...] = ()


def flag_name(field: str) -> str:
    """Return a setting's flag: grpc_port -> --grpc-port."""
    return f"--{field.replace('_', '-')}"


def env_name(field: str) -> str:
    """Return a setting's environment variable: grpc_port -> VLLM_SCALER_GRPC_PORT."""
    return ENV_PREFIX + field.upper()


def load_settings(
    flags: Mapping[str, object], env: Mapping[str, str], file_values: Mapping[str, object]
) -> LoadedSettings:
    """Put the settings together and check them.

    Args:
        flags: Values by field name; None where a flag was not given.
        env: The whole environment; what does not begin with ``VLLM_SCALER_`` is left alone.
        file_values: What stands in the settings file, as ``read_settings_file`` returns it.

    Raises:
        ConfigError: With all that is wrong; each problem says where the value came from.
    """
    texts: dict[str, str] = {}
    names: dict[str, str] = {}
    by_env = {env_name(field): field for field in FLAGS}
    sources = (
        ({field: (f"file key {field}", value) for field, value in file_values.items()}),
        ({by_env[name]: (f"environment variable {name}", env[name]) for name in by_env if name in env}),
        ({field: (f"flag {flag_name(field)}", value) for field, value in flags.items()}),
    )
    for source in sources:
        for field, (name, value) in source.items():
            text = "" if value is None else str(value).strip()
            if field in FIELDS and text and not (name.endswith("_PORT") and _SERVICE_LINK_VALUE.fullmatch(text)):
                texts[field], names[field] = text, name
    problems = [_unknown("file key", key, FIELDS) for key in file_values if key not in FIELDS]
    given = Given({field: _shown(field, text) for field, text in texts.items()}, names)
    problems += access_problems(given, DEFAULT_PREFIX)
    # What only a file can hold is no text, so it goes through as it is.
    values = texts | {field: file_values[field] for field in FILE_ONLY & texts.keys()}
    settings: ServerSettings | None = None
    try:
        settings = ServerSettings.model_validate(defaults(FIELDS) | values, context=given)
    except ValidationError as error:
        problems += sentences(error, FIELDS, given)
    else:
        problems += narrowing_problems(settings.every_backend(), settings.queries)
    if problems or settings is None:
        raise config_error(problems, "the settings")
    return LoadedSettings(settings, _warnings(env, by_env))


def read_settings_file(path: Path) -> dict[str, object]:
    """Read a YAML file of settings, one ``name: value`` a line; values stay text, or mappings of text.

    Raises:
        ConfigError: The file cannot be read, is not YAML, or is not a mapping.
    """
    documents = read_documents(path, "settings file", about="the settings")
    where = f"settings file {escaped(str(path))}"
    if len(documents) > 1:
        raise config_error([f"{where} has several documents: write one, without a line ---"], "the settings")
    values = documents[0] if documents else None
    if values is None or values == "":
        return {}
    if not isinstance(values, dict):
        raise config_error(
            [f"{where} is not a mapping: write one setting a line, such as grpc_port: 50051"], "the settings"
        )
    return {str(key): value for key, value in values.items()}


def _shown(field: str, text: str) -> str:
    """Return a value as it may be shown: mappings can hold secrets, such as headers."""
    if field in SECRETIVE:
        return "…"
    return without_credentials(text) if field == "prometheus_url" else text


def _unknown(what: str, name: str, known: Mapping[str, object]) -> str:
    meant = nearest(name, known)
    return f"{what} {quoted(name)} is not known" + (f": did you mean {meant}?" if meant else "")


def _unknown_variable(name: str, by_env: Mapping[str, str]) -> str:
    if (field := name.removeprefix(ENV_PREFIX).lower()) in FILE_ONLY:
        return f"environment variable {name} is not known: {field} stands in the settings file only"
    return _unknown("environment variable", name, by_env)


def _warnings(env: Mapping[str, str], by_env: Mapping[str, str]) -> tuple[str, ...]:
    unknown = sorted(name for name in env if name.startswith(ENV_PREFIX) and name not in {*by_env, CONFIG_ENV})
    return tuple(
        f"{_unknown_variable(name, by_env)}; it is ignored"
        for name in unknown
        if not _SERVICE_LINK_NAME.fullmatch(name) and not _SERVICE_LINK_VALUE.fullmatch(env[name])
    )
