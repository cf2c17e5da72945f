"""The text of an answer of Prometheus's HTTP API -> samples."""

import math
from collections.abc import Callable, Iterator
from typing import Any, Final, TypeVar

from msgspec import DecodeError, Raw, Struct, ValidationError
from msgspec.json import Decoder

from scaler.errors import PrometheusDecodeError, PrometheusPartialError, PrometheusRejectedError
from scaler.promql.query import Sample

# Enough of a foreign text to recognise it by; an error page or a query echoed back can be long.
_QUOTED_CHARS: Final = 300
# Between two elements of a vector. No string can hold it, since a quotation mark within one has a backslash before it.
_BETWEEN: Final = b',{"metric":{'
# Bytes that are parsed at a time: about a millisecond, with the samples that are made of them.
_CHUNK_BYTES: Final = 64 * 1024
# Such warnings (Prometheus 2.49 and newer) are about single elements, which are then left out: that pool's reading is
# missing as it is, and one pool's broken histogram must not take the others' with it.
_ABOUT_ELEMENTS: Final = "PromQL warning:"


# No cycles can begin at what is read, so that the garbage collector need not look at it.
class _Element(Struct, gc=False):
    metric: dict[str, str]
    value: tuple[float, str] | None = None
    values: list[tuple[float, str]] | None = None
    histogram: Any = None
    histograms: Any = None


class _Data(Struct, gc=False):
    result: Raw
    resultType: Any = None  # noqa: N815 - the API's name


class _Answer(Struct, gc=False):
    status: Any = None
    errorType: Any = None  # noqa: N815 - the API's name
    error: Any = None
    warnings: list[Any] | None = None
    data: _Data | None = None


_ANSWERS: Final = Decoder(_Answer)
_ELEMENTS: Final = Decoder(list[_Element])

_T = TypeVar("_T")


def decode_vector(body: bytes) -> tuple[Sample, ...]:
    """Read the answer to an instant query that is promised to be a vector.

    Args:
        body: JSON as the HTTP API writes it. Values may be NaN or infinite. Elements that are native histograms are
            left out: no query of ours asks for one, and one pool's must not spoil the answer for the others.

    Returns:
        The elements in no particular order.

    Raises:
        PrometheusDecodeError: This is not JSON, is cut off, or holds another type of result.
        PrometheusPartialError: Some of the data behind the answer was not there.
        PrometheusRejectedError: The answer says that the query failed.
    """
    return tuple(
        _sample(element.metric, element.value)
        for elements in _results(body, "vector")
        for element in elements
        if element.value is not None or element.histogram is None
    )


def decode_matrix(body: bytes, index_of: Callable[[float], int], points: int) -> tuple[tuple[Sample, ...], ...]:
    """Read the answer to a range query as the vectors that instant queries would have given.

    Args:
        body: As for ``decode_vector``; parts of series that are native histograms are left out.
        index_of: Which of the instants a Unix time is, from 0.
        points: How many instants were asked for.

    Returns:
        A vector for each instant, oldest first; an empty one where there was nothing.

    Raises:
        PrometheusDecodeError: As for ``decode_vector``, or an instant that was not asked for.
        PrometheusPartialError: Some of the data behind the answer was not there.
        PrometheusRejectedError: The answer says that the query failed.
    """
    vectors: list[list[Sample]] = [[] for _ in range(points)]
    for element in (each for elements in _results(body, "matrix") for each in elements):
        if element.values is None and element.histograms is None:
            raise PrometheusDecodeError(f"the answer's series {quoted(element.metric)} has no values")
        for value in element.values or ():
            sample = _sample(element.metric, value)
            index = index_of(sample.at) if math.isfinite(sample.at) else -1
            if not 0 <= index < points:
                raise PrometheusDecodeError(f"the answer has a value at {sample.at}, which was not asked for")
            vectors[index].append(sample)
    return tuple(map(tuple, vectors))


def _results(body: bytes, kind: str) -> Iterator[list[_Element]]:
    """Yield the elements of a complete answer of this type, some at a time."""
    envelope, chunks = _split(body)
    answer = _read(_ANSWERS, envelope)
    if answer.status == "error":
        raise PrometheusRejectedError(
            f"Prometheus refused the query: {quoted(answer.errorType)}: {quoted(answer.error)}"
        )
    partial = [text for text in answer.warnings or () if not str(text).startswith(_ABOUT_ELEMENTS)]
    if partial:
        raise PrometheusPartialError(
            f"the answer is incomplete: {quoted(partial[0])}; check the stores and remote reads behind the server"
        )
    if answer.data is None:
        raise PrometheusDecodeError("the answer has no data")
    if answer.data.resultType != kind:
        raise PrometheusDecodeError(f"the answer's result is no {kind} but {quoted(answer.data.resultType)}")
    for chunk in (answer.data.result, *chunks):
        yield _read(_ELEMENTS, chunk)


def describe_error(answer: object) -> str:
    """Return type and text of the error that an answer reports, bounded; empty when it reports none."""
    if not isinstance(answer, dict) or answer.get("status") != "error":
        return ""
    return f"{quoted(answer.get('errorType'))}: {quoted(answer.get('error'))}"


def quoted(value: object) -> str:
    """Return a foreign value as text that is safe to show: bounded, in one line."""
    text = str(value)
    shown = text if len(text) <= _QUOTED_CHARS else f"{text[:_QUOTED_CHARS]}…"
    return "".join(char if char.isprintable() else " " for char in shown)


def _split(body: bytes) -> tuple[bytes, list[bytes]]:
    """Take elements out of a long answer, in lists that are parsed in a few milliseconds each.

    The parser lets nothing else run until it is done, and KEDA is to be answered meanwhile. What is left, with the
    first elements and the last, is a whole answer of its own.
    """
    start = body.find(_BETWEEN, _CHUNK_BYTES)
    if start < 0:
        return body, []
    chunks = []
    first, end = start, body.find(_BETWEEN, start + _CHUNK_BYTES)
    while end >= 0:
        chunks.append(b"[" + body[start + 1 : end] + b"]")
        start, end = end, body.find(_BETWEEN, end + _CHUNK_BYTES)
    return body[:first] + body[start:], chunks


def _read(decoder: Decoder[_T], text: bytes | Raw) -> _T:
    try:
        return decoder.decode(text)
    except ValidationError as error:
        raise PrometheusDecodeError(f"the answer is not what the HTTP API promises: {quoted(error)}") from error
    except (DecodeError, RecursionError) as error:
        start = quoted(bytes(text[:80]).decode("utf-8", "replace"))
        raise PrometheusDecodeError(
            f"the answer is not JSON or is cut off ({quoted(error)}), it begins with {start!r}: "
            "check that the address is that of Prometheus"
        ) from error


def _sample(labels: dict[str, str], value: tuple[float, str] | None) -> Sample:
    if value is None:
        raise PrometheusDecodeError(f"the answer's element {quoted(labels)} has no value")
    try:
        return Sample(labels, float(value[1]), value[0])
    except ValueError as error:
        raise PrometheusDecodeError(
            f"the answer's element {quoted(labels)} has the value {quoted(value[1])!r}, which is no number"
        ) from error
