"""A ScaledObject from a file: what KEDA would make of it, and what is said of one that cannot be used."""

from pathlib import Path

import pytest

from scaler.config.scaled_object_hpa import ScaledObject, read_scaled_object
from scaler.errors import ConfigError
from scaler.sim.hpa import Behavior, HpaSpec, PolicyKind, ScalingPolicy, ScalingRules, Select

WHOLE = """
apiVersion: v1
kind: ConfigMap
---
apiVersion: keda.sh/v1alpha1
kind: ScaledObject
metadata: {name: vllm-llama, namespace: serving}
spec:
  minReplicaCount: 2
  maxReplicaCount: 20
  advanced:
    horizontalPodAutoscalerConfig:
      behavior:
        scaleUp:
          stabilizationWindowSeconds: 0
          tolerance: "0"
          selectPolicy: Min
          policies: [{type: Pods, value: 3, periodSeconds: 30}]
        scaleDown: {tolerance: 50m}
  triggers:
    - type: cron
    - type: external
      metadata: {slotsPerReplica: "16", maxReplicas: "20"}
"""
BARE = "kind: ScaledObject\nspec: {triggers: [{type: external-push, metadata: {slotsPerReplica: 16}}]}\n"


def read(folder: Path, text: str) -> ScaledObject:
    file = folder / "scaled-object.yaml"
    file.write_text(text, encoding="utf-8")
    return read_scaled_object(file)


def test_trigger_limits_and_behaviour_are_read(tmp_path: Path) -> None:
    defaults = Behavior()

    found = read(tmp_path, WHOLE)

    assert (found.trigger.namespace, found.trigger.scaled_object) == ("serving", "vllm-llama")
    assert found.trigger.metadata == {"slotsPerReplica": "16", "maxReplicas": "20"}
    assert found.hpa == HpaSpec(
        2,
        20,
        behavior=Behavior(
            up=ScalingRules((ScalingPolicy(PolicyKind.PODS, 3, 30.0),), 0.0, tolerance=0.0, select=Select.MIN),
            down=ScalingRules(defaults.down.policies, 300.0, tolerance=0.05),
        ),
    )


def test_what_is_left_out_is_as_keda_and_the_hpa_have_it(tmp_path: Path) -> None:
    found = read(tmp_path, BARE)

    assert (found.trigger.namespace, found.trigger.metadata) == ("default", {"slotsPerReplica": "16"})
    assert found.hpa == HpaSpec(1, 100, behavior=None)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "there is no ScaledObject with a trigger of type external"),
        (BARE + "---\n" + BARE, "has 2 objects of kind ScaledObject"),
        ("kind: ScaledObject", "there is no ScaledObject with a trigger of type external"),
        (BARE.replace("external-push", "prometheus"), "there is no ScaledObject with a trigger of type external"),
        (BARE.replace("16", "[16]"), "slotsPerReplica is not a text"),
        (BARE.replace("{trig", "{minReplicaCount: some, trig"), 'has minReplicaCount "some", which is not a count'),
        (BARE.replace("{trig", "{maxReplicaCount: 0, trig"), "1 <= min <= max"),
        (BARE.replace("{trig", "{advanced: yes, trig"), "has advanced that is no mapping"),
        (WHOLE.replace("50m", "-1"), 'has tolerance "-1", which is not a quantity from 0 to 1'),
        (WHOLE.replace("type: Pods, ", ""), "is not a valid PolicyKind"),
        (WHOLE.replace("[{type: Pods, value: 3, periodSeconds: 30}]", "[3]"), "a policy of its HPA that is no mapping"),
        (WHOLE.replace("[{type: Pods, value: 3, periodSeconds: 30}]", "[]"), "at least one policy"),
        ("kind: [", "is not YAML"),
        ("[" * 700, "nested too deeply"),
        ("#" * (1 << 20) + "#", "larger than 1 MiB"),
    ],
)
def test_a_file_that_cannot_be_used_is_said_what_is_wrong_with_it(tmp_path: Path, text: str, says: str) -> None:
    with pytest.raises(ConfigError) as raised:
        read(tmp_path, text)

    assert says in str(raised.value)


def test_a_file_that_is_not_there_is_said_to_be_missing(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read: No such file"):
        read_scaled_object(tmp_path / "nowhere.yaml")
