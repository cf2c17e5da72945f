"""The policies that a person wants to compare: from ScaledObjects, single settings and variations of them."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Final

from scaler.config.scaled_object import WrittenTrigger, read_scaled_objects
from scaler.config.server import ServerSettings
from scaler.config.trigger import Trigger
from scaler.errors import ConfigError
from scaler.model import PoolLocator, Workload

MOST_POLICIES: Final = 8
"""More columns than that cannot be read side by side."""


@dataclass(frozen=True, slots=True)
class NamedPolicy:
    """A policy, and what to call it."""

    name: str
    trigger: Trigger

    @property
    def locator(self) -> PoolLocator:
        """Where its pool's series are."""
        return self.trigger.policy.locator


def written_triggers(
    files: Sequence[Path],
    changes: Mapping[str, str],
    variants: Sequence[tuple[str, Mapping[str, str]]],
    *,
    namespace: str,
) -> tuple[WrittenTrigger, ...]:
    """Return the triggers as they are meant, none of them read yet.

    Args:
        files: ScaledObjects.
        changes: Keys that are set in all of them; without files they are a trigger of their own.
        variants: Names, and keys that differ from the one trigger there is.
        namespace: The namespace of those that name none.

    Raises:
        ConfigError: A file cannot be used, or what was given makes no policies.
    """
    found = [one for file in files for one in read_scaled_objects(file, namespace=namespace)]
    if changes and found:
        found = [one.changed(changes, where="--set") for one in found]
    elif changes:
        found = [WrittenTrigger("settings", "--set", namespace, "backtest", changes)]
    if not found:
        raise ConfigError(("there is no policy to try: give the file of a ScaledObject, or --set KEY=VALUE",))
    if variants and len(found) > 1:
        raise ConfigError((f"--variant varies one policy, and {len(found)} are given: leave one of them",))
    found += [found[0].changed(keys, name=name, where=f"--variant {name}") for name, keys in variants]
    if len(found) > MOST_POLICIES:
        raise ConfigError((f"there are {len(found)} policies, and {MOST_POLICIES} can be compared at once",))
    return _told_apart(found)


def read_policies(
    written: Sequence[WrittenTrigger], settings: ServerSettings, *, tick_s: float
) -> tuple[NamedPolicy, ...]:
    """Read all triggers as the service would.

    Raises:
        ConfigError: With all that is wrong in any of them, and where it stands.
    """
    policies: list[NamedPolicy] = []
    problems: list[str] = []
    for one in written:
        try:
            trigger = one.read(
                tick_s=tick_s,
                namespace_label=settings.namespace_label,
                queries=settings.queries,
                backends=settings.every_backend(),
            )
        except ConfigError as error:
            problems += error.problems
        else:
            policies.append(NamedPolicy(one.name, trigger))
    if problems:
        raise ConfigError(tuple(dict.fromkeys(problems)))
    return tuple(policies)


def pools_of(policies: Sequence[NamedPolicy]) -> tuple[PoolLocator, ...]:
    """Return what has to be read: policies that differ only in further readings share a pool, which has all of them."""
    extras: dict[PoolLocator, set[str]] = {}
    for policy in policies:
        extras.setdefault(_bare(policy.locator), set()).update(policy.locator.extras)
    return tuple(replace(pool, extras=tuple(sorted(names))) for pool, names in extras.items())


def place_of(policy: NamedPolicy, pools: Sequence[PoolLocator]) -> int:
    """Return which of the pools that were read a policy is of.

    Raises:
        ConfigError: None of them; the text says what differs from the one that is most alike.
    """
    wanted = policy.locator
    bare = [_bare(pool) for pool in pools]
    if _bare(wanted) not in bare:
        nearest = min(bare, key=lambda pool: len(_differing(pool, _bare(wanted))))
        what = "; ".join(
            f"{name} {_shown(getattr(wanted, name))} is wanted, {_shown(getattr(nearest, name))} was recorded"
            for name in _differing(nearest, _bare(wanted))
        )
        raise ConfigError((f"the history has not the pool of {policy.name}: {what}",))
    place = bare.index(_bare(wanted))
    if lacking := sorted(set(wanted.extras) - set(pools[place].extras)):
        raise ConfigError(
            (f"the history has no {', '.join(lacking)}, which {policy.name} needs: record it with this policy",)
        )
    return place


def _bare(locator: PoolLocator) -> PoolLocator:
    """Return a pool without its further readings, and with its conditions in one order."""
    conditions = sorted(set(locator.matchers), key=lambda one: (one.label, one.operator, one.value))
    return replace(locator, extras=(), matchers=tuple(conditions))


def _differing(one: PoolLocator, other: PoolLocator) -> list[str]:
    return [field.name for field in fields(PoolLocator) if getattr(one, field.name) != getattr(other, field.name)]


def _shown(part: object) -> str:
    if isinstance(part, Workload):
        return f"{part.kind}/{part.name}"
    if isinstance(part, tuple):
        return ",".join(f'{one.label}{one.operator}"{one.value}"' for one in part) or "none"
    return str(part)


def _told_apart(triggers: Sequence[WrittenTrigger]) -> tuple[WrittenTrigger, ...]:
    """Number those whose name is another's too."""
    often, used = Counter(one.name for one in triggers), Counter[str]()
    found = []
    for one in triggers:
        used[one.name] += 1
        found.append(replace(one, name=f"{one.name} ({used[one.name]})") if often[one.name] > 1 else one)
    return tuple(found)
