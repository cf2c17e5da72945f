"""KEDA's external scaler protocol, answered from snapshots.

KEDA sets no deadline and stalls a ScaledObject while a call hangs, so no handler waits for Prometheus: only the first
calls for a pool wait, for a bounded time, until the tick loop has evaluated it once and its past is read. Others cost
two look-ups.

What KEDA makes of answers shapes ours:

- An error of GetMetricSpec is hidden from the user and stops everything else of the ScaledObject, so it always answers.
- An error of GetMetrics or IsActive reaches the user word for word, and replicas stay.
- KEDA scales by a stream's ``true`` at once, takes each further one as fresh activity, and ignores ``false``.
- After a stream that ended well KEDA opens the next within two seconds; after one that broke it waits up to a minute.
  So streams end by themselves before the connection under them is closed for its age.
"""

import asyncio
import functools
import math
import re
import time
import zlib
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Any, Final, TypeVar

import grpc
import structlog

from scaler.adapters.clock import Clock
from scaler.adapters.logs import OncePerKey
from scaler.adapters.record import clip
from scaler.adapters.telemetry import Telemetry
from scaler.config.trigger import Trigger
from scaler.errors import ConfigError, LimitError
from scaler.model import Decision
from scaler.protos import externalscaler_pb2 as pb
from scaler.protos import externalscaler_pb2_grpc as pb_grpc
from scaler.service.answers import RefusedError, answerable, not_evaluated
from scaler.service.registry import PoolEntry, Registry

METRIC_NAME: Final = "target-replicas"
"""KEDA makes it a path segment of an API, so it has lower-case letters and dashes only."""
METRIC_TARGET: Final = 1
"""With AverageValue and a target of 1 the value is the replica count. It never changes: KEDA would not notice."""
MAX_METADATA_CHARS: Final = 16_384
"""Longest trigger metadata, names and values together; a long one of ours has a tenth of it."""
_INDEX_PREFIX: Final = re.compile(r"^s\d+-")
_MAX_FAULT_CHARS: Final = 300
# Streams end between half and nine tenths of their longest life, spread by pool: they must not all return at once.
_SHORTEST_LIFE: Final = 0.5
_LIFE_SPREAD: Final = 0.4

_LOG = structlog.stdlib.get_logger("scaler.grpc")

_Request = TypeVar("_Request")
_Response = TypeVar("_Response")
_Context = grpc.aio.ServicerContext[Any, Any]
_Handler = Callable[["ExternalScaler", _Request, _Context], Coroutine[Any, Any, _Response]]


def _answered(method: _Handler[_Request, _Response]) -> _Handler[_Request, _Response]:
    """Turn what a handler raises into a gRPC status, and count the call."""
    name = getattr(method, "__name__", "?")
    is_stream = name.startswith("Stream")

    @functools.wraps(method)
    async def handler(self: "ExternalScaler", request: _Request, context: _Context) -> _Response:
        started = time.perf_counter()
        code, detail = grpc.StatusCode.CANCELLED, ""
        try:
            response = await method(self, request, context)
        except RefusedError as refusal:
            code, detail = refusal.code, refusal.detail
        except Exception as error:  # noqa: BLE001 - a bug in one call must not be a broken connection for all
            code, detail = grpc.StatusCode.INTERNAL, self.report_fault(name, error)
        else:
            code = grpc.StatusCode.OK
            return response
        finally:
            self.telemetry.rpc_done(name, code.name, None if is_stream else time.perf_counter() - started)
        await context.abort(code, detail)
        raise AssertionError  # abort() always raises

    return handler


class ExternalScaler(pb_grpc.ExternalScalerServicer):
    """The five calls of the protocol.

    Args:
        registry: The pools; a call for an unknown one adds it.
        clock: The source of time.
        telemetry: Own metrics.
        parse: Reads a trigger's metadata: namespace, ScaledObject and metadata in, or a ``ConfigError``.
        max_hold_age_s: How long the last answer is held without data.
        first_answer_timeout_s: How long the first calls for a pool wait.
        max_streams: The most streams open at once.
        max_stream_s: The longest life of a stream.
        max_cached: How many triggers' parsed metadata are kept.
    """

    def __init__(
        self,
        registry: Registry,
        clock: Clock,
        telemetry: Telemetry,
        *,
        parse: Callable[[str, str, Mapping[str, str]], Trigger],
        max_hold_age_s: float,
        first_answer_timeout_s: float,
        max_streams: int,
        max_stream_s: float,
        max_cached: int,
    ) -> None:
        self.telemetry = telemetry
        self._registry = registry
        self._clock = clock
        self._parse = parse
        self._max_hold_age_s = max_hold_age_s
        self._first_answer_timeout_s = first_answer_timeout_s
        self._max_streams = max_streams
        self._max_stream_s = max_stream_s
        self._parsed = functools.lru_cache(maxsize=max_cached)(self._parse_now)
        self._streams: set[asyncio.Timeout] = set()
        self._ending = False
        self._said = OncePerKey()

    @_answered
    async def GetMetricSpec(self, request: pb.ScaledObjectRef, context: _Context) -> pb.GetMetricSpecResponse:
        """Answer with the one metric and its target, whatever the metadata; a pool that is fine is evaluated soon."""
        self._meet(request)
        return _specs()

    @_answered
    async def GetMetrics(self, request: pb.GetMetricsRequest, context: _Context) -> pb.GetMetricsResponse:
        """Answer with the replicas that the pool needs, as one value.

        KEDA before 2.17 reads the whole number alone, and every version falls back to it where the fraction is 0.
        """
        self._note_foreign_name(request.metricName)
        decision = await self._decision(request.scaledObjectRef)
        value = decision.reported_value
        if value is None or not math.isfinite(value) or value < 0:
            raise ValueError(f"the law reported {value} for {request.scaledObjectRef.name}")
        answer = pb.MetricValue(metricName=METRIC_NAME, metricValue=math.ceil(value), metricValueFloat=value)
        return pb.GetMetricsResponse(metricValues=[answer])

    @_answered
    async def IsActive(self, request: pb.ScaledObjectRef, context: _Context) -> pb.IsActiveResponse:
        """Answer whether the pool needs any replica at all, from the same snapshot as GetMetrics."""
        decision = await self._decision(request)
        return pb.IsActiveResponse(result=decision.active)

    @_answered
    async def StreamIsActive(self, request: pb.ScaledObjectRef, context: _Context) -> None:
        """Send ``true`` whenever the pool becomes active, and at once where it is already; nothing else, ever."""
        entry = self._pool(request)
        seen = entry.activations - entry.signalled
        async with self._stream(str(entry.key), entry):
            while True:
                seen = await entry.activation_after(seen)
                await context.write(pb.IsActiveResponse(result=True))

    @_answered
    async def StreamMetricSpec(self, request: pb.ScaledObjectRef, context: _Context) -> None:
        """Send the metric and its target, and stay open: they never change."""
        entry = self._meet(request)
        async with self._stream(f"{request.namespace}/{request.name}", entry):
            await context.write(_specs())
            await asyncio.Event().wait()

    def end_streams(self) -> None:
        """End all streams with OK, and each new one at once: the server is shutting down."""
        self._ending = True
        now = asyncio.get_running_loop().time()
        for stream in self._streams:
            if not stream.expired():
                stream.reschedule(now)

    def report_fault(self, where: str, error: Exception) -> str:
        """Count an unexpected error, log it with its traceback when it is new, and return what the caller is told."""
        self.telemetry.fault(where)
        if self._said.first((where, type(error), str(error))):
            _LOG.error("unexpected error in a call", where=where, exc_info=error)
        return clip(f"bug in this scaler, see its log: {type(error).__name__}: {error}", _MAX_FAULT_CHARS)

    async def _decision(self, ref: pb.ScaledObjectRef) -> Decision:
        """Return the pool's newest decision, waiting for the first one, and a short time for one that knows the past.

        Before the past is read, what this process publishes can be lower than what was published before a restart.
        """
        entry = self._pool(ref)
        if not entry.decided.is_set():
            try:
                await asyncio.wait_for(entry.decided.wait(), self._first_answer_timeout_s)
            except TimeoutError:
                raise not_evaluated(entry, self._first_answer_timeout_s) from None
        if not entry.settled.is_set():
            left_s = entry.first_asked_at + self._first_answer_timeout_s - self._clock.monotonic()
            with suppress(TimeoutError):
                await asyncio.wait_for(entry.settled.wait(), left_s)
        return answerable(entry, self._clock.now(), self._max_hold_age_s)

    def _pool(self, ref: pb.ScaledObjectRef) -> PoolEntry:
        """Return the pool of a call, adding it on first sight.

        Raises:
            RefusedError: INVALID_ARGUMENT with all that is wrong with the metadata, or RESOURCE_EXHAUSTED.
        """
        metadata = tuple(sorted(ref.scalerMetadata.items()))
        if sum(len(name) + len(value) for name, value in metadata) > MAX_METADATA_CHARS:
            detail = f"trigger metadata is longer than {MAX_METADATA_CHARS} characters: shorten its values"
            raise RefusedError(grpc.StatusCode.INVALID_ARGUMENT, detail)
        trigger = self._parsed(ref.namespace, ref.name, metadata)
        if isinstance(trigger, str):
            raise RefusedError(grpc.StatusCode.INVALID_ARGUMENT, trigger)
        try:
            entry, is_new = self._registry.ask(trigger)
        except LimitError as error:
            raise RefusedError(grpc.StatusCode.RESOURCE_EXHAUSTED, str(error)) from None
        if is_new:
            locator = str(trigger.policy.locator)
            _LOG.info("pool first asked for", namespace=ref.namespace, scaled_object=ref.name, pool=locator)
            for warning in trigger.warnings:
                _LOG.warning("trigger metadata", namespace=ref.namespace, scaled_object=ref.name, warning=warning)
        return entry

    def _meet(self, ref: pb.ScaledObjectRef) -> PoolEntry | None:
        """Return the pool of a call, or None where it is refused: GetMetrics and IsActive say why."""
        try:
            return self._pool(ref)
        except RefusedError as refusal:
            if self._said.first((ref.namespace, ref.name, refusal.detail)):
                _LOG.warning("refused", namespace=ref.namespace, scaled_object=ref.name, why=refusal.detail)
        except Exception as error:  # noqa: BLE001 - GetMetricSpec answers whatever happens
            self.report_fault("pool", error)
        return None

    def _parse_now(self, namespace: str, name: str, metadata: tuple[tuple[str, str], ...]) -> Trigger | str:
        """Parse trigger metadata; what is wrong with it is a result, so that it is kept like one that is right."""
        try:
            return self._parse(namespace, name, dict(metadata))
        except ConfigError as error:
            return str(error)

    def _note_foreign_name(self, metric: str) -> None:
        """Log a metric name that is not ours, once: KEDA has sent prefixed ones, and labels the value itself."""
        plain = _INDEX_PREFIX.sub("", metric).casefold()
        if plain not in ("", METRIC_NAME) and self._said.first(("metric", plain)):
            _LOG.warning("asked for a metric of another name; answered all the same", metric=clip(metric))

    @asynccontextmanager
    async def _stream(self, name: str, entry: PoolEntry | None) -> AsyncIterator[None]:
        """Keep a stream until its life is over or the server shuts down, and end it with OK."""
        if len(self._streams) >= self._max_streams:
            detail = f"{self._max_streams} streams are open, the most that max_concurrent_rpcs leaves room for"
            raise RefusedError(grpc.StatusCode.RESOURCE_EXHAUSTED, detail)
        share = _SHORTEST_LIFE + _LIFE_SPREAD * zlib.crc32(name.encode()) / 2**32
        life = asyncio.timeout(0 if self._ending else share * self._max_stream_s)
        self._streams.add(life)
        self.telemetry.streams_open(len(self._streams))
        if entry is not None:
            entry.streams += 1
        try:
            async with life:
                yield
        except TimeoutError:
            if not life.expired():
                raise
        finally:
            self._streams.discard(life)
            self.telemetry.streams_open(len(self._streams))
            if entry is not None:
                entry.streams -= 1


def _specs() -> pb.GetMetricSpecResponse:
    spec = pb.MetricSpec(metricName=METRIC_NAME, targetSize=METRIC_TARGET, targetSizeFloat=float(METRIC_TARGET))
    return pb.GetMetricSpecResponse(metricSpecs=[spec])
