"""The text of an answer of Prometheus's HTTP API -> samples."""

import json
import math
from collections.abc import Callable
from typing import Any, Final

from scaler.errors import PrometheusDecodeError, PrometheusPartialError, PrometheusRejectedError
from scaler.promql.query import Sample

# Enough of a foreign text to recognise it by; an error page or a query echoed back can be long.
_QUOTED_CHARS: Final = 300
# Such warnings (Prometheus 2.49 and newer) are about single elements, which are then left out: that pool's reading is
# missing as it is, and one pool's broken histogram must not take the others' with it.
_ABOUT_ELEMENTS: Final = "PromQL warning:"


def decode_vector(body: bytes) -> tuple[Sample, ...]:
    """Read the answer to an instant query that is promised to be a vector.

    Args:
        body: JSON as the HTTP API writes it. Values may be NaN or infinite. Elements that are native histograms are
            left out: no query of ours asks for one, and one pool's must not spoil the answer for the others.

    Raises:
        PrometheusDecodeError: This is not JSON, is cut off, or holds another type of result.
        PrometheusPartialError: Some of the data behind the answer was not there.
        PrometheusRejectedError: The answer says that the query failed.
    """
    return tuple(
        _sample(element, element.get("value")) for element in _result(body, "vector") if "histogram" not in element
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
    for element in _result(body, "matrix"):
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


def _result(body: bytes, kind: str) -> list[dict[str, Any]]:
    """Return the elements of a complete answer of this type."""
    answer = _object(_parsed(body))
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
    return [_object(element) for element in data["result"]]


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
    labels = element.get("metric")
    try:
        at, text = value
        if isinstance(text, str) and isinstance(labels, dict) and all(isinstance(of, str) for of in labels.values()):
            return Sample(labels, float(text), float(at))
    except (TypeError, ValueError, OverflowError) as error:
        raise PrometheusDecodeError(f"the answer's element {quoted(element)!r} cannot be read") from error
    raise PrometheusDecodeError(f"the answer's element {quoted(element)!r} cannot be read")
