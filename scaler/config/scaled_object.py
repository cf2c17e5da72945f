"""A ScaledObject as a file: the trigger that is ours, and the HPA that KEDA makes of it."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import yaml

from scaler.config.problems import config_error, escaped, quoted
from scaler.sim.hpa import Behavior, HpaSpec, PolicyKind, ScalingPolicy, ScalingRules, Select

_FILE_LIMIT_BYTES: Final = 1 << 20
_TRIGGER_TYPES: Final = ("external", "external-push")
# KEDA's own default of maxReplicaCount.
_MAX_REPLICAS: Final = "100"

_Mapping = Mapping[str, object]


@dataclass(frozen=True, slots=True)
class ScaledObject:
    """What of a ScaledObject matters to a simulation."""

    namespace: str
    name: str
    metadata: Mapping[str, str]
    """The trigger's metadata."""
    hpa: HpaSpec


def read_scaled_object(path: Path) -> ScaledObject:
    """Read the one ScaledObject with an external trigger in a YAML file.

    Raises:
        ConfigError: The file cannot be read, is not YAML, or has no such object.
    """
    where = f"ScaledObject file {escaped(str(path))}"
    try:
        with path.open("rb") as file:
            content = file.read(_FILE_LIMIT_BYTES + 1)
    except OSError as error:
        raise config_error([f"{where} cannot be read: {error.strerror}"], where) from error
    if len(content) > _FILE_LIMIT_BYTES:
        raise config_error([f"{where} is larger than 1 MiB, so it is hardly a ScaledObject"], where)
    try:
        # BaseLoader makes text, lists and mappings only.
        documents = list(yaml.load_all(content, Loader=yaml.BaseLoader))
        return _scaled_object(_only(documents))
    except yaml.YAMLError as error:
        raise config_error([f"{where} is not YAML: {escaped(str(error))}"], where) from error
    except RecursionError as error:
        raise config_error([f"{where} is nested too deeply"], where) from error
    except ValueError as error:
        raise config_error([f"{where} {error}"], where) from error


def _only(documents: list[object]) -> _Mapping:
    objects = [one for one in documents if isinstance(one, dict) and one.get("kind") == "ScaledObject"]
    if len(objects) != 1:
        raise ValueError(f"has {len(objects)} objects of kind ScaledObject, and one is needed")
    return objects[0]


def _scaled_object(given: _Mapping) -> ScaledObject:
    identity, spec = _mapping(given, "metadata"), _mapping(given, "spec")
    return ScaledObject(
        namespace=str(identity.get("namespace") or "default"),
        name=str(identity.get("name") or ""),
        metadata=_trigger(spec),
        hpa=HpaSpec(
            # KEDA itself goes from 0 to 1 and back; its HPA has one replica at least.
            min_replicas=max(1, _count(spec, "minReplicaCount", "0")),
            max_replicas=_count(spec, "maxReplicaCount", _MAX_REPLICAS),
            behavior=_behavior(
                _mapping(_mapping(_mapping(spec, "advanced"), "horizontalPodAutoscalerConfig"), "behavior")
            ),
        ),
    )


def _trigger(spec: _Mapping) -> Mapping[str, str]:
    triggers = spec.get("triggers")
    ours = [
        one
        for one in (triggers if isinstance(triggers, list) else [])
        if isinstance(one, dict) and one.get("type") in _TRIGGER_TYPES
    ]
    if len(ours) != 1:
        raise ValueError(f"has {len(ours)} triggers of type external in spec.triggers, and one is needed")
    metadata = _mapping(ours[0], "metadata")
    wrong = [key for key, value in metadata.items() if not isinstance(value, str)]
    if wrong:
        raise ValueError(f"has {', '.join(wrong)} in the trigger's metadata, whose values are text")
    return {key: str(value) for key, value in metadata.items()}


def _behavior(given: _Mapping) -> Behavior | None:
    if not given:
        return None
    defaults = Behavior()
    return Behavior(
        up=_rules(_mapping(given, "scaleUp"), defaults.up), down=_rules(_mapping(given, "scaleDown"), defaults.down)
    )


def _rules(given: _Mapping, default: ScalingRules) -> ScalingRules:
    policies = given.get("policies")
    return ScalingRules(
        policies=tuple(_policy(one) for one in policies) if isinstance(policies, list) else default.policies,
        window_s=float(_count(given, "stabilizationWindowSeconds", f"{default.window_s:.0f}")),
        tolerance=_tolerance(given, default.tolerance),
        select=Select(given.get("selectPolicy", default.select.value)),
    )


def _policy(given: object) -> ScalingPolicy:
    if not isinstance(given, dict):
        raise ValueError("has a policy of its HPA that is no mapping")  # noqa: TRY004 - a file's content, not a bug
    return ScalingPolicy(
        PolicyKind(given.get("type")), _count(given, "value", ""), float(_count(given, "periodSeconds", ""))
    )


def _tolerance(given: _Mapping, default: float) -> float:
    """Read a quantity such as "0", "0.05" or "50m"."""
    text = str(given.get("tolerance", default))
    try:
        value = float(text.removesuffix("m")) / (1000 if text.endswith("m") else 1)
    except ValueError:
        value = -1.0
    if not 0 <= value <= 1:
        raise ValueError(f"has tolerance {quoted(text)}, which is not a quantity from 0 to 1")
    return value


def _count(given: _Mapping, key: str, default: str) -> int:
    text = str(given.get(key, default))
    if not text.isdecimal():
        raise ValueError(f"has {key} {quoted(text)}, which is not a count")
    return int(text)


def _mapping(given: _Mapping, key: str) -> _Mapping:
    found = given.get(key) or {}
    if not isinstance(found, dict):
        raise ValueError(f"has {key} that is no mapping")  # noqa: TRY004 - a file's content, not a bug
    return found
