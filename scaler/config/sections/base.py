"""What all sections have in common."""

from typing import ClassVar

from pydantic import BaseModel, ConfigDict, ValidationInfo
from pydantic_core import PydanticCustomError

from scaler.config.problems import Given, cross_field
from scaler.units import format_number


def key_of(name: str) -> str:
    """Return a field's key: ttft_p95_seconds -> ttftP95Seconds, e2e_p95_seconds -> e2eP95Seconds."""
    first, *others = name.split("_")
    return first + "".join(word.capitalize() for word in others)


class Section(BaseModel):
    """What the sections of a trigger's metadata have in common."""

    model_config: ClassVar[ConfigDict] = ConfigDict(frozen=True, extra="forbid", alias_generator=key_of)


def not_below(info: ValidationInfo, down_key: str, down: float, up_key: str, up: float) -> PydanticCustomError:
    """Return the error of a scale-down value that is not below the scale-up value.

    Args:
        info: Of the validator that found it.
        down_key: The key that scales down.
        down: Its value.
        up_key: The key that scales up.
        up: Its value.
    """
    show = Given.of(info).show
    shown_down, shown_up = show(down_key, format_number(down)), show(up_key, format_number(up))
    return cross_field(f"{shown_down} must be below {shown_up}, so that a dead band lies between them")
