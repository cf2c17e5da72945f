"""Kinds of values that several commands take."""

import click

from scaler.units import format_duration, parse_duration_s


class Duration(click.ParamType[float]):
    """A duration such as 90, 90s or 3m, at least so long."""

    name = "duration"

    def __init__(self, least_s: float = 0.0) -> None:
        self._least_s = least_s

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Return seconds."""
        if isinstance(value, float):
            return value
        try:
            seconds = parse_duration_s(str(value))
        except ValueError as error:
            self.fail(str(error), param, ctx)
        if seconds < self._least_s:
            self.fail(f"{value} is too short: at least {format_duration(self._least_s)}", param, ctx)
        return seconds
