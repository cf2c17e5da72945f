"""Whatever a trigger's metadata holds, it is either a sound policy or one bounded error."""

import dataclasses
import math
from collections.abc import Mapping

from hypothesis import given
from hypothesis import strategies as st

from scaler.config.metadata import FIELDS
from scaler.config.presets import PRESETS
from scaler.config.problems import PROBLEM_LIMIT, TEXT_LIMIT_BYTES
from scaler.config.trigger import KEDA_KEYS, Trigger, fingerprint, parse_trigger
from scaler.errors import ConfigError
from scaler.model import (
    LabelMatcher,
    PoolLocator,
    PoolPolicy,
    SignalForm,
    SignalName,
    SignalPolicy,
    SignalWindows,
    Workload,
    WorkloadKind,
)

SECRET_KEYS = ("caCert", "tlsClientCert", "tlsClientKey", "tlsClientKeyFromEnv", "cacert", "TLSCLIENTKEY")
SECRET = "HUSH-7d1f"
QUERIES = ("gateway_queue", "q2")

keys = st.one_of(
    st.sampled_from([*FIELDS, *(f"{key}FromEnv" for key in FIELDS), *KEDA_KEYS, *SECRET_KEYS, "serverAddress"]),
    st.text(max_size=40),
)
odd_values = st.sampled_from(
    ["", "0", "1", "8", "-1", "1e400", "nan", "inf", "0.5", "1m30s", "9" * 400, "9" * 400 + "h", "\x00", "٣", "{" * 600]
)
words = st.sampled_from(
    [
        "off",
        "OFF ",
        *PRESETS,
        "Chat",
        "router",
        "gateway",
        "query:gateway_queue",
        "query:",
        "q2=3",
        "gateway_queue=1,q2=2",
    ]
)
selectors = st.lists(
    st.sampled_from(
        [
            "a",
            "=",
            "=~",
            '"b"',
            '"(a|b)*"',
            '"[a--b]"',
            '"a{9999999999}"',
            "{",
            "}",
            ",",
            " or ",
            "[5m]",
            "#",
            "\n",
            "`",
        ]
    ),
    max_size=12,
).map("".join)
values = st.one_of(st.text(max_size=60), odd_values, words, selectors, st.floats().map(repr), st.integers().map(str))
metadata = st.dictionaries(keys, values, max_size=30)
anything = st.dictionaries(st.text(), st.text(), max_size=80)


def parse(written: Mapping[str, str], namespace: str = "serving", name: str = "vllm") -> Trigger | ConfigError:
    try:
        return parse_trigger(namespace, name, written, tick_s=15.0, queries=QUERIES)
    except ConfigError as error:
        return error


@given(st.one_of(metadata, anything), st.one_of(st.just("serving"), st.text()), st.one_of(st.just("vllm"), st.text()))
def test_parsing_never_fails_but_with_a_bounded_config_error(
    written: dict[str, str], namespace: str, name: str
) -> None:
    result = parse(written, namespace, name)

    if isinstance(result, Trigger):
        assert_sound(result.policy)
    else:
        text = str(result)
        assert 1 <= len(result.problems) <= PROBLEM_LIMIT
        assert "(1)" in text or text.startswith("1 problem ")
        assert len(text.encode()) <= TEXT_LIMIT_BYTES
        assert text.isprintable()


@given(metadata, st.sampled_from(SECRET_KEYS))
def test_a_secret_is_in_no_error_and_no_warning(written: dict[str, str], key: str) -> None:
    result = parse({**written, key: SECRET})

    assert SECRET not in (str(result) if isinstance(result, ConfigError) else " ".join(result.warnings))


@given(metadata)
def test_the_order_of_keys_changes_nothing(written: dict[str, str]) -> None:
    shuffled = dict(reversed(written.items()))

    assert fingerprint(shuffled) == fingerprint(written)
    assert str(parse(shuffled)) == str(parse(written))


names = st.from_regex(r"[a-z0-9]([-a-z0-9]{0,20}[a-z0-9])?(\.[a-z0-9]{1,5})?", fullmatch=True)
models = st.text(st.characters(codec="utf-8", exclude_categories=("C", "Z")), min_size=1, max_size=60)
label_values = st.text(st.characters(codec="utf-8", exclude_categories=("C", "Zl", "Zp", "Zs")), max_size=20)
matchers = st.builds(
    LabelMatcher,
    st.from_regex(r"[a-z][a-z0-9_]{0,8}", fullmatch=True).filter(lambda label: label not in {"namespace", "le"}),
    st.sampled_from(["=", "!="]),
    label_values,
)
windows = st.builds(SignalWindows, st.integers(1, 240), st.integers(1, 240))


STANDARD = {SignalName.SATURATION, SignalName.KV_CACHE, SignalName.TTFT_P95}
ratios = st.floats(0.05, 0.95)


@st.composite
def signals(draw: st.DrawFn, ratio: float, *, gpu: bool) -> tuple[SignalPolicy, ...]:
    names, forms = SignalName, SignalForm
    low, high = sorted(draw(st.lists(st.floats(0.05, 2), min_size=2, max_size=2, unique=True)))
    low_kv, high_kv = sorted(draw(st.lists(st.floats(0.05, 1), min_size=2, max_size=2, unique=True)))
    general, samples = draw(windows), draw(st.integers(1, 100_000))
    latency_ratio = draw(ratios)
    found = [SignalPolicy(names.SATURATION, forms.SATURATION, high, low, draw(windows), "requests")]
    if draw(st.booleans()):
        found.append(SignalPolicy(names.KV_CACHE, forms.KV_CACHE, high_kv, low_kv, draw(windows), "ratio"))
    if draw(st.booleans()):
        objective = draw(st.floats(0.01, 3600))
        found.append(
            SignalPolicy(names.TTFT_P95, forms.LATENCY, objective, latency_ratio, draw(windows), "seconds", samples)
        )
    for name, form, least, most, unit in (
        (names.WAITING, forms.CAPACITY, 0.1, 10_000, "requests"),
        (names.ITL_P95, forms.LATENCY, 0.01, 60, "seconds"),
        (names.QUEUE_TIME_P95, forms.LATENCY, 0.3, 3600, "seconds"),
        (names.E2E_P95, forms.LATENCY, 0.3, 3600, "seconds"),
        (names.PREEMPTION_RATE, forms.INTENSITY, 0.001, 1000, "events/s"),
        (names.REJECTION_RATE, forms.INTENSITY, 0.001, 1000, "events/s"),
        (names.PROMPT_TOKENS, forms.CAPACITY, 1, 10_000_000, "tokens/s"),
        (names.GENERATION_TOKENS, forms.CAPACITY, 1, 10_000_000, "tokens/s"),
        (names.GPU, forms.INTENSITY, 0.05, 0.99, "ratio"),
        *((f"custom:{query}", forms.CAPACITY, 0.001, 1e9, "") for query in QUERIES),
    ):
        if draw(st.booleans()) or (name == names.GPU and not gpu):
            continue
        up = draw(st.floats(least, most))
        if form is forms.LATENCY:
            found.append(SignalPolicy(name, form, up, latency_ratio, general, unit, samples))
        else:
            support = draw(st.floats(0, 1)) if name == names.GPU else 0.0
            found.append(SignalPolicy(name, form, up, up * ratio, general, unit, support))
    return tuple(found)


@st.composite
def policies(draw: st.DrawFn) -> tuple[PoolPolicy, float]:
    """A policy, and the threshold scale-down ratio that is behind it."""
    workload = draw(st.none() | st.builds(Workload, st.sampled_from(WorkloadKind), names))
    ratio = draw(ratios)
    asked = draw(signals(ratio, gpu=workload is not None))
    preset = draw(st.sampled_from(["", *PRESETS]))
    # What nothing uses cannot be given, so it stays as it was.
    latency = {"latencyMinSaturation": "0.5", **(PRESETS[preset].texts if preset else {})}
    price = draw(st.none() | st.floats(0.0001, 1_000_000))
    warm = draw(st.integers(0, 1000))
    fewest, most = sorted(draw(st.tuples(st.integers(1, 10_000), st.integers(warm + 1, 10_000))))
    most = max(most, warm + 1)
    budget = None
    if price is not None and draw(st.booleans()):
        budget = min(price * max(fewest, warm + 1) * draw(st.floats(1.01, 100)), 1_000_000_000)
        budget = budget if budget >= price * max(fewest, warm + 1) else None
    activation = None
    model = draw(models if workload is None else st.none() | models)
    if workload is not None and model is not None and warm == 0 and draw(st.booleans()):
        fewest = 0
        activation = draw(st.sampled_from(["activation:router", "activation:gateway", "activation:custom:q2"]))
    always = STANDARD | {SignalName.WAITING, SignalName.PREEMPTION_RATE, SignalName.GENERATION_TOKENS}
    extras = {str(signal.name) for signal in asked if signal.name not in always}
    restart_s = draw(st.sampled_from((0.0, 600.0)))
    policy = PoolPolicy(
        locator=PoolLocator(
            "serving",
            model,
            workload,
            tuple(sorted(draw(st.sets(matchers, max_size=3)), key=dataclasses.astuple)),
            draw(st.floats(10, 900)),
            draw(st.floats(5, 300)),
            tuple(sorted(extras | ({activation} if activation else set()) | ({"restarts"} if restart_s else set()))),
            restart_s,
        ),
        tick_s=15.0,
        slots_per_replica=draw(st.integers(1, 65536)),
        signals=asked,
        scale_down_noise=draw(st.floats(0, 10)),
        latency_min_saturation=draw(st.floats(0, 1))
        if has(asked, "seconds")
        else float(latency["latencyMinSaturation"]),
        drain_horizon_s=draw(st.floats(0, 3600)) if has(asked, "seconds") else 60.0,
        scale_up_cooldown_s=draw(st.floats(0, 86_400)),
        scale_down_cooldown_s=draw(st.floats(0, 86_400)),
        max_step_up=draw(st.integers(1, 10_000)),
        max_step_down=draw(st.integers(1, 10_000)),
        min_replicas=fewest,
        max_replicas=most,
        warm_replicas=warm,
        replica_hourly_cost=price,
        max_hourly_cost=budget,
        cold_start_timeout_s=draw(st.floats(30, 86_400)),
        rollout_hold_s=draw(st.floats(0, 86_400)),
        protect_queue_wait_s=draw(st.floats(0, 3600)),
        hpa_tolerance=draw(st.floats(0, 0.5)),
        activation=activation,
        preset=preset,
    )
    return policy, ratio


def has(found: tuple[SignalPolicy, ...], unit: str) -> bool:
    return any(signal.unit == unit for signal in found)


def promql_text(value: str) -> str:
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


OPTIONAL_KEYS = {
    SignalName.WAITING: "waitingPerReplica",
    SignalName.ITL_P95: "itlP95Seconds",
    SignalName.QUEUE_TIME_P95: "queueTimeP95Seconds",
    SignalName.E2E_P95: "e2eP95Seconds",
    SignalName.PREEMPTION_RATE: "preemptionsPerSecond",
    SignalName.REJECTION_RATE: "rejectionsPerSecond",
    SignalName.PROMPT_TOKENS: "promptTokensPerSecondPerReplica",
    SignalName.GENERATION_TOKENS: "generationTokensPerSecondPerReplica",
    SignalName.GPU: "gpuUtilization",
}


def written_as_metadata(policy: PoolPolicy, ratio: float) -> dict[str, str]:
    locator = policy.locator
    by_name = {str(signal.name): signal for signal in policy.signals}
    saturation, kv_cache, ttft = (by_name.get(name) for name in ("saturation", "kv_cache", "ttft_p95"))
    latency = next((signal for signal in policy.signals if signal.form is SignalForm.LATENCY), None)
    optional = [signal for signal in policy.signals if signal.name not in STANDARD]
    general = optional[0].windows if optional else None
    assert saturation is not None
    written: dict[str, object] = {
        "preset": policy.preset or None,
        "slotsPerReplica": policy.slots_per_replica,
        "scaleUpSaturation": saturation.scale_up,
        "scaleDownSaturation": saturation.scale_down,
        "saturationScaleUpWindows": saturation.windows.scale_up,
        "saturationScaleDownWindows": saturation.windows.scale_down,
        "scaleDownNoise": policy.scale_down_noise,
        "kvCacheScaleUp": "off" if kv_cache is None else kv_cache.scale_up,
        "kvCacheScaleDown": kv_cache and kv_cache.scale_down,
        "kvCacheScaleUpWindows": kv_cache and kv_cache.windows.scale_up,
        "kvCacheScaleDownWindows": kv_cache and kv_cache.windows.scale_down,
        "ttftP95Seconds": "off" if ttft is None else ttft.scale_up,
        "ttftScaleUpWindows": ttft and ttft.windows.scale_up,
        "ttftScaleDownWindows": ttft and ttft.windows.scale_down,
        "latencyMinSaturation": latency and policy.latency_min_saturation,
        "latencyMinSamples": latency and int(latency.min_support),
        "latencyScaleDownRatio": latency and latency.scale_down,
        "drainHorizonSeconds": latency and policy.drain_horizon_s,
        **{key: by_name[name].scale_up if name in by_name else "off" for name, key in OPTIONAL_KEYS.items()},
        "gpuMemory": by_name["gpu"].min_support if "gpu" in by_name else None,
        "customQueries": ",".join(
            f"{name.removeprefix('custom:')}={signal.scale_up}"
            for name, signal in by_name.items()
            if name.startswith("custom:")
        )
        or None,
        "thresholdScaleDownRatio": ratio if any(signal.form is not SignalForm.LATENCY for signal in optional) else None,
        "scaleUpWindows": general and general.scale_up,
        "scaleDownWindows": general and general.scale_down,
        "scaleUpCooldownSeconds": policy.scale_up_cooldown_s,
        "scaleDownCooldownSeconds": policy.scale_down_cooldown_s,
        "maxStepUp": policy.max_step_up,
        "maxStepDown": policy.max_step_down,
        "minReplicas": policy.min_replicas,
        "maxReplicas": policy.max_replicas,
        "warmReplicas": policy.warm_replicas,
        "replicaHourlyCost": policy.replica_hourly_cost,
        "maxHourlyCost": policy.max_hourly_cost,
        "coldStartTimeoutSeconds": policy.cold_start_timeout_s,
        "rolloutHoldSeconds": policy.rollout_hold_s,
        "restartHoldSeconds": locator.restart_window_s,
        "protectQueueWaitSeconds": policy.protect_queue_wait_s,
        "hpaTolerance": policy.hpa_tolerance,
        "activationSignal": policy.activation
        and policy.activation.replace("activation:custom:", "query:").removeprefix("activation:"),
        "rateWindowSeconds": locator.rate_window_s,
        "staleAfterSeconds": locator.stale_after_s,
        "modelName": locator.model_name,
        "selector": ",".join(f"{item.label}{item.operator}{promql_text(item.value)}" for item in locator.matchers)
        or None,
    }
    if locator.workload is not None:
        written[locator.workload.kind.value] = locator.workload.name
    return {key: str(value) for key, value in written.items() if value is not None}


@given(policies())
def test_a_policy_written_as_metadata_is_read_back_the_same(drawn: tuple[PoolPolicy, float]) -> None:
    policy, ratio = drawn

    result = parse(written_as_metadata(policy, ratio))

    assert isinstance(result, Trigger), str(result)
    assert result.policy == policy


@given(st.sampled_from(sorted(PRESETS)), metadata)
def test_a_preset_with_any_keys_beside_it_is_a_sound_policy_or_one_bounded_error(
    preset: str, written: dict[str, str]
) -> None:
    result = parse({"modelName": "llama", "slotsPerReplica": "16", **written, "preset": preset})

    if isinstance(result, Trigger):
        assert_sound(result.policy)
        assert result.policy.preset == preset
    else:
        assert len(str(result).encode()) <= TEXT_LIMIT_BYTES


def assert_sound(policy: PoolPolicy) -> None:
    numbers = [value for value in dataclasses.astuple(policy) if isinstance(value, int | float)]
    assert all(math.isfinite(number) and number >= 0 for number in numbers)
    assert policy.signals[0].name == SignalName.SATURATION
    for signal in policy.signals:
        assert 0 < signal.scale_down < (1 if signal.form is SignalForm.LATENCY else signal.scale_up)
        assert signal.windows.scale_up >= 1
        assert signal.windows.scale_down >= 1
    assert max(policy.min_replicas, policy.warm_replicas + 1) <= policy.highest_replicas
    assert (policy.min_replicas == 0) == (policy.activation is not None)
    assert policy.min_replicas > 0 or policy.warm_replicas == 0
    assert policy.slots_per_replica >= 1
    assert policy.locator.model_name or policy.locator.workload
