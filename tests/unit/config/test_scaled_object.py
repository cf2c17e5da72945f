import json
from pathlib import Path
from textwrap import dedent

import pytest

from scaler.config.scaled_object import WrittenTrigger, read_scaled_objects
from scaler.errors import ConfigError

TRIGGER = {"scalerAddress": "scaler:50051", "deployment": "vllm", "modelName": "llama", "slotsPerReplica": "16"}
ONE = """\
apiVersion: keda.sh/v1alpha1
kind: ScaledObject
metadata: {name: vllm-llama, namespace: serving}
spec:
  triggers:
    - type: cron
      metadata: {start: 0 6 * * *}
    - type: external
      metadata: {scalerAddress: "scaler:50051", deployment: vllm, modelName: llama, slotsPerReplica: "16"}
"""


def read(tmp_path: Path, text: str) -> tuple[WrittenTrigger, ...]:
    file = tmp_path / "pool.yaml"
    file.write_text(dedent(text))
    return read_scaled_objects(file, namespace="elsewhere")


def problems(tmp_path: Path, text: str) -> tuple[str, ...]:
    with pytest.raises(ConfigError) as caught:
        read(tmp_path, text)
    return caught.value.problems


def test_the_external_trigger_is_found_with_its_place(tmp_path: Path) -> None:
    (found,) = read(tmp_path, ONE)
    assert found == WrittenTrigger(
        "pool", f'{tmp_path}/pool.yaml: ScaledObject "vllm-llama", trigger 2', "serving", "vllm-llama", TRIGGER
    )
    assert found.read(tick_s=15.0).policy.slots_per_replica == 16


def test_the_json_list_that_kubectl_writes_is_read_too(tmp_path: Path) -> None:
    trigger = {"type": "external-push", "metadata": TRIGGER}
    item = {"kind": "ScaledObject", "metadata": {"name": "vllm"}, "spec": {"triggers": [trigger, trigger]}}
    found = read(tmp_path, json.dumps({"kind": "List", "items": [item, {"kind": "Deployment"}]}))
    assert [(one.name, one.namespace) for one in found] == [("pool#1", "elsewhere"), ("pool#2", "elsewhere")]


def test_several_documents_are_read(tmp_path: Path) -> None:
    found = read(tmp_path, f"{ONE}---\nkind: Service\n---\n{ONE.replace('vllm-llama', 'other')}")
    assert [one.scaled_object for one in found] == ["vllm-llama", "other"]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "pool.yaml: there is no ScaledObject with a trigger of type external in it"),
        ("- a\n- 1\n", "pool.yaml: there is no ScaledObject with a trigger of type external in it"),
        ("kind: ScaledObject\nspec: {triggers: 3}\n", "there is no ScaledObject with a trigger of type external in it"),
        ("kind: ScaledObject\nspec: {triggers: [{type: cron}]}\n", "there is no ScaledObject with a trigger of"),
        ("kind: ScaledObject\nspec: {triggers: [{type: external}]}\n", 'ScaledObject "", trigger 1: metadata is not a'),
        ("a: [\n", "pool.yaml is not YAML: line 2, column 1"),
        (
            ONE.replace('slotsPerReplica: "16"', "slotsPerReplica: [16]"),
            'ScaledObject "vllm-llama", trigger 2: slotsPerReplica is not a text',
        ),
    ],
)
def test_a_file_without_a_policy_says_what_is_wrong_with_it(tmp_path: Path, text: str, problem: str) -> None:
    (found,) = problems(tmp_path, text)
    assert str(tmp_path) in found
    assert problem in found


def test_what_is_wrong_in_metadata_names_file_key_and_value(tmp_path: Path) -> None:
    (written,) = read(tmp_path, ONE.replace('slotsPerReplica: "16"', "slotsPerReplica: many, slotPerReplica: '4'"))
    with pytest.raises(ConfigError) as caught:
        written.read(tick_s=15.0)
    place = f'{tmp_path}/pool.yaml: ScaledObject "vllm-llama", trigger 2: '
    assert [problem.removeprefix(place) for problem in caught.value.problems] == [
        'the key "slotPerReplica" is not known: did you mean slotsPerReplica?',
        'slotsPerReplica "many" is not a whole number from 1 to 65536',
    ]


def test_a_change_stands_beside_where_the_trigger_stands(tmp_path: Path) -> None:
    (written,) = read(tmp_path, ONE)
    lean = written.changed({"slotsPerReplica": "x"}, name="lean", where="--variant lean")
    assert lean.name == "lean"
    with pytest.raises(ConfigError, match=r'trigger 2, --variant lean: slotsPerReplica "x" is not a whole number'):
        lean.read(tick_s=15.0)
    assert written.metadata == TRIGGER


def test_what_keda_looks_up_in_the_container_has_to_be_given(tmp_path: Path) -> None:
    (written,) = read(tmp_path, ONE.replace('slotsPerReplica: "16"', "slotsPerReplicaFromEnv: SLOTS"))
    with pytest.raises(ConfigError, match=r"slotsPerReplicaFromEnv is looked up .* --set slotsPerReplica=VALUE"):
        written.read(tick_s=15.0)
    assert written.changed({"slotsPerReplica": "8"}).read(tick_s=15.0).policy.slots_per_replica == 8
