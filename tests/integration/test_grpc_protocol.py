"""The unary calls over a real connection: what KEDA is told, and what a person reads in the event."""

import asyncio
from typing import Any

import grpc
import pytest
from structlog.testing import capture_logs

from scaler.config.trigger import parse_trigger
from scaler.errors import ConfigError
from scaler.model import Observation
from scaler.protos import externalscaler_pb2 as pb
from tests.builders import TICK_S
from tests.fakes import START, FakeReader, eventually
from tests.grpc_service import METADATA, metrics_of, ref, serving

BAD_METADATA = {"deployment": "vllm", "slotsPerReplicas": "4", "maxReplicas": "-1"}


def blind(_key: object, at: float) -> Observation:
    """A pool of which nothing can be read."""
    return Observation(at=at, notes=("vllm:num_requests_running has no series in namespace serving",))


async def test_the_metric_is_one_with_target_one() -> None:
    async with serving() as served:
        answer = await served.stub.GetMetricSpec(ref())
    assert [(spec.metricName, spec.targetSize, spec.targetSizeFloat) for spec in answer.metricSpecs] == [
        ("target-replicas", 1, 1.0)
    ]


async def test_the_metric_is_given_whatever_is_wrong() -> None:
    bad = pb.ScaledObjectRef(name="vllm", namespace="serving", scalerMetadata=BAD_METADATA)
    async with serving(max_pools=1) as served:
        for request in (bad, pb.ScaledObjectRef(), ref("first"), ref("one-too-many")):
            assert len((await served.stub.GetMetricSpec(request)).metricSpecs) == 1


async def test_the_metric_is_given_while_prometheus_hangs() -> None:
    async with serving(FakeReader(gate=asyncio.Event())) as served:
        assert await served.stub.GetMetricSpec(ref(), timeout=1)


async def test_one_value_says_how_many_replicas_in_both_fields() -> None:
    async with serving(FakeReader(load=80, replicas=4)) as served:
        answer = await served.stub.GetMetrics(metrics_of(ref()))
    assert [(one.metricName, one.metricValue, one.metricValueFloat) for one in answer.metricValues] == [
        # 80 in flight on 4 slots; they have been for hours, so no step is left to take.
        ("target-replicas", 20, 20.0)
    ]


async def test_a_fraction_is_rounded_up_in_the_whole_number(changed_decisions: dict[str, Any]) -> None:
    changed_decisions["reported_value"] = 8.001
    async with serving() as served:
        answer = await served.stub.GetMetrics(metrics_of(ref()))
    assert [(one.metricValue, one.metricValueFloat) for one in answer.metricValues] == [(9, 8.001)]


@pytest.mark.parametrize("metric", ["", "target-replicas", "s0-target-replicas", "s12-Target-Replicas", "another"])
async def test_the_value_is_given_whatever_the_metric_is_called(metric: str) -> None:
    async with serving() as served:
        answer = await served.stub.GetMetrics(metrics_of(ref(), metric))
    assert [one.metricName for one in answer.metricValues] == ["target-replicas"]


async def test_a_foreign_metric_name_is_logged_once() -> None:
    with capture_logs() as logs:
        async with serving() as served:
            for metric in ("another", "s1-Another", "target-replicas"):
                await served.stub.GetMetrics(metrics_of(ref(), metric))
    assert [record["metric"] for record in logs if "metric" in record] == ["another"]


async def test_all_that_is_wrong_with_metadata_is_told_at_once_and_word_for_word() -> None:
    with pytest.raises(ConfigError) as caught:
        parse_trigger("serving", "vllm", BAD_METADATA, tick_s=TICK_S)
    assert len(caught.value.problems) >= 2
    bad = pb.ScaledObjectRef(name="vllm", namespace="serving", scalerMetadata=BAD_METADATA)
    async with serving() as served:
        for call in (served.stub.GetMetrics(metrics_of(bad)), served.stub.IsActive(bad)):
            assert await served.refusal(call) == (grpc.StatusCode.INVALID_ARGUMENT, str(caught.value))


async def test_metadata_of_absurd_length_is_refused() -> None:
    async with serving() as served:
        code, text = await served.refusal(served.stub.IsActive(ref(modelName="m" * 20_000)))
    assert code is grpc.StatusCode.INVALID_ARGUMENT
    assert "16384 characters" in text


async def test_a_pool_is_active_while_it_needs_replicas(changed_decisions: dict[str, Any]) -> None:
    async with serving() as served:
        assert (await served.stub.IsActive(ref())).result is True
        changed_decisions |= {"active": False, "target": 0, "reported_value": 0.0}
        await served.next_tick()
        assert (await served.stub.IsActive(ref())).result is False
        answer = await served.stub.GetMetrics(metrics_of(ref()))
    assert [(one.metricValue, one.metricValueFloat) for one in answer.metricValues] == [(0, 0.0)]


async def test_pools_first_asked_for_together_are_read_together() -> None:
    async with serving() as served:
        calls = (served.stub.GetMetrics(metrics_of(ref(f"pool-{number}"))) for number in range(40))
        answers = await asyncio.gather(*calls)
    assert {answer.metricValues[0].metricValue for answer in answers} == {4}
    sizes = served.reader.sizes_at(START)
    # How many of the calls come within one read depends on the machine; that each pool is read once does not.
    assert sum(sizes) == 40
    assert len(sizes) <= 10


async def test_further_calls_cost_no_read() -> None:
    async with serving(FakeReader()) as served:
        for _ in range(5):
            await served.stub.GetMetricSpec(ref())
            await served.stub.GetMetrics(metrics_of(ref()))
            await served.stub.IsActive(ref())
        assert served.reader.at_ticks() == [START]


async def test_the_first_call_waits_no_longer_than_it_may() -> None:
    reader = FakeReader(gate=asyncio.Event())
    async with serving(reader, first_answer_timeout=0.2) as served:
        code, text = await served.refusal(served.stub.GetMetrics(metrics_of(ref()), timeout=2))
        assert code is grpc.StatusCode.UNAVAILABLE
        assert text.startswith("serving/vllm (deployment/vllm): no answer yet: waited 0.2 s for the first evaluation")
        assert reader.gate is not None
        reader.gate.set()
        await eventually(lambda: served.sample("vllm_scaler_target_replicas") == 4)
        assert (await served.stub.GetMetrics(metrics_of(ref()))).metricValues[0].metricValue == 4


async def test_the_first_answer_waits_for_the_past_that_may_hold_an_increase() -> None:
    reader = FakeReader(past_gate=asyncio.Event())
    async with serving(reader) as served:
        call = asyncio.ensure_future(served.stub.GetMetrics(metrics_of(ref())))
        await eventually(lambda: len(reader.past_reads) == 1)
        assert not call.done()
        assert reader.past_gate is not None
        reader.past_gate.set()
        assert (await call).metricValues[0].metricValue == 4


async def test_a_past_that_takes_long_delays_the_first_answer_no_longer_than_it_may() -> None:
    async with serving(FakeReader(past_gate=asyncio.Event()), first_answer_timeout=0.2) as served:
        assert (await served.stub.GetMetrics(metrics_of(ref()), timeout=2)).metricValues[0].metricValue == 4
        served.clock.advance(0.2)
        assert (await served.stub.IsActive(ref(), timeout=2)).result


async def test_a_pool_of_which_nothing_is_known_is_an_error_and_never_zero() -> None:
    async with serving(FakeReader(answer=blind)) as served:
        for call in (served.stub.GetMetrics(metrics_of(ref())), served.stub.IsActive(ref())):
            code, text = await served.refusal(call)
            assert code is grpc.StatusCode.UNAVAILABLE
            assert "vllm:num_requests_running has no series in namespace serving" in text


async def test_replicas_without_metrics_are_an_error_from_the_first_call() -> None:
    def silent(_key: object, at: float) -> Observation:
        return Observation(at=at, requested=3.0, serving=0.0, notes=("no replica reports vllm:num_requests_running",))

    async with serving(FakeReader(answer=silent)) as served:
        code, text = await served.refusal(served.stub.GetMetrics(metrics_of(ref())))
    assert code is grpc.StatusCode.UNAVAILABLE
    assert text == (
        "serving/vllm (deployment/vllm): no data to decide on yet: no replica reports vllm:num_requests_running"
    )


async def test_missing_data_holds_the_last_answer_and_then_is_an_error_until_it_is_back() -> None:
    async with serving(FakeReader(load=80, replicas=4), max_hold_age=60.0) as served:
        assert (await served.stub.GetMetrics(metrics_of(ref()))).metricValues[0].metricValue == 20
        served.reader.answer = blind
        for _ in range(3):
            await served.next_tick()
            assert (await served.stub.GetMetrics(metrics_of(ref()))).metricValues[0].metricValue == 20
            assert (await served.stub.IsActive(ref())).result is True
        await served.next_tick()
        code, text = await served.refusal(served.stub.GetMetrics(metrics_of(ref())))
        assert code is grpc.StatusCode.UNAVAILABLE
        assert "no data to decide on for 1 min 1 s" in text
        assert "held for at most 1 min: vllm:num_requests_running has no series in namespace serving" in text
        assert (await served.refusal(served.stub.IsActive(ref())))[0] is grpc.StatusCode.UNAVAILABLE
        served.reader.answer = None
        await served.next_tick()
        assert (await served.stub.IsActive(ref())).result is True


async def test_ticks_that_stopped_are_an_error_in_the_end() -> None:
    async with serving() as served:
        await served.stub.IsActive(ref())
        served.reader.gate = asyncio.Event()
        served.clock.advance(500)
        assert (await served.stub.IsActive(ref())).result is True
        served.clock.advance(101)
        code, text = await served.refusal(served.stub.IsActive(ref()))
        assert code is grpc.StatusCode.UNAVAILABLE
        assert "has evaluated no tick for 10 min 2 s" in text
        served.reader.gate.set()


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -1.0])
async def test_a_number_that_keda_would_misread_is_an_error(changed_decisions: dict[str, Any], value: float) -> None:
    changed_decisions["reported_value"] = value
    with capture_logs() as logs:
        async with serving() as served:
            for _ in range(2):
                code, text = await served.refusal(served.stub.GetMetrics(metrics_of(ref())))
                assert code is grpc.StatusCode.INTERNAL
                assert text.startswith("bug in this scaler")
            assert served.sample('vllm_scaler_grpc_handled_total{code="INTERNAL",method="GetMetrics"}') == 2
    assert len([record for record in logs if record["log_level"] == "error"]) == 1


async def test_an_error_s_text_fits_into_an_event() -> None:
    notes = tuple(f"series number {number} is missing" for number in range(1000))
    async with serving(FakeReader(answer=lambda _key, at: Observation(at=at, notes=notes))) as served:
        _, text = await served.refusal(served.stub.IsActive(ref()))
    assert len(text) == 1000
    assert text.endswith("…")


async def test_a_pool_too_many_is_refused_by_the_setting_s_name() -> None:
    async with serving(max_pools=1) as served:
        await served.stub.IsActive(ref("first"))
        code, text = await served.refusal(served.stub.IsActive(ref("second")))
        assert code is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert "max_pools" in text
        assert await served.stub.IsActive(ref("first"))


async def test_a_message_too_large_is_refused_and_the_service_goes_on() -> None:
    async with serving(max_message_bytes=65_536) as served:
        code, _ = await served.refusal(served.stub.IsActive(ref(modelName="m" * 70_000)))
        assert code is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert await served.stub.IsActive(ref())


async def test_two_triggers_of_one_scaled_object_are_two_pools() -> None:
    async with serving() as served:
        await served.stub.IsActive(ref())
        await served.stub.IsActive(ref(deployment="other"))
        await served.stub.IsActive(ref(scalerAddress="another.name:50051"))
        assert served.sample("vllm_scaler_pools") == 2


async def test_a_warning_about_metadata_is_logged_when_the_pool_is_new() -> None:
    with capture_logs() as logs:
        async with serving() as served:
            for _ in range(3):
                await served.stub.IsActive(ref(caCert="-----BEGIN"))
    warnings = [record["warning"] for record in logs if "warning" in record]
    assert len(warnings) == 1
    assert warnings[0].startswith("caCert in metadata")


async def test_the_metadata_of_these_tests_is_clean() -> None:
    assert parse_trigger("serving", "vllm", METADATA, tick_s=TICK_S).warnings == ()


async def test_keda_may_ask_for_thousands_of_pools_at_once_on_one_connection() -> None:
    async with serving() as served:
        answers = await asyncio.gather(*(served.stub.GetMetricSpec(ref()) for _ in range(5000)))
    assert len(answers) == 5000
