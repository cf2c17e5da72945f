"""The text of an answer of Prometheus's HTTP API -> samples."""

import json
import math
from collections.abc import Callable, Iterator
from typing import Any, Final

from scaler.errors import PrometheusDecodeError, PrometheusPartialError, PrometheusRejectedError
from scaler.promql.query import Sample

# Enough of a foreign text to recognise it by; an error page or a query echoed back can be long.
_QUOTED_CHARS: Final = 300
# Between two elements of a vector. No string can hold it, since a quotation mark within one has a backslash before it.
_BETWEEN: Final = b',{"metric":{'
# Bytes that are parsed at a time: about a millisecond.
_CHUNK_BYTES: Final = 64 * 1024
# Such warnings (Prometheus 2.49 and newer) are about single elements, which are then left out: that pool's reading is
# missing as it is, and one pool's broken histogram must not take the others' with it.
_ABOUT_ELEMENTS: Final = "PromQL warning:"


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
    samples: list[Sample] = []
    for elements in _results(body, "vector"):
        samples += [_sample(each, each.get("value")) for each in map(_object, elements) if "histogram" not in each]
    return tuple(samples)


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
    for element in (_object(each) for elements in _results(body, "matrix") for each in elements):
        values = element.get("values", [])
        if not isinstance(values, list):
            raise PrometheusDecodeError(f"the answer's element {quoted(element)!r} cannot be read")
        for value in values:
            sample = _sample(element, value)
            index = index_of(sample.at) if math.isfinite(sample.at) else -1
            if not 0 <= index < points:
                raise PrometheusDecodeError(f"the answer has a value at {sample.at}, which was not asked for")
            vectors[index].append(sample)
    return tuple(map(tuple, vectors))


def _results(body: bytes, kind: str) -> Iterator[list[Any]]:
    """Yield the elements of a complete answer of this type, some at a time."""
    envelope, chunks = _split(body)
    answer = _object(_parsed(envelope))
    if answer.get("status") == "error":
        raise PrometheusRejectedError(f"Prometheus refused the query: {describe_error(answer)}")
    warnings = answer.get("warnings") or []
    if not isinstance(warnings, list):
        raise PrometheusDecodeError(f"the answer's warnings are no list but {quoted(warnings)}")
    partial = [text for text in warnings if not str(text).startswith(_ABOUT_ELEMENTS)]
    if partial:
        raise PrometheusPartialError(
            f"the answer is incomplete: {quoted(partial[0])}; check the stores and remote reads behind the server"
        )
    data = _object(answer.get("data"))
    if data.get("resultType") != kind or not isinstance(data.get("result"), list):
        raise PrometheusDecodeError(f"the answer's result is no {kind} but {quoted(data.get('resultType'))}")
    yield data["result"]
    for chunk in chunks:
        elements = _parsed(chunk)
        if not isinstance(elements, list):
            raise PrometheusDecodeError(f"the answer has {quoted(elements)!r} where a list belongs")
        yield elements


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


def _parsed(body: bytes) -> object:
    try:
        return json.loads(body)
    except (ValueError, RecursionError) as error:
        start = quoted(body[:80].decode("utf-8", "replace"))
        raise PrometheusDecodeError(
            f"the answer is not JSON or is cut off ({quoted(error)}), it begins with {start!r}: "
            "check that the address is that of Prometheus"
        ) from error


def _object(value: object) -> dict[str, Any]:
    if isinstance(value, dict):
        return value
    raise PrometheusDecodeError(f"the answer has {quoted(value)!r} where an object belongs")


def _sample(element: dict[str, Any], value: Any) -> Sample:  # noqa: ANN401 - whatever JSON holds
    try:
        labels, (at, text) = element["metric"], value
        if type(text) is str and type(labels) is dict:
            # Joining them is the quickest way to be told that all of them are text.
            "".join(labels.values())
            return Sample(labels, float(text), float(at))
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise PrometheusDecodeError(f"the answer's element {quoted(element)!r} cannot be read") from error
    raise PrometheusDecodeError(f"the answer's element {quoted(element)!r} cannot be read")
