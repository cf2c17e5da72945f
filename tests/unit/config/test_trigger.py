import dataclasses
from collections.abc import Callable

import pytest

from scaler.config.trigger import Trigger, fingerprint, parse_trigger
from scaler.model import (
    LabelMatcher,
    PoolKey,
    PoolLocator,
    PoolPolicy,
    SignalForm,
    SignalName,
    SignalPolicy,
    SignalWindows,
    Workload,
    WorkloadKind,
)

Parse = Callable[..., Trigger]


def test_a_trigger_with_the_two_needed_keys_gets_the_laws_defaults(parse: Parse) -> None:
    windows = SignalWindows(4, 20)

    policy = parse().policy

    assert policy == PoolPolicy(
        locator=PoolLocator("serving", None, Workload(WorkloadKind.DEPLOYMENT, "vllm"), (), 60.0, 90.0),
        tick_s=15.0,
        slots_per_replica=16,
        signals=(
            SignalPolicy(SignalName.SATURATION, SignalForm.SATURATION, 0.9, 0.8, windows, "requests"),
            SignalPolicy(SignalName.KV_CACHE, SignalForm.KV_CACHE, 0.9, 0.7, windows, "ratio"),
            SignalPolicy(SignalName.TTFT_P95, SignalForm.LATENCY, 2.5, 0.6, windows, "seconds", 20),
        ),
        scale_down_noise=3.0,
        latency_min_saturation=0.5,
        drain_horizon_s=60.0,
        scale_up_cooldown_s=30.0,
        scale_down_cooldown_s=120.0,
        max_step_up=4,
        max_step_down=1,
        min_replicas=1,
        max_replicas=100,
        warm_replicas=0,
        replica_hourly_cost=None,
        max_hourly_cost=None,
        cold_start_timeout_s=600.0,
        rollout_hold_s=300.0,
        protect_queue_wait_s=30.0,
        hpa_tolerance=0.1,
        activation=None,
        preset="",
    )


@pytest.mark.parametrize(
    ("key", "text", "field", "value"),
    [
        ("slotsPerReplica", " 8 ", "slots_per_replica", 8),
        ("slotsPerReplica", "8.0", "slots_per_replica", 8),
        ("slotsPerReplica", "+8", "slots_per_replica", 8),
        ("slotsPerReplica", "1e2", "slots_per_replica", 100),
        ("slotsPerReplica", "65536", "slots_per_replica", 65536),
        ("latencyMinSaturation", ".95", "latency_min_saturation", 0.95),
        ("drainHorizonSeconds", "1", "drain_horizon_s", 1.0),
        ("protectQueueWaitSeconds", "750ms", "protect_queue_wait_s", 0.75),
        ("scaleUpCooldownSeconds", "1m30s", "scale_up_cooldown_s", 90.0),
        ("scaleDownCooldownSeconds", "0", "scale_down_cooldown_s", 0.0),
        ("scaleDownNoise", "0", "scale_down_noise", 0.0),
        ("warmReplicas", "2", "warm_replicas", 2),
        ("replicaHourlyCost", "2.5", "replica_hourly_cost", 2.5),
        ("coldStartTimeoutSeconds", "20m", "cold_start_timeout_s", 1200.0),
        ("rolloutHoldSeconds", "0", "rollout_hold_s", 0.0),
        ("hpaTolerance", "0", "hpa_tolerance", 0.0),
    ],
)
def test_a_number_is_read_however_it_is_commonly_written(
    parse: Parse, key: str, text: str, field: str, value: float
) -> None:
    read = getattr(parse(**{key: text}).policy, field)

    assert read == value
    assert type(read) is type(value)


@pytest.mark.parametrize(("slots", "saturation"), [("1", 1.0), ("15", 1.0), ("16", 0.9), ("256", 0.9)])
def test_the_default_scale_up_saturation_is_lower_from_16_slots_on(parse: Parse, slots: str, saturation: float) -> None:
    assert parse(slotsPerReplica=slots).policy.signals[0].scale_up == saturation


def test_a_signals_own_windows_go_before_the_general_ones(parse: Parse) -> None:
    policy = parse(
        scaleUpWindows="6",
        scaleDownWindows="30",
        saturationScaleUpWindows="2",
        kvCacheScaleDownWindows="40",
        ttftScaleUpWindows="8",
        ttftScaleDownWindows="9",
        waitingPerReplica="4",
    ).policy

    assert {signal.name: signal.windows for signal in policy.signals} == {
        SignalName.SATURATION: SignalWindows(2, 30),
        SignalName.KV_CACHE: SignalWindows(6, 40),
        SignalName.TTFT_P95: SignalWindows(8, 9),
        SignalName.WAITING: SignalWindows(6, 30),
    }


@pytest.mark.parametrize(
    ("key", "kind"),
    [
        ("deployment", WorkloadKind.DEPLOYMENT),
        ("statefulSet", WorkloadKind.STATEFUL_SET),
        ("leaderWorkerSet", WorkloadKind.LEADER_WORKER_SET),
    ],
)
def test_each_kind_of_workload_can_name_the_pool(parse: Parse, key: str, kind: WorkloadKind) -> None:
    locator = parse(**{"deployment": None, key: "vllm-7b.v2"}).policy.locator

    assert locator.workload == Workload(kind, "vllm-7b.v2")


def test_a_model_without_a_workload_works_with_a_warning(parse: Parse) -> None:
    trigger = parse(deployment=None, modelName="meta-llama/Llama-3.1-8B-Instruct")

    assert trigger.policy.locator.model_name == "meta-llama/Llama-3.1-8B-Instruct"
    assert trigger.warnings == (
        (
            "no deployment, statefulSet or leaderWorkerSet is named, so requested and starting replicas cannot be read:"
            " replicas that report metrics are counted in their place"
        ),
    )


def test_a_selector_becomes_label_matchers(parse: Parse) -> None:
    assert parse(selector='{job="vllm",cluster=~"a|b"}').policy.locator.matchers == (
        LabelMatcher("cluster", "=~", "a|b"),
        LabelMatcher("job", "=", "vllm"),
    )


def test_a_key_may_come_from_an_environment_variable(parse: Parse) -> None:
    assert parse(slotsPerReplica=None, slotsPerReplicaFromEnv="24").policy.slots_per_replica == 24


def test_the_same_value_given_both_ways_is_no_conflict(parse: Parse) -> None:
    assert parse(slotsPerReplica="24", slotsPerReplicaFromEnv=" 24").policy.slots_per_replica == 24


def test_kedas_own_keys_are_left_alone(parse: Parse) -> None:
    trigger = parse(scalerAddress="scaler:50051", enableTLS="true", unsafeSsl="false", tlsCertFile="/a")

    assert dataclasses.replace(trigger, key=parse().key) == parse()


def test_tls_secrets_in_metadata_are_warned_of_and_not_repeated(parse: Parse) -> None:
    trigger = parse(tlsClientKey="-----BEGIN PRIVATE KEY-----", caCertFromEnv="-----BEGIN CERTIFICATE-----")

    assert trigger.warnings == (
        (
            "caCertFromEnv, tlsClientKey in metadata: KEDA does not use them there, and everybody who may read the"
            " ScaledObject can; put them into a TriggerAuthentication"
        ),
    )


def test_a_pools_key_names_namespace_scaled_object_and_trigger(parse: Parse) -> None:
    key = parse().key

    assert key == PoolKey("serving", "vllm", fingerprint({"deployment": "vllm", "slotsPerReplica": "16"}))
    assert len(key.trigger) == 8
    assert int(key.trigger, 16) >= 0


def test_a_fingerprint_does_not_depend_on_order_kedas_keys_or_secrets() -> None:
    plain = {"deployment": "vllm", "slotsPerReplica": "16"}
    other = {"slotsPerReplica": "16", "scalerAddress": "a:1", "enableTLS": "true", "caCert": "x", "deployment": "vllm"}

    assert fingerprint(plain) == fingerprint(other)


def test_a_fingerprint_tells_values_and_keys_apart() -> None:
    prints = {
        fingerprint(metadata)
        for metadata in ({}, {"a": "b"}, {"a": "bc"}, {"ab": "c"}, {"a": "b", "c": "d"}, {"a": 'b","c":"d'})
    }

    assert len(prints) == 6


def test_a_renamed_namespace_label_is_the_one_that_selectors_must_leave_alone() -> None:
    metadata = {"deployment": "vllm", "slotsPerReplica": "16", "selector": 'namespace="x"'}

    trigger = parse_trigger("serving", "vllm", metadata, tick_s=15.0, namespace_label="kubernetes_namespace")

    assert trigger.policy.locator.matchers == (LabelMatcher("namespace", "=", "x"),)
