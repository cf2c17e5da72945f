"""The flags of commands that run with the service's settings, made from the settings themselves."""

import functools
import os
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any, TypeVar

import click

from scaler.config.kinds import default_text
from scaler.config.server import FLAGS
from scaler.config.sources import (
    CONFIG_ENV,
    env_name,
    flag_name,
    load_settings,
    read_settings_file,
)

_Result = TypeVar("_Result")


def settings_options(
    command: Callable[..., _Result], *, names: Collection[str] = FLAGS.keys()
) -> Callable[..., _Result]:
    """Give a command a flag for every setting of a single value, and --config, and call it with the settings they give.

    Args:
        command: Takes the loaded settings, and by keyword what other options it has.
        names: The settings that get a flag; the others still have their variable and key.

    Returns:
        A function with click's options on it, to be made a click command. It raises ConfigError when the settings
        cannot be used.
    """

    @functools.wraps(command)
    def with_settings(config: str | None, **given: Any) -> _Result:  # noqa: ANN401 - whatever click made of them
        path = config or os.environ.get(CONFIG_ENV)
        file_values = read_settings_file(Path(path)) if path else {}
        flags = {name: given.pop(name) for name in names}
        return command(load_settings(flags, os.environ, file_values), **given)

    decorated: Callable[..., _Result] = with_settings
    # click lists options in the reverse order of their decorators.
    for name, field in reversed([(name, field) for name, field in FLAGS.items() if name in names]):
        text = f"{(field.description or '').replace('`', '')} [{env_name(name)}; default: {default_text(field)}]"
        decorated = click.option(flag_name(name), name, metavar="VALUE", help=text)(decorated)
    text = f"YAML file of settings, such as grpc_port: 50051. Flags and environment go before it. [{CONFIG_ENV}]"
    return click.option("--config", metavar="FILE", help=text)(decorated)
