"""The flags of commands that run with the service's settings, made from the settings themselves."""

import functools
import os
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import click

from scaler.config.kinds import default_text
from scaler.config.server import FLAGS
from scaler.config.sources import (
    CONFIG_ENV,
    LoadedSettings,
    env_name,
    flag_name,
    load_settings,
    read_settings_file,
)

_Result = TypeVar("_Result")


def settings_options(command: Callable[[LoadedSettings], _Result]) -> Callable[..., _Result]:
    """Give a command a flag for every setting of a single value, and --config, and call it with the settings they give.

    Args:
        command: Takes the loaded settings.

    Returns:
        A function with click's options on it, to be made a click command. It raises ConfigError when the settings
        cannot be used.
    """

    @functools.wraps(command)
    def with_settings(config: str | None, **flags: str | None) -> _Result:
        path = config or os.environ.get(CONFIG_ENV)
        file_values = read_settings_file(Path(path)) if path else {}
        return command(load_settings(flags, os.environ, file_values))

    decorated: Callable[..., _Result] = with_settings
    # click lists options in the reverse order of their decorators.
    for name, field in reversed(FLAGS.items()):
        text = f"{(field.description or '').replace('`', '')} [{env_name(name)}; default: {default_text(field)}]"
        decorated = click.option(flag_name(name), name, metavar="VALUE", help=text)(decorated)
    text = f"YAML file of settings, such as grpc_port: 50051. Flags and environment go before it. [{CONFIG_ENV}]"
    return click.option("--config", metavar="FILE", help=text)(decorated)
