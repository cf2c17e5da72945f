from collections.abc import Callable

import pytest

from scaler.config.problems import PROBLEM_LIMIT, TEXT_LIMIT_BYTES
from scaler.config.trigger import Trigger, parse_trigger
from scaler.errors import ConfigError

Parse = Callable[..., Trigger]
Problems = Callable[..., tuple[str, ...]]
WHOLE_1_65536 = "a whole number from 1 to 65536"
DEAD_BAND = "so that a dead band lies between them"
OWN_NAMESPACE = "which always is the ScaledObject's own namespace; leave it out"
NAME = "a Kubernetes name (lower-case letters, digits, - and .; at most 253 characters)"


@pytest.mark.parametrize(
    ("keys", "sentence"),
    [
        ({"slotsPerReplica": None}, f"slotsPerReplica is missing: give {WHOLE_1_65536}"),
        ({"slotsPerReplica": "0"}, f'slotsPerReplica "0" is not {WHOLE_1_65536}'),
        ({"slotsPerReplica": ""}, f'slotsPerReplica "" is not {WHOLE_1_65536}'),
        ({"slotsPerReplica": "8.5"}, f'slotsPerReplica "8.5" is not {WHOLE_1_65536}'),
        ({"slotsPerReplica": "NaN"}, f'slotsPerReplica "NaN" is not {WHOLE_1_65536}'),
        ({"slotsPerReplica": "1_6"}, f'slotsPerReplica "1_6" is not {WHOLE_1_65536}'),
        ({"slotsPerReplica": "\u0668"}, f'slotsPerReplica "\u0668" is not {WHOLE_1_65536}'),
        ({"slotsPerReplica": "0x10"}, f'slotsPerReplica "0x10" is not {WHOLE_1_65536}'),
        ({"slotsPerReplica": "1e400"}, f'slotsPerReplica "1e400" is not {WHOLE_1_65536}'),
        (
            {"slotsPerReplicaFromEnv": "x", "slotsPerReplica": None},
            f'slotsPerReplicaFromEnv "x" is not {WHOLE_1_65536}',
        ),
        ({"kvCacheScaleDown": "inf"}, 'kvCacheScaleDown "inf" is not a number from 0.05 to 1'),
        ({"kvCacheScaleDown": "90"}, 'kvCacheScaleDown "90" is not a number from 0.05 to 1'),
        ({"kvCacheScaleDown": "90%"}, 'kvCacheScaleDown "90%" is not a number from 0.05 to 1'),
        ({"kvCacheScaleUp": "90%"}, 'kvCacheScaleUp "90%" is not a number from 0.05 to 1, or off'),
        (
            {"ttftP95Seconds": "2 weeks"},
            'ttftP95Seconds "2 weeks" is not a duration from 0.01 s to 1 h, such as 90 or 1m30s, or off',
        ),
        (
            {"ttftP95Seconds": "nan"},
            'ttftP95Seconds "nan" is not a duration from 0.01 s to 1 h, such as 90 or 1m30s, or off',
        ),
        (
            {"scaleUpCooldownSeconds": "-1"},
            'scaleUpCooldownSeconds "-1" is not a duration from 0 s to 24 h, such as 90 or 1m30s',
        ),
        ({"minReplicas": "-1"}, 'minReplicas "-1" is not a whole number from 0 to 10000'),
        ({"maxReplicas": "0"}, 'maxReplicas "0" is not a whole number from 1 to 10000'),
        ({"deployment": "Vllm"}, f'deployment "Vllm" is not {NAME}'),
        ({"deployment": "vllm|.*"}, f'deployment "vllm|.*" is not {NAME}'),
        ({"modelName": " "}, 'modelName "" is not one line of text of 1 to 253 characters'),
        ({"modelName": "a\nb"}, 'modelName "a\\nb" is not one line of text of 1 to 253 characters'),
        (
            {"kvCacheScaleDown": "0.95"},
            f'kvCacheScaleDown "0.95" must be below kvCacheScaleUp 0.9 (the default), {DEAD_BAND}',
        ),
        (
            {"kvCacheScaleUp": "0.7"},
            f'kvCacheScaleDown 0.7 (the default) must be below kvCacheScaleUp "0.7", {DEAD_BAND}',
        ),
        (
            {"scaleDownSaturation": "0.9"},
            f'scaleDownSaturation "0.9" must be below scaleUpSaturation 0.9 (the default), {DEAD_BAND}',
        ),
        (
            {"minReplicas": "20", "maxReplicas": "10"},
            'maxReplicas "10" must not be below minReplicas "20"',
        ),
        ({"minReplicas": "200"}, 'maxReplicas 100 (the default) must not be below minReplicas "200"'),
        (
            {"deployment": None},
            "nothing names the pool: give modelName or one of deployment, statefulSet, leaderWorkerSet",
        ),
        (
            {"statefulSet": "other"},
            'deployment "vllm" and statefulSet "other" are given together: keep the one that the ScaledObject scales',
        ),
        (
            {"slotsPerReplicaFromEnv": "8"},
            'slotsPerReplica "16" and slotsPerReplicaFromEnv "8" differ and mean the same: keep one',
        ),
        ({"modelname": "x"}, 'the key "modelname" is not known: did you mean modelName?'),
        ({"model_name": "x"}, 'the key "model_name" is not known: did you mean modelName?'),
        ({"modelnameFromEnv": "x"}, 'the key "modelnameFromEnv" is not known: did you mean modelNameFromEnv?'),
        ({"kvCacheScalUp": "1"}, 'the key "kvCacheScalUp" is not known: did you mean kvCacheScaleUp?'),
        ({"minReplicaCount": "1"}, 'the key "minReplicaCount" is not known: did you mean minReplicas?'),
        ({"zzz": "1"}, 'the key "zzz" is not known'),
        (
            {"serverAddress": "http://evil"},
            'the key "serverAddress" is not allowed: the operator of the scaler chooses the Prometheus, not a trigger',
        ),
        (
            {"prometheusUrl": "http://evil"},
            'the key "prometheusUrl" is not allowed: the operator of the scaler chooses the Prometheus, not a trigger',
        ),
        (
            {"pollingInterval": "5"},
            'the key "pollingInterval" does not belong in metadata: it stands elsewhere in the ScaledObject',
        ),
        (
            {"selector": 'namespace="other"'},
            'selector "namespace="other"" names the label namespace, ' + OWN_NAMESPACE,
        ),
    ],
)
def test_each_mistake_has_its_sentence(problems: Problems, keys: dict[str, str | None], sentence: str) -> None:
    assert problems(**keys) == (sentence,)


def test_all_mistakes_of_a_trigger_are_in_one_error_that_reads_as_one_text(parse: Parse) -> None:
    with pytest.raises(ConfigError) as caught:
        parse(slotsPerReplica="x", scaleUpWindws="3", minReplicas="9", maxReplicas="8")

    assert str(caught.value) == (
        "3 problems in the trigger's metadata:"
        ' (1) the key "scaleUpWindws" is not known: did you mean scaleUpWindows?;'
        f' (2) slotsPerReplica "x" is not {WHOLE_1_65536};'
        ' (3) maxReplicas "8" must not be below minReplicas "9"'
    )


def test_one_mistake_is_not_numbered(parse: Parse) -> None:
    with pytest.raises(ConfigError) as caught:
        parse(slotsPerReplica="x")

    assert str(caught.value) == f'1 problem in the trigger\'s metadata: slotsPerReplica "x" is not {WHOLE_1_65536}'


def test_a_check_across_keys_is_silent_about_a_key_that_is_wrong_itself(problems: Problems) -> None:
    assert problems(kvCacheScaleUp="x", kvCacheScaleDown="1") == (
        'kvCacheScaleUp "x" is not a number from 0.05 to 1, or off',
    )


def test_a_long_value_is_cut_and_its_control_characters_are_escaped(problems: Problems) -> None:
    (problem,) = problems(deployment="\x1b[31m\u202e" + "x" * 500)

    assert problem == f'deployment "\\x1b[31m\\u202e{"x" * 66}…" is not {NAME}'


def test_a_value_beyond_any_that_is_allowed_is_not_read(problems: Problems) -> None:
    assert problems(modelName="x" * 3000) == ("modelName has 3000 characters, and 2048 are allowed",)


def test_more_keys_than_there_are_is_one_problem(problems: Problems) -> None:
    assert problems(**{f"key{number}": "x" for number in range(100)}) == ("there are 102 keys, and 80 are allowed",)


def test_many_problems_are_counted_and_not_listed(parse: Parse) -> None:
    with pytest.raises(ConfigError) as caught:
        parse(**{f"unknown{number:02}": "x" for number in range(50)})

    assert len(caught.value.problems) == PROBLEM_LIMIT
    assert caught.value.problems[-1] == "and 31 more"
    assert str(caught.value).startswith('50 problems in the trigger\'s metadata: (1) the key "unknown00" is not known')
    assert str(caught.value).endswith(" more")
    assert len(str(caught.value).encode()) <= TEXT_LIMIT_BYTES


def test_a_caller_that_names_no_kubernetes_objects_is_told_so() -> None:
    with pytest.raises(ConfigError) as caught:
        parse_trigger('x"} or {a="b', "", {"deployment": "vllm", "slotsPerReplica": "1"}, tick_s=15.0)

    assert caught.value.problems == (
        'the ScaledObject\'s namespace "x"} or {a="b" is not a Kubernetes namespace',
        'the ScaledObject\'s name "" is not a Kubernetes name',
    )


@pytest.mark.parametrize("key", ["tlsClientKey", "tlsClientKeyFromEnv", "tlsclientkey", "caCert", "tlsClientCert"])
def test_a_secret_is_never_repeated(parse: Parse, key: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse(slotsPerReplica="x", **{key: "HUSH"})

    assert "HUSH" not in str(caught.value)
