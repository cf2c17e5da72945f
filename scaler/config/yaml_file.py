"""YAML files that people write, read within bounds: values stay text, lists and mappings, whatever they look like."""

from pathlib import Path
from typing import Any, Final

import yaml

from scaler.config.problems import config_error, escaped

FILE_LIMIT_BYTES: Final = 1 << 20
"""All settings take 2 KiB, and an object of Kubernetes at most 1 MiB; a larger file is some other file."""


def read_documents(path: Path, what: str, *, about: str) -> list[Any]:
    """Read all documents of a YAML file; an empty one is None or "".

    Args:
        path: The file.
        what: What it should be, such as "settings file".
        about: What an error is about, such as "the settings".

    Raises:
        ConfigError: The file cannot be read, is too large, or is not YAML.
    """
    where = f"{what} {escaped(str(path))}"
    try:
        with path.open("rb") as file:
            content = file.read(FILE_LIMIT_BYTES + 1)
    except OSError as error:
        raise config_error([f"{where} cannot be read: {error.strerror}"], about) from error
    if len(content) > FILE_LIMIT_BYTES:
        raise config_error([f"{where} is larger than 1 MiB, so it is hardly a {what}"], about)
    try:
        return list(yaml.load_all(content, Loader=yaml.BaseLoader))
    except yaml.YAMLError as error:
        raise config_error([f"{where} is not YAML{_place(error)}"], about) from error
    except RecursionError as error:
        raise config_error([f"{where} is nested too deeply"], about) from error


def _place(error: yaml.YAMLError) -> str:
    if isinstance(error, yaml.MarkedYAMLError) and error.problem_mark is not None:
        mark = error.problem_mark
        return f": line {mark.line + 1}, column {mark.column + 1}: {escaped(error.problem or 'cannot be read')}"
    return f": {escaped(str(error))}"
