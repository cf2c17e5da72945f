"""Whatever a trigger's metadata holds, it is either a sound policy or one bounded error."""

import dataclasses
import math
from collections.abc import Mapping

from hypothesis import given
from hypothesis import strategies as st

from scaler.config.metadata import FIELDS
from scaler.config.problems import PROBLEM_LIMIT, TEXT_LIMIT_BYTES
from scaler.config.trigger import KEDA_KEYS, Trigger, fingerprint, parse_trigger
from scaler.errors import ConfigError
from scaler.model import LabelMatcher, PoolLocator, PoolPolicy, SignalWindows, Workload, WorkloadKind

SECRET_KEYS = ("caCert", "tlsClientCert", "tlsClientKey", "tlsClientKeyFromEnv", "cacert", "TLSCLIENTKEY")
SECRET = "HUSH-7d1f"

keys = st.one_of(
    st.sampled_from([*FIELDS, *(f"{key}FromEnv" for key in FIELDS), *KEDA_KEYS, *SECRET_KEYS, "serverAddress"]),
    st.text(max_size=40),
)
odd_values = st.sampled_from(
    ["", "0", "1", "8", "-1", "1e400", "nan", "inf", "0.5", "1m30s", "9" * 400, "9" * 400 + "h", "\x00", "٣", "{" * 600]
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
values = st.one_of(st.text(max_size=60), odd_values, selectors, st.floats().map(repr), st.integers().map(str))
metadata = st.dictionaries(keys, values, max_size=30)
anything = st.dictionaries(st.text(), st.text(), max_size=80)


def parse(written: Mapping[str, str], namespace: str = "serving", name: str = "vllm") -> Trigger | ConfigError:
    try:
        return parse_trigger(namespace, name, written, tick_s=15.0)
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


@st.composite
def policies(draw: st.DrawFn) -> PoolPolicy:
    workload = draw(st.none() | st.builds(Workload, st.sampled_from(WorkloadKind), names))
    low_kv, high_kv = sorted(draw(st.lists(st.floats(0.05, 1), min_size=2, max_size=2, unique=True)))
    low_saturation, high_saturation = sorted(draw(st.lists(st.floats(0.05, 2), min_size=2, max_size=2, unique=True)))
    fewest, most = sorted(draw(st.tuples(st.integers(1, 10_000), st.integers(1, 10_000))))
    ordered = draw(st.sets(matchers, max_size=3))
    return PoolPolicy(
        locator=PoolLocator(
            "serving",
            draw(models if workload is None else st.none() | models),
            workload,
            tuple(sorted(ordered, key=dataclasses.astuple)),
            draw(st.floats(10, 900)),
            draw(st.floats(5, 300)),
        ),
        tick_s=15.0,
        slots_per_replica=draw(st.integers(1, 65536)),
        scale_up_saturation=high_saturation,
        scale_down_saturation=low_saturation,
        scale_down_noise=draw(st.floats(0, 10)),
        kv_cache_scale_up=high_kv,
        kv_cache_scale_down=low_kv,
        ttft_p95_s=draw(st.floats(0.01, 3600)),
        latency_min_saturation=draw(st.floats(0, 1)),
        latency_min_samples=draw(st.integers(1, 100_000)),
        latency_scale_down_ratio=draw(st.floats(0.05, 0.95)),
        drain_horizon_s=draw(st.floats(0, 3600)),
        saturation_windows=draw(windows),
        kv_cache_windows=draw(windows),
        ttft_p95_windows=draw(windows),
        scale_up_cooldown_s=draw(st.floats(0, 86_400)),
        scale_down_cooldown_s=draw(st.floats(0, 86_400)),
        max_step_up=draw(st.integers(1, 10_000)),
        max_step_down=draw(st.integers(1, 10_000)),
        min_replicas=fewest,
        max_replicas=most,
    )


def promql_text(value: str) -> str:
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def written_as_metadata(policy: PoolPolicy) -> dict[str, str]:
    locator = policy.locator
    written = {
        "slotsPerReplica": policy.slots_per_replica,
        "scaleUpSaturation": policy.scale_up_saturation,
        "scaleDownSaturation": policy.scale_down_saturation,
        "scaleDownNoise": policy.scale_down_noise,
        "kvCacheScaleUp": policy.kv_cache_scale_up,
        "kvCacheScaleDown": policy.kv_cache_scale_down,
        "ttftP95Seconds": policy.ttft_p95_s,
        "latencyMinSaturation": policy.latency_min_saturation,
        "latencyMinSamples": policy.latency_min_samples,
        "latencyScaleDownRatio": policy.latency_scale_down_ratio,
        "drainHorizonSeconds": policy.drain_horizon_s,
        "saturationScaleUpWindows": policy.saturation_windows.scale_up,
        "saturationScaleDownWindows": policy.saturation_windows.scale_down,
        "kvCacheScaleUpWindows": policy.kv_cache_windows.scale_up,
        "kvCacheScaleDownWindows": policy.kv_cache_windows.scale_down,
        "ttftScaleUpWindows": policy.ttft_p95_windows.scale_up,
        "ttftScaleDownWindows": policy.ttft_p95_windows.scale_down,
        "scaleUpCooldownSeconds": policy.scale_up_cooldown_s,
        "scaleDownCooldownSeconds": policy.scale_down_cooldown_s,
        "maxStepUp": policy.max_step_up,
        "maxStepDown": policy.max_step_down,
        "minReplicas": policy.min_replicas,
        "maxReplicas": policy.max_replicas,
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
def test_a_policy_written_as_metadata_is_read_back_the_same(policy: PoolPolicy) -> None:
    result = parse(written_as_metadata(policy))

    assert isinstance(result, Trigger), str(result)
    assert result.policy == policy


def assert_sound(policy: PoolPolicy) -> None:
    numbers = [value for value in dataclasses.astuple(policy) if isinstance(value, int | float)]
    assert all(math.isfinite(number) and number >= 0 for number in numbers)
    assert policy.scale_down_saturation < policy.scale_up_saturation
    assert policy.kv_cache_scale_down < policy.kv_cache_scale_up
    assert 1 <= policy.min_replicas <= policy.max_replicas
    assert policy.slots_per_replica >= 1
    assert policy.locator.model_name or policy.locator.workload
