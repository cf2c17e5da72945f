"""Checks of which keys of a trigger are given together; what their values are does not matter here."""

from collections.abc import Iterator

from scaler.config.kinds import OFF, is_off, only_with
from scaler.config.metadata import FIELDS
from scaler.config.problems import Given
from scaler.model import WorkloadKind


def problems_together(given: Given) -> list[str]:
    """Return a sentence for each thing that is wrong with the keys that are given together."""
    return [*_naming(given), *_without_effect(given)]


def _naming(given: Given) -> Iterator[str]:
    workloads = [kind.value for kind in WorkloadKind if kind.value in given.texts]
    if len(workloads) > 1:
        shown = " and ".join(given.show(key, "") for key in workloads)
        yield f"{shown} are given together: keep the one that the ScaledObject scales"
    if not workloads and "modelName" not in given.texts:
        yield "nothing names the pool: give modelName or one of deployment, statefulSet, leaderWorkerSet"


def _without_effect(given: Given) -> Iterator[str]:
    for key in (key for key in FIELDS if key in given.texts):
        needed = only_with(FIELDS[key])
        if not needed or any(_is_on(given, other) for other in needed):
            continue
        # Preferably with what the user has written: that is what has to be changed, or this.
        switched_off = [other for other in needed if given.chosen(other) is not None]
        if switched_off:
            shown = " and ".join(given.show(other, OFF) for other in switched_off)
            yield f"{given.show(key, '')} has no effect with {shown}: keep one of them"
        else:
            either = f"one of {', '.join(needed)}" if len(needed) > 1 else needed[0]
            yield f"{given.show(key, '')} needs {either} beside it"


def _is_on(given: Given, key: str) -> bool:
    chosen = given.chosen(key)
    return bool(FIELDS[key].default) if chosen is None else not is_off(chosen)
