from collections.abc import Callable

import pytest

from scaler.config.trigger import Trigger
from scaler.model import SignalForm, SignalName, SignalPolicy, SignalWindows

Parse = Callable[..., Trigger]
WINDOWS = SignalWindows(4, 20)


@pytest.mark.parametrize(
    ("keys", "signal", "extras"),
    [
        (
            {"waitingPerReplica": "4"},
            SignalPolicy(SignalName.WAITING, SignalForm.CAPACITY, 4.0, 3.2, WINDOWS, "requests"),
            (),
        ),
        (
            {"itlP95Seconds": "50ms"},
            SignalPolicy(SignalName.ITL_P95, SignalForm.LATENCY, 0.05, 0.6, WINDOWS, "seconds", 20),
            ("itl_p95",),
        ),
        (
            {"queueTimeP95Seconds": "1", "latencyScaleDownRatio": "0.5", "latencyMinSamples": "50"},
            SignalPolicy(SignalName.QUEUE_TIME_P95, SignalForm.LATENCY, 1.0, 0.5, WINDOWS, "seconds", 50),
            ("queue_time_p95",),
        ),
        (
            {"e2eP95Seconds": "30"},
            SignalPolicy(SignalName.E2E_P95, SignalForm.LATENCY, 30.0, 0.6, WINDOWS, "seconds", 20),
            ("e2e_p95",),
        ),
        (
            {"preemptionsPerSecond": "0.1"},
            SignalPolicy(SignalName.PREEMPTION_RATE, SignalForm.INTENSITY, 0.1, 0.1 * 0.8, WINDOWS, "events/s"),
            (),
        ),
        (
            {"rejectionsPerSecond": "0.5", "thresholdScaleDownRatio": "0.5"},
            SignalPolicy(SignalName.REJECTION_RATE, SignalForm.INTENSITY, 0.5, 0.25, WINDOWS, "events/s"),
            ("rejection_rate",),
        ),
        (
            {"promptTokensPerSecondPerReplica": "8000"},
            SignalPolicy(SignalName.PROMPT_TOKENS, SignalForm.CAPACITY, 8000.0, 6400.0, WINDOWS, "tokens/s"),
            ("prompt_tokens",),
        ),
        (
            {"generationTokensPerSecondPerReplica": "2000"},
            SignalPolicy(SignalName.GENERATION_TOKENS, SignalForm.CAPACITY, 2000.0, 1600.0, WINDOWS, "tokens/s"),
            (),
        ),
        (
            {"gpuUtilization": "0.95"},
            SignalPolicy(SignalName.GPU, SignalForm.INTENSITY, 0.95, 0.95 * 0.8, WINDOWS, "ratio", 0.8),
            ("gpu",),
        ),
        (
            {"gpuUtilization": "0.95", "gpuMemory": "0"},
            SignalPolicy(SignalName.GPU, SignalForm.INTENSITY, 0.95, 0.95 * 0.8, WINDOWS, "ratio", 0.0),
            ("gpu",),
        ),
        (
            {"customQueries": "gateway_queue = 20"},
            SignalPolicy("custom:gateway_queue", SignalForm.CAPACITY, 20.0, 16.0, WINDOWS, ""),
            ("custom:gateway_queue",),
        ),
    ],
)
def test_each_optional_signal_comes_with_its_thresholds_unit_and_reading(
    parse: Parse, keys: dict[str, str], signal: SignalPolicy, extras: tuple[str, ...]
) -> None:
    policy = parse(**keys).policy

    assert [one.name for one in policy.signals[:3]] == ["saturation", "kv_cache", "ttft_p95"]
    assert policy.signals[3:] == (signal,)
    assert policy.locator.extras == extras


def test_signals_come_in_one_order_and_readings_are_sorted(parse: Parse) -> None:
    policy = parse(
        customQueries="gateway_queue=1, embedding_backlog=2",
        gpuUtilization="0.9",
        generationTokensPerSecondPerReplica="1",
        promptTokensPerSecondPerReplica="1",
        rejectionsPerSecond="1",
        preemptionsPerSecond="1",
        e2eP95Seconds="1",
        queueTimeP95Seconds="1",
        itlP95Seconds="1",
        waitingPerReplica="1",
    ).policy

    assert [signal.name for signal in policy.signals] == [
        *SignalName,
        "custom:embedding_backlog",
        "custom:gateway_queue",
    ]
    assert policy.locator.extras == (
        "custom:embedding_backlog",
        "custom:gateway_queue",
        "e2e_p95",
        "gpu",
        "itl_p95",
        "prompt_tokens",
        "queue_time_p95",
        "rejection_rate",
    )


def test_a_pool_with_the_standard_signals_asks_for_no_further_reading(parse: Parse) -> None:
    assert parse().policy.locator.extras == ()


@pytest.mark.parametrize("word", ["off", "OFF", " Off "])
def test_kv_cache_and_ttft_can_be_switched_off(parse: Parse, word: str) -> None:
    policy = parse(kvCacheScaleUp=word, ttftP95Seconds=word, itlP95Seconds=word, customQueries=word).policy

    assert [signal.name for signal in policy.signals] == ["saturation"]


@pytest.mark.parametrize(
    ("key", "objective", "warned"),
    [
        ("ttftP95Seconds", "1", False),
        ("ttftP95Seconds", "3", True),
        ("itlP95Seconds", "0.05", False),
        ("itlP95Seconds", "0.06", True),
        ("queueTimeP95Seconds", "0.3", False),
        ("queueTimeP95Seconds", "0.4", True),
        ("e2eP95Seconds", "30", False),
        ("e2eP95Seconds", "35", True),
    ],
)
def test_an_objective_between_bounds_of_the_histogram_is_warned_of(
    parse: Parse, key: str, objective: str, *, warned: bool
) -> None:
    assert [text for text in parse(**{key: objective}).warnings if "of vLLM's histogram" in text] == (
        list(parse(**{key: objective}).warnings) if warned else []
    )


def test_the_warning_names_the_bounds_beside_the_objective(parse: Parse) -> None:
    assert parse(ttftP95Seconds="3").warnings == (
        (
            "the objective of ttft_p95, 3 s, lies between the bounds 2.5 s and 5 s of vLLM's histogram, so its P95 is"
            " an estimate"
        ),
    )
