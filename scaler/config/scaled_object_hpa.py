"""The HPA that KEDA makes of a ScaledObject in a file."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from scaler.config.problems import config_error, escaped, quoted
from scaler.config.scaled_object import WrittenTrigger, objects_of, read_scaled_objects
from scaler.sim.hpa import Behavior, HpaSpec, PolicyKind, ScalingPolicy, ScalingRules, Select

# KEDA's own default of maxReplicaCount.
_MAX_REPLICAS: Final = "100"
_NAMESPACE: Final = "default"

_Mapping = Mapping[str, object]


@dataclass(frozen=True, slots=True)
class ScaledObject:
    """What of a ScaledObject matters to a simulation: its one external trigger, and the HPA."""

    trigger: WrittenTrigger
    hpa: HpaSpec


def read_scaled_object(path: Path) -> ScaledObject:
    """Read the one ScaledObject of a YAML file, with its one external trigger.

    Raises:
        ConfigError: The file cannot be used, or holds none or several of them.
    """
    where = f"ScaledObject file {escaped(str(path))}"
    triggers = read_scaled_objects(path, namespace=_NAMESPACE)
    objects = objects_of(path)
    for count, what in ((len(objects), "objects of kind ScaledObject"), (len(triggers), "triggers of type external")):
        if count != 1:
            raise config_error([f"{where} has {count} {what}, and one is needed"], where)
    try:
        return ScaledObject(triggers[0], _hpa(_mapping(objects[0], "spec")))
    except ValueError as error:
        raise config_error([f"{where} {error}"], where) from error


def _hpa(spec: _Mapping) -> HpaSpec:
    advanced = _mapping(_mapping(spec, "advanced"), "horizontalPodAutoscalerConfig")
    return HpaSpec(
        # KEDA itself goes from 0 to 1 and back; its HPA has one replica at least.
        min_replicas=max(1, _count(spec, "minReplicaCount", "0")),
        max_replicas=_count(spec, "maxReplicaCount", _MAX_REPLICAS),
        behavior=_behavior(_mapping(advanced, "behavior")),
    )


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
