"""The streams of KEDA's push scaler: only edges, only true, and they end before they are cut."""

import asyncio
from typing import Any

import grpc
import pytest

from scaler.model import Observation
from scaler.protos import externalscaler_pb2 as pb
from tests.fakes import FakeReader, eventually
from tests.grpc_service import Served, metrics_of, ref, serving

BAD = pb.ScaledObjectRef(name="vllm", namespace="serving", scalerMetadata={"deploymint": "vllm"})


class Listener:
    """Collects what a stream sends, until it ends."""

    def __init__(self, stream: Any) -> None:
        self.stream = stream
        self.heard: list[Any] = []
        self._task = asyncio.create_task(self._listen())

    async def code(self) -> grpc.StatusCode:
        """Wait until the stream ends, and return its status."""
        async with asyncio.timeout(5):
            await asyncio.wait((self._task,))
            code: grpc.StatusCode = await self.stream.code()
            return code

    async def _listen(self) -> None:
        try:
            async for message in self.stream:
                self.heard.append(message)
        except (grpc.aio.AioRpcError, asyncio.CancelledError):
            return


async def opened(served: Served, count: int = 1) -> list[Listener]:
    """Streams of StreamIsActive that the service has accepted."""
    before = served.sample("vllm_scaler_grpc_streams")
    listeners = [Listener(served.stub.StreamIsActive(ref())) for _ in range(count)]
    await eventually(lambda: served.sample("vllm_scaler_grpc_streams") == before + count)
    return listeners


async def test_a_stream_says_true_at_once_when_the_pool_is_active() -> None:
    async with serving() as served:
        await served.stub.IsActive(ref())
        (listener,) = await opened(served)
        await eventually(lambda: [one.result for one in listener.heard] == [True])


async def test_a_stream_opened_before_the_first_evaluation_hears_of_it() -> None:
    async with serving() as served:
        (listener,) = await opened(served)
        await eventually(lambda: [one.result for one in listener.heard] == [True])


async def test_a_stream_says_true_once_for_each_activation_and_never_false(changed_decisions: dict[str, Any]) -> None:
    changed_decisions["active"] = False
    async with serving() as served:
        await served.stub.IsActive(ref())
        (listener,) = await opened(served)
        for active in (False, True, True, True, False, False, True, True):
            changed_decisions["active"] = active
            await served.next_tick()
        await eventually(lambda: len(listener.heard) == 2)
    assert await listener.code() is grpc.StatusCode.OK
    assert [one.result for one in listener.heard] == [True, True]


async def test_a_stream_outlives_missing_data_and_failing_reads(changed_decisions: dict[str, Any]) -> None:
    changed_decisions["active"] = False
    async with serving(max_hold_age=30.0) as served:
        await served.stub.IsActive(ref())
        (listener,) = await opened(served)
        served.reader.answer = lambda _key, at: Observation(at=at)
        for _ in range(3):
            await served.next_tick()
        served.reader.failure = RuntimeError("broken")
        await served.next_tick()
        assert listener.heard == []
        served.reader.answer = served.reader.failure = None
        changed_decisions["active"] = True
        await served.next_tick()
        await eventually(lambda: len(listener.heard) == 1)


async def test_data_too_old_to_answer_with_activates_nothing(changed_decisions: dict[str, Any]) -> None:
    changed_decisions["active"] = False
    async with serving(max_hold_age=30.0) as served:
        await served.stub.IsActive(ref())
        (listener,) = await opened(served)
        served.reader.answer = lambda _key, at: Observation(at=at)
        for _ in range(2):
            await served.next_tick()
        changed_decisions["active"] = True
        await served.next_tick()
        assert (await served.refusal(served.stub.IsActive(ref())))[0] is grpc.StatusCode.UNAVAILABLE
        assert listener.heard == []


async def test_bad_metadata_ends_the_stream_with_what_is_wrong() -> None:
    async with serving() as served:
        stream = served.stub.StreamIsActive(BAD)
        code, text = await served.refusal(stream.read())
    assert code is grpc.StatusCode.INVALID_ARGUMENT
    assert "did you mean deployment" in text


async def test_the_metric_stream_gives_the_metric_and_stays_open_until_the_shutdown() -> None:
    async with serving() as served:
        listeners = [Listener(served.stub.StreamMetricSpec(request)) for request in (ref(), BAD)]
        await eventually(lambda: all(listener.heard for listener in listeners))
        await served.next_tick()
        assert served.sample("vllm_scaler_grpc_streams") == 2
    for listener in listeners:
        assert await listener.code() is grpc.StatusCode.OK
        assert [spec.metricName for one in listener.heard for spec in one.metricSpecs] == ["target-replicas"]


async def test_a_stream_ends_well_before_its_connection_is_cut_for_age() -> None:
    async with serving(max_connection_age_grace=1.0) as served:
        (listener,) = await opened(served)
        assert await listener.code() is grpc.StatusCode.OK


async def test_a_client_that_goes_away_leaves_nothing_behind() -> None:
    async with serving() as served:
        (listener,) = await opened(served)
        listener.stream.cancel()
        await eventually(lambda: served.sample("vllm_scaler_grpc_streams") == 0)
        handled = 'vllm_scaler_grpc_handled_total{code="CANCELLED",method="StreamIsActive"}'
        await eventually(lambda: served.sample(handled) == 1)


async def test_an_open_stream_keeps_its_pool_and_a_closed_one_does_not() -> None:
    async with serving(pool_idle_timeout=60.0) as served:
        (listener,) = await opened(served)
        for _ in range(6):
            await served.next_tick()
        assert served.sample("vllm_scaler_pools") == 1
        listener.stream.cancel()
        await eventually(lambda: served.sample("vllm_scaler_grpc_streams") == 0)
        await served.next_tick()
        assert served.sample("vllm_scaler_pools") == 0


async def test_streams_leave_room_for_calls() -> None:
    async with serving(max_concurrent_rpcs=10) as served:
        await opened(served, 5)
        code, text = await served.refusal(served.stub.StreamIsActive(ref()).read())
        assert code is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert "max_concurrent_rpcs" in text
        assert await served.stub.GetMetrics(metrics_of(ref()))


async def test_calls_beyond_the_limit_are_refused_and_do_not_queue_up() -> None:
    async with serving(FakeReader(gate=asyncio.Event()), max_concurrent_rpcs=10) as served:
        calls = [asyncio.ensure_future(served.stub.IsActive(ref())) for _ in range(18)]
        await eventually(lambda: sum(call.done() for call in calls) == 8)
        assert served.reader.gate is not None
        served.reader.gate.set()
        outcomes = await asyncio.gather(*calls, return_exceptions=True)
    refused = [one for one in outcomes if isinstance(one, grpc.aio.AioRpcError)]
    assert {one.code() for one in refused} == {grpc.StatusCode.RESOURCE_EXHAUSTED}
    assert len(refused) == 8


async def test_two_hundred_streams_slow_nobody_down(changed_decisions: dict[str, Any]) -> None:
    changed_decisions["active"] = False
    async with serving() as served:
        await served.stub.IsActive(ref())
        listeners = await opened(served, 200)
        async with asyncio.timeout(5):
            await asyncio.gather(*(served.stub.GetMetrics(metrics_of(ref())) for _ in range(200)))
        changed_decisions["active"] = True
        await served.next_tick()
        await eventually(lambda: all(len(listener.heard) == 1 for listener in listeners))
    assert {await listener.code() for listener in listeners} == {grpc.StatusCode.OK}


@pytest.mark.parametrize("method", ["StreamIsActive", "StreamMetricSpec"])
async def test_a_bug_in_a_stream_is_an_internal_error(method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async with serving() as served:

        def broken(*_: object) -> None:
            raise RuntimeError("bug")

        monkeypatch.setattr("scaler.service.servicer.zlib.crc32", broken)
        code, text = await served.refusal(getattr(served.stub, method)(ref()).read())
    assert code is grpc.StatusCode.INTERNAL
    assert text == "bug in this scaler, see its log: RuntimeError: bug"
