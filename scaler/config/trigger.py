"""Trigger metadata, as KEDA sends it, to the pool that it names and the policy that it sets.

KEDA copies every key of a trigger's metadata, its own included. A key that ends in FromEnv arrives with the suffix kept
and the value looked up in the workload's container, and does not arrive at all when the variable is not set there.
"""

import hashlib
import json
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from pydantic import ValidationError

from scaler.config.kinds import OFF, is_kubernetes_name, is_namespace, read_word
from scaler.config.metadata import DEFAULTS, FIELDS, TriggerMetadata
from scaler.config.presets import PRESETS
from scaler.config.problems import Given, config_error, nearest, quoted, sentences
from scaler.config.sections.backend import URL_REFUSED
from scaler.config.signals import extras_of, signals_of
from scaler.config.together import problems_together
from scaler.model import DEFAULT_BACKEND, PoolKey, PoolLocator, PoolPolicy, Workload, WorkloadKind
from scaler.policy.diagnostics import objectives_off_bounds

KEDA_KEYS: Final = frozenset({"scalerAddress", "enableTLS", "unsafeSsl", "tlsCertFile"})
"""What KEDA's external scaler reads from metadata for itself (tlsCertFile until 2.16)."""
FROM_ENV: Final = "FromEnv"
"""The end of a key whose value KEDA looks up in the workload's container."""
KEY_LIMIT: Final = 80
"""Keys of one trigger, KEDA's own included; twenty more than there are."""
VALUE_LENGTH: Final = 2048
"""Characters of one value; the longest that is allowed, a selector, has half of that."""

_WHERE: Final = "the trigger's metadata"
_TLS_KEYS: Final = ("caCert", "tlsClientCert", "tlsClientKey")
SECRET_KEYS: Final = frozenset(_TLS_KEYS) | {key + FROM_ENV for key in _TLS_KEYS}
"""Keys that hold secrets; KEDA reads none of them from metadata."""
_URL_KEYS: Final = ("prometheus", "serveraddress", "url", "endpoint", "thanos", "mimir", "victoriametrics")
_SCALED_OBJECT_KEYS: Final = frozenset(
    {"pollingInterval", "cooldownPeriod", "initialCooldownPeriod", "idleReplicaCount", "metricType", "useCachedMetrics"}
)
_NO_WORKLOAD: Final = (
    "no deployment, statefulSet or leaderWorkerSet is named, so requested and starting replicas cannot be read:"
    " replicas that report metrics are counted in their place"
)


@dataclass(frozen=True, slots=True)
class Trigger:
    """One trigger, read and checked; ``warnings`` are sentences about what works but is probably not meant."""

    key: PoolKey
    policy: PoolPolicy
    warnings: tuple[str, ...]


def parse_trigger(
    namespace: str,
    scaled_object: str,
    metadata: Mapping[str, str],
    *,
    tick_s: float,
    namespace_label: str = "namespace",
    queries: Collection[str] = (),
    backends: Collection[str] = (DEFAULT_BACKEND,),
) -> Trigger:
    """Read one trigger's metadata.

    Args:
        namespace: The ScaledObject's namespace; the pool's series are looked for in it alone.
        scaled_object: The ScaledObject's name.
        metadata: The trigger's metadata as KEDA sends it, camelCase keys and text values.
        tick_s: The service's evaluation interval, seconds.
        namespace_label: The label that holds a series' namespace.
        queries: The names of the queries that the service's operator has named.
        backends: The names of the Prometheus backends that the service's operator has named.

    Returns:
        The pool's key and policy, and warnings for the user.

    Raises:
        ConfigError: With all that is wrong; its text fits into a Kubernetes event.
    """
    problems = _bad_identity(namespace, scaled_object)
    if len(metadata) > KEY_LIMIT:
        problems.append(f"there are {len(metadata)} keys, and {KEY_LIMIT} are allowed")
        raise config_error(problems, _WHERE)
    texts, names = _known_values(metadata, problems)
    name = read_word(texts.get("preset", ""))
    preset = PRESETS[name].texts if name in PRESETS else {}
    given = Given(texts, names, namespace_label, queries, name, preset, backends)
    parsed: TriggerMetadata | None = None
    try:
        parsed = TriggerMetadata.model_validate(DEFAULTS | preset | texts, context=given)
    except ValidationError as error:
        problems += sentences(error, FIELDS, given)
    problems += problems_together(given)
    if problems or parsed is None:
        raise config_error(problems, _WHERE)
    policy = _policy(parsed, namespace, tick_s)
    return Trigger(
        key=PoolKey(namespace, scaled_object, fingerprint(metadata)),
        policy=policy,
        warnings=tuple(_warnings(metadata, parsed, policy, given)),
    )


def fingerprint(metadata: Mapping[str, str]) -> str:
    """Return 8 hexadecimal digits that tell the triggers of one ScaledObject apart.

    The order of keys does not matter, nor do keys that KEDA reads for itself or that hold secrets.
    """
    own = sorted((key, value) for key, value in metadata.items() if key not in KEDA_KEYS | SECRET_KEYS)
    return hashlib.sha256(json.dumps(own).encode("ascii")).hexdigest()[:8]


def _bad_identity(namespace: str, scaled_object: str) -> list[str]:
    problems = []
    if not is_namespace(namespace):
        problems.append(f"the ScaledObject's namespace {quoted(namespace)} is not a Kubernetes namespace")
    if not is_kubernetes_name(scaled_object):
        problems.append(f"the ScaledObject's name {quoted(scaled_object)} is not a Kubernetes name")
    return problems


def _known_values(metadata: Mapping[str, str], problems: list[str]) -> tuple[dict[str, str], dict[str, str]]:
    """Return values and written names by known key; what is not known or not clear goes to ``problems``."""
    texts: dict[str, str] = {}
    names: dict[str, str] = {}
    for written in sorted(metadata.keys() - KEDA_KEYS - SECRET_KEYS):
        key = written if written in FIELDS else written.removesuffix(FROM_ENV)
        value = metadata[written].strip()
        if key not in FIELDS:
            problems.append(_unknown(written))
        elif len(value) > VALUE_LENGTH:
            problems.append(f"{written} has {len(value)} characters, and {VALUE_LENGTH} are allowed")
        elif key in texts and texts[key] != value:
            problems.append(
                f"{names[key]} {quoted(texts[key])} and {written} {quoted(value)} differ and mean the same: keep one"
            )
        elif key not in texts:
            texts[key], names[key] = value, written
    return texts, names


def _unknown(written: str) -> str:
    shown = f"the key {quoted(written)}"
    folded = written.lower()
    if written in _SCALED_OBJECT_KEYS:
        return f"{shown} does not belong in metadata: it stands elsewhere in the ScaledObject"
    if any(word in folded for word in _URL_KEYS):
        return f"{shown} {URL_REFUSED}"
    suffix = FROM_ENV if folded.endswith(FROM_ENV.lower()) else ""
    meant = nearest(written[: len(written) - len(suffix)], FIELDS)
    return f"{shown} is not known" + (f": did you mean {meant}{suffix}?" if meant else "")


def _warnings(metadata: Mapping[str, str], parsed: TriggerMetadata, policy: PoolPolicy, given: Given) -> Iterator[str]:
    if policy.locator.workload is None:
        yield _NO_WORKLOAD
    if secrets := sorted(metadata.keys() & SECRET_KEYS):
        yield (
            f"{', '.join(secrets)} in metadata: KEDA does not use them there, and everybody who may read the"
            " ScaledObject can; put them into a TriggerAuthentication"
        )
    if parsed.preset is not None:
        for key in (key for key in PRESETS[parsed.preset].to_measure if key not in given.texts):
            yield f"preset {parsed.preset} also scales on {key}, which has no default: measure it, and give it or {OFF}"
    if "scaleUpSaturation" in given.texts and parsed.up_saturation > 1:
        yield f"{given.show('scaleUpSaturation', '')} is above 1, so requests wait before the pool grows"
    yield from (reason.text for reason in objectives_off_bounds(policy))
    affordable = policy.affordable_replicas
    if affordable is not None and "maxReplicas" in given.texts and affordable < policy.max_replicas:
        yield f"{given.show('maxReplicas', '')} is never reached: maxHourlyCost pays for {affordable}"
    if parsed.activation_signal is not None and parsed.min_replicas > 0:
        shown = given.show("minReplicas", str(parsed.min_replicas))
        yield f"{given.show('activationSignal', '')} has no effect with {shown}: it wakes pools that go to 0"


def _policy(parsed: TriggerMetadata, namespace: str, tick_s: float) -> PoolPolicy:
    signals = signals_of(parsed)
    activation = parsed.activation_signal if parsed.min_replicas == 0 else None
    return PoolPolicy(
        locator=PoolLocator(
            namespace=namespace,
            model_name=parsed.model_name,
            workload=_workload(parsed),
            matchers=parsed.selector,
            rate_window_s=parsed.rate_window_seconds,
            stale_after_s=parsed.stale_after_seconds,
            extras=extras_of(signals, activation, restarts=parsed.restart_hold_seconds > 0),
            restart_window_s=parsed.restart_hold_seconds,
            backend=parsed.prometheus,
        ),
        tick_s=tick_s,
        slots_per_replica=parsed.slots_per_replica,
        signals=signals,
        scale_down_noise=parsed.scale_down_noise,
        latency_min_saturation=parsed.latency_min_saturation,
        drain_horizon_s=parsed.drain_horizon_seconds,
        scale_up_cooldown_s=parsed.scale_up_cooldown_seconds,
        scale_down_cooldown_s=parsed.scale_down_cooldown_seconds,
        max_step_up=parsed.max_step_up,
        max_step_down=parsed.max_step_down,
        min_replicas=parsed.min_replicas,
        max_replicas=parsed.max_replicas,
        warm_replicas=parsed.warm_replicas,
        replica_hourly_cost=parsed.replica_hourly_cost,
        max_hourly_cost=parsed.max_hourly_cost,
        cold_start_timeout_s=parsed.cold_start_timeout_seconds,
        rollout_hold_s=parsed.rollout_hold_seconds,
        protect_queue_wait_s=parsed.protect_queue_wait_seconds,
        hpa_tolerance=parsed.hpa_tolerance,
        activation=activation,
        preset=parsed.preset or "",
    )


def _workload(parsed: TriggerMetadata) -> Workload | None:
    names = {
        WorkloadKind.DEPLOYMENT: parsed.deployment,
        WorkloadKind.STATEFUL_SET: parsed.stateful_set,
        WorkloadKind.LEADER_WORKER_SET: parsed.leader_worker_set,
    }
    return next((Workload(kind, name) for kind, name in names.items() if name is not None), None)
