from collections.abc import Callable
from dataclasses import replace

import pytest

from scaler.config.metadata import FIELDS
from scaler.config.presets import PRESETS
from scaler.config.trigger import Trigger, parse_trigger
from scaler.model import PoolPolicy, SignalPolicy

Parse = Callable[..., Trigger]
Problems = Callable[..., tuple[str, ...]]


def signals(policy: PoolPolicy) -> dict[str, SignalPolicy]:
    return {signal.name: signal for signal in policy.signals}


@pytest.mark.parametrize("name", PRESETS)
@pytest.mark.parametrize("slots", ["1", "15", "16", "65536"])
def test_each_preset_works_with_nothing_but_a_model_and_slots(name: str, slots: str) -> None:
    metadata = {"preset": name, "modelName": "llama", "slotsPerReplica": slots}

    policy = parse_trigger("serving", "vllm", metadata, tick_s=15.0).policy

    assert policy.preset == name
    assert policy.min_replicas == 1


@pytest.mark.parametrize("name", PRESETS)
def test_a_preset_is_worth_no_warning_but_for_what_must_be_measured(parse: Parse, name: str) -> None:
    measured = dict.fromkeys(PRESETS[name].to_measure, "100")

    assert parse(preset=name, **measured).warnings == ()


@pytest.mark.parametrize("name", PRESETS)
def test_each_value_of_a_preset_changes_something_and_has_a_reason(parse: Parse, name: str) -> None:
    # A saturation whose default depends on slots: any other than those of presets will do.
    defaults = {key: str(field.default or "off") for key, field in FIELDS.items()} | {"scaleUpSaturation": "1.5"}

    for key, value in PRESETS[name].values.items():
        assert len(value.why.split()) >= 5
        without = {**PRESETS[name].texts, key: defaults[key]}
        assert replace(parse(**without).policy, preset=name) != parse(preset=name).policy, key


def test_chat_puts_ttft_first(parse: Parse) -> None:
    policy = parse(preset="chat").policy

    assert signals(policy)["ttft_p95"].scale_up == 1.0
    assert signals(policy)["saturation"].scale_up == 0.85


def test_batch_lets_requests_queue_and_knows_no_ttft(parse: Parse) -> None:
    policy = parse(preset="batch").policy

    assert list(signals(policy)) == ["saturation", "kv_cache"]
    assert signals(policy)["saturation"].scale_up == 1.25


def test_long_context_puts_the_kv_cache_first(parse: Parse) -> None:
    found = signals(parse(preset="long-context").policy)

    assert list(found) == ["saturation", "kv_cache", "ttft_p95", "preemption_rate"]
    assert (found["kv_cache"].scale_up, found["kv_cache"].scale_down) == (0.8, 0.6)


def test_a_prefill_pool_scales_on_waiting_and_ttft_and_on_prompt_tokens_once_they_are_measured(parse: Parse) -> None:
    plain = parse(preset="prefill")
    measured = parse(preset="prefill", promptTokensPerSecondPerReplica="8000")

    assert list(signals(plain.policy)) == ["saturation", "ttft_p95", "waiting"]
    assert plain.warnings == (
        (
            "preset prefill also scales on promptTokensPerSecondPerReplica, which has no default: measure it, and give"
            " it or off"
        ),
    )
    assert list(signals(measured.policy)) == ["saturation", "ttft_p95", "waiting", "prompt_tokens"]
    assert measured.warnings == ()
    assert parse(preset="prefill", promptTokensPerSecondPerReplica="off").warnings == ()


def test_a_decode_pool_scales_on_kv_cache_running_requests_and_inter_token_latency(parse: Parse) -> None:
    assert list(signals(parse(preset="decode").policy)) == ["saturation", "kv_cache", "itl_p95"]


def test_a_key_that_is_given_goes_before_the_presets_value(parse: Parse) -> None:
    found = signals(parse(preset=" Decode ", ttftP95Seconds="5", itlP95Seconds="off", kvCacheScaleUp="0.95").policy)

    assert list(found) == ["saturation", "kv_cache", "ttft_p95"]
    assert (found["kv_cache"].scale_up, found["kv_cache"].scale_down) == (0.95, 0.65)


def test_a_preset_may_come_from_an_environment_variable(parse: Parse) -> None:
    assert parse(presetFromEnv="chat").policy.preset == "chat"


@pytest.mark.parametrize(
    ("keys", "sentence"),
    [
        ({"preset": "chatt"}, 'preset "chatt" is not known: did you mean chat?'),
        ({"preset": "long_context"}, 'preset "long_context" is not known: did you mean long-context?'),
        (
            {"preset": "zzz"},
            'preset "zzz" is not known: there are chat, batch, long-context, prefill, decode',
        ),
        ({"preset": ""}, 'preset "" is not known: there are chat, batch, long-context, prefill, decode'),
        (
            {"preset": "long-context", "kvCacheScaleUp": "0.5"},
            (
                'kvCacheScaleDown 0.6 (of preset long-context) must be below kvCacheScaleUp "0.5", so that a dead band'
                " lies between them"
            ),
        ),
        (
            {"preset": "batch", "scaleUpSaturation": "0.9"},
            (
                'scaleDownSaturation 1 (of preset batch) must be below scaleUpSaturation "0.9", so that a dead band'
                " lies between them"
            ),
        ),
        (
            {"preset": "decode", "ttftScaleUpWindows": "8"},
            'ttftScaleUpWindows "8" has no effect with ttftP95Seconds off (of preset decode): keep one of them',
        ),
        (
            {"preset": "prefill", "kvCacheScaleDown": "0.5"},
            'kvCacheScaleDown "0.5" has no effect with kvCacheScaleUp off (of preset prefill): keep one of them',
        ),
    ],
)
def test_a_mistake_with_a_preset_names_it(problems: Problems, keys: dict[str, str], sentence: str) -> None:
    assert problems(**keys) == (sentence,)
