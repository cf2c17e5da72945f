"""The keys of a trigger: what each one means, its default and its range.

This and ``scaler.config.sections`` are the one source of truth: validation, error texts and
docs/reference/trigger-metadata.md all follow from them.
"""

from typing import Final

from scaler.config.problems import defaults
from scaler.config.sections.base import Section, key_of
from scaler.config.sections.conditions import Hpa, Starting
from scaler.config.sections.limits import Cost, Limits, ScaleToZero
from scaler.config.sections.optional import OptionalSignals
from scaler.config.sections.pool import Pool, Reading, StartingPoint
from scaler.config.sections.signals import Capacity, KvCache, Latency
from scaler.config.sections.windows import Windows

SECTIONS: Final[tuple[tuple[str, type[Section]], ...]] = (
    ("Finding the pool", Pool),
    ("Presets", StartingPoint),
    ("Capacity and saturation", Capacity),
    ("KV cache", KvCache),
    ("Latency", Latency),
    ("Optional signals", OptionalSignals),
    ("Windows", Windows),
    ("Scaling to zero", ScaleToZero),
    ("Limits", Limits),
    ("Cost", Cost),
    ("Starting, rollouts and protection", Starting),
    ("HPA", Hpa),
    ("Reading Prometheus", Reading),
)
"""The sections in the order of the reference page, with their titles."""


# pydantic reads fields from the last class to the first, and a check can look only at keys that were read before.
class TriggerMetadata(
    Reading,
    Hpa,
    Starting,
    Cost,
    Limits,
    ScaleToZero,
    Windows,
    OptionalSignals,
    Latency,
    KvCache,
    Capacity,
    StartingPoint,
    Pool,
):
    """All keys of a trigger, read and checked."""


FIELDS: Final = {key_of(name): field for _, section in SECTIONS for name, field in section.model_fields.items()}
"""Every key as users write it, in the order of the reference page."""
DEFAULTS: Final = defaults(FIELDS)
"""The fixed defaults by key."""
