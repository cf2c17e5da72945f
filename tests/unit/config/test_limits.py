"""Zero, spare replicas and cost: what of it fits together."""

from collections.abc import Callable

import pytest

from scaler.config.trigger import Trigger

Parse = Callable[..., Trigger]
Problems = Callable[..., tuple[str, ...]]


@pytest.mark.parametrize(
    ("written", "activation"),
    [
        ("router", "activation:router"),
        (" Gateway", "activation:gateway"),
        ("query:gateway_queue", "activation:custom:gateway_queue"),
    ],
)
def test_a_pool_may_go_to_zero_when_something_wakes_it(parse: Parse, written: str, activation: str) -> None:
    trigger = parse(minReplicas="0", activationSignal=written, modelName="llama", rejectionsPerSecond="1")

    assert trigger.policy.min_replicas == 0
    assert trigger.policy.activation == activation
    assert trigger.policy.locator.extras == (activation, "rejection_rate")
    assert trigger.warnings == ()


def test_a_pool_that_never_goes_to_zero_reads_nothing_that_would_wake_it(parse: Parse) -> None:
    trigger = parse(activationSignal="query:gateway_queue")

    assert trigger.policy.activation is None
    assert trigger.policy.locator.extras == ()
    assert trigger.warnings == (
        (
            'activationSignal "query:gateway_queue" has no effect with minReplicas 1 (the default): it wakes pools that'
            " go to 0"
        ),
    )


def test_a_price_alone_limits_nothing(parse: Parse) -> None:
    policy = parse(replicaHourlyCost="2.5").policy

    assert (policy.replica_hourly_cost, policy.max_hourly_cost, policy.highest_replicas) == (2.5, None, 100)


def test_a_budget_limits_the_replicas_and_a_maximum_beyond_it_is_warned_of(parse: Parse) -> None:
    trigger = parse(replicaHourlyCost="0.1", maxHourlyCost="0.3", maxReplicas="10")

    assert trigger.policy.highest_replicas == 3
    assert trigger.warnings == ('maxReplicas "10" is never reached: maxHourlyCost pays for 3',)
    assert parse(replicaHourlyCost="0.1", maxHourlyCost="0.3").warnings == ()


def test_requests_that_are_made_to_wait_are_warned_of(parse: Parse) -> None:
    assert parse(scaleUpSaturation="1.2").warnings == (
        'scaleUpSaturation "1.2" is above 1, so requests wait before the pool grows',
    )
    assert parse(scaleUpSaturation="1").warnings == ()


NEEDS_WORKLOAD = "needs a workload beside it (deployment, statefulSet or leaderWorkerSet)"


@pytest.mark.parametrize(
    ("keys", "sentences"),
    [
        (
            {"minReplicas": "0"},
            ['minReplicas "0" needs activationSignal beside it (router, gateway or query:NAME) to wake the pool'],
        ),
        (
            {"minReplicas": "0", "deployment": None, "modelName": "llama"},
            [
                'minReplicas "0" needs activationSignal beside it (router, gateway or query:NAME) to wake the pool',
                f'minReplicas "0" {NEEDS_WORKLOAD}: no other series tells that there are no replicas',
            ],
        ),
        (
            {"minReplicas": "0", "activationSignal": "router"},
            ['activationSignal "router" needs modelName beside it: requests are counted by model'],
        ),
        (
            {"minReplicas": "0", "activationSignal": "query:gateway_queue", "warmReplicas": "2"},
            ['warmReplicas "2" needs replicas that always run: make minReplicas "0" at least 1'],
        ),
        (
            {"warmReplicas": "4", "maxReplicas": "4"},
            ['warmReplicas "4" must be below maxReplicas "4", so that some are left for the load'],
        ),
        ({"maxHourlyCost": "5"}, ['maxHourlyCost "5" needs replicaHourlyCost beside it']),
        (
            {"replicaHourlyCost": "2", "maxHourlyCost": "1"},
            ['maxHourlyCost "1" pays for 0 at replicaHourlyCost "2" each, and must pay for at least one: 2'],
        ),
        (
            {"replicaHourlyCost": "2.5", "maxHourlyCost": "7", "minReplicas": "3"},
            ['maxHourlyCost "7" pays for 2 at replicaHourlyCost "2.5" each, and must pay for minReplicas "3": 7.5'],
        ),
        (
            {"replicaHourlyCost": "0.1", "maxHourlyCost": "0.2", "warmReplicas": "2"},
            [
                (
                    'maxHourlyCost "0.2" pays for 2 at replicaHourlyCost "0.1" each, and must pay for warmReplicas "2"'
                    " and one for the load: 0.3"
                )
            ],
        ),
        (
            {"gpuUtilization": "0.9", "deployment": None, "modelName": "llama"},
            [f'gpuUtilization "0.9" {NEEDS_WORKLOAD}: GPUs are known by their pods'],
        ),
        ({"gpuMemory": "0.9"}, ['gpuMemory "0.9" needs gpuUtilization beside it']),
        (
            {"gpuMemory": "0.9", "gpuUtilization": "off"},
            ['gpuMemory "0.9" has no effect with gpuUtilization "off": keep one of them'],
        ),
        (
            {"kvCacheScaleUp": "off", "kvCacheScaleDown": "0.6", "kvCacheScaleUpWindows": "6"},
            [
                'kvCacheScaleDown "0.6" has no effect with kvCacheScaleUp "off": keep one of them',
                'kvCacheScaleUpWindows "6" has no effect with kvCacheScaleUp "off": keep one of them',
            ],
        ),
        (
            {"ttftP95Seconds": "off", "ttftScaleDownWindows": "6"},
            ['ttftScaleDownWindows "6" has no effect with ttftP95Seconds "off": keep one of them'],
        ),
        (
            {"ttftP95Seconds": "off", "latencyMinSamples": "50"},
            ['latencyMinSamples "50" has no effect with ttftP95Seconds "off": keep one of them'],
        ),
        (
            {"thresholdScaleDownRatio": "0.7", "itlP95Seconds": "1"},
            [
                (
                    'thresholdScaleDownRatio "0.7" needs one of waitingPerReplica, preemptionsPerSecond,'
                    " rejectionsPerSecond, promptTokensPerSecondPerReplica, generationTokensPerSecondPerReplica,"
                    " gpuUtilization, customQueries beside it"
                )
            ],
        ),
        (
            {"gpuMemory": "0.9", "gpuUtilization": "x"},
            ['gpuUtilization "x" is not a number from 0.05 to 0.99, or off'],
        ),
        (
            {"itlP95Seconds": "5ms"},
            ['itlP95Seconds "5ms" is not a duration from 0.01 s to 1 min, such as 90 or 1m30s, or off'],
        ),
    ],
)
def test_what_does_not_fit_together_is_said_with_both_keys(
    problems: Problems, keys: dict[str, str | None], sentences: list[str]
) -> None:
    assert list(problems(**keys)) == sentences


def test_latency_settings_have_an_effect_with_any_latency(parse: Parse) -> None:
    assert (
        parse(ttftP95Seconds="off", itlP95Seconds="0.05", latencyMinSamples="50").policy.signals[-1].min_support == 50
    )
