import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scaler.errors import PrometheusDecodeError, PrometheusError, PrometheusPartialError, PrometheusRejectedError
from scaler.promql import Sample
from scaler.promql.answer import decode_matrix, decode_vector


def body(*elements: Any, kind: str = "vector", **more: Any) -> bytes:
    return json.dumps({"status": "success", "data": {"resultType": kind, "result": elements}, **more}).encode()


def element(value: str, **labels: str) -> dict[str, Any]:
    return {"metric": labels, "value": [1795983676.44, value]}


@pytest.mark.parametrize(
    ("text", "value"),
    [("4", 4.0), ("0.0019540791402051783", 0.0019540791402051783), ("+Inf", math.inf), ("-Inf", -math.inf)],
)
def test_values_come_as_text_and_become_numbers(text: str, value: float) -> None:
    (sample,) = decode_vector(body(element(text, pod="a")))
    assert (sample.labels, sample.value, sample.at) == ({"pod": "a"}, value, 1795983676.44)


def test_nan_is_a_value() -> None:
    (sample,) = decode_vector(body(element("NaN")))
    assert math.isnan(sample.value)


def test_an_empty_vector_is_an_answer() -> None:
    assert decode_vector(body()) == ()


def test_warnings_mean_that_data_is_missing() -> None:
    with pytest.raises(PrometheusPartialError, match="No StoreAPIs matched"):
        decode_vector(body(element("1"), warnings=["No StoreAPIs matched for this query"]))


def test_remarks_about_the_query_or_single_elements_are_no_missing_data() -> None:
    warning = 'PromQL warning: bucket label "le" is missing or has a malformed value of ""'
    assert decode_vector(body(element("1"), warnings=[warning], infos=["PromQL info: metric might not be a counter"]))


def test_a_native_histogram_does_not_spoil_the_other_elements() -> None:
    histogram = {"metric": {"pod": "b"}, "histogram": [1795983676.44, {"count": "1", "sum": "2"}]}
    assert [sample.labels for sample in decode_vector(body(histogram, element("1", pod="a")))] == [{"pod": "a"}]


def test_a_reported_error_is_a_refusal() -> None:
    answer = {"status": "error", "errorType": "bad_data", "error": "parse error"}
    with pytest.raises(PrometheusRejectedError, match="bad_data: parse error"):
        decode_vector(json.dumps(answer).encode())


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"<html><body>Sign in</body></html>",
        body(element("1"))[:-7],
        b"\xff\xfe",
        b"[" * 100_000,
        b"null",
        b"[]",
        b'{"status":"success"}',
        b'{"status":"success","data":[]}',
        b'{"status":"success","data":{"resultType":"vector"}}',
        b'{"status":"success","warnings":5,"data":{"resultType":"vector","result":[]}}',
        body(kind="matrix"),
        body("element"),
        body({"metric": {}}),
        body({"metric": {}, "value": [1]}),
        body({"metric": {}, "value": 1}),
        body({"metric": {}, "value": [1, 2]}),
        body({"metric": {}, "value": [1, "two"]}),
        body({"metric": {}, "value": ["now", "1"]}),
        body({"metric": {"pod": 1}, "value": [1, "1"]}),
        body({"metric": [], "value": [1, "1"]}),
        body({"metric": {}, "value": [10**400, "1"]}),
    ],
)
def test_what_the_api_does_not_promise_is_a_decode_error(text: bytes) -> None:
    with pytest.raises(PrometheusDecodeError) as caught:
        decode_vector(text)
    assert len(str(caught.value)) < 1000


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda children: (
        st.lists(children, max_size=3)
        | st.dictionaries(
            st.sampled_from(["status", "data", "result", "resultType", "metric", "value", "values", "warnings"]),
            children,
            max_size=4,
        )
    ),
)


@given(st.binary() | json_values.map(lambda value: json.dumps(value).encode()) | json_values.map(body))
def test_any_bytes_are_an_answer_or_a_prometheus_error(text: bytes) -> None:
    try:
        samples = decode_vector(text)
    except PrometheusError:
        return
    assert isinstance(samples, tuple)


ODD = 'a,{"metric":{"x":"y"}}]}'


def compact(elements: int, **more: Any) -> bytes:
    """A long answer as Prometheus writes it, without spaces, with a label that looks like the end of an element."""
    vector = [element(str(number), pod=f"pod-{number}", odd=ODD) for number in range(elements)]
    answer = {"status": "success", "data": {"resultType": "vector", "result": vector}, **more}
    return json.dumps(answer, separators=(",", ":")).encode()


@pytest.mark.parametrize("elements", [1, 700, 5000])
def test_a_long_answer_has_each_element_once(elements: int) -> None:
    samples = decode_vector(compact(elements))
    assert {(sample.labels["pod"], sample.value) for sample in samples} == {(f"pod-{n}", n) for n in range(elements)}
    assert len(samples) == elements
    assert {sample.labels["odd"] for sample in samples} == {ODD}


def test_what_follows_a_long_answer_is_read_too() -> None:
    with pytest.raises(PrometheusPartialError, match="No StoreAPIs matched"):
        decode_vector(compact(5000, warnings=["No StoreAPIs matched for this query"]))


@pytest.mark.parametrize("share", [0.1, 0.3, 0.5, 0.9])
def test_a_long_answer_that_is_cut_off_or_spoilt_is_none(share: float) -> None:
    whole = compact(5000)
    at = int(len(whole) * share)
    for spoilt in (whole[:at], whole[:at] + b"\x01" + whole[at + 1 :]):
        with pytest.raises(PrometheusDecodeError):
            decode_vector(spoilt)


def matrix(text: bytes) -> tuple[tuple[Sample, ...], ...]:
    """Read an answer for the instants 30, 45 and 60."""
    return decode_matrix(text, lambda at: round((at - 30) / 15), 3)


def series(*values: Any, **labels: str) -> dict[str, Any]:
    return {"metric": labels, "values": values}


def test_a_matrix_is_a_vector_for_each_instant() -> None:
    first, second, third = matrix(
        body(series([30, "1"], [60, "NaN"], pod="a"), series([60.0, "2"], pod="b"), kind="matrix")
    )
    assert first == (Sample({"pod": "a"}, 1.0, 30.0),)
    assert second == ()
    assert [(sample.labels["pod"], sample.at) for sample in third] == [("a", 60), ("b", 60)]


def test_the_instants_of_native_histograms_are_left_out() -> None:
    histogram = {"metric": {"pod": "b"}, "histograms": [[30, {"count": "1", "sum": "2"}]]}
    assert [len(vector) for vector in matrix(body(histogram, series([45, "1"]), kind="matrix"))] == [0, 1, 0]


@pytest.mark.parametrize(
    "text",
    [
        body(element("1")),
        body(series([75, "1"]), kind="matrix"),
        body(series([15, "1"]), kind="matrix"),
        body(series(["30", "one"]), kind="matrix"),
        body(series(30, "1"), kind="matrix"),
        body({"metric": {}, "values": "30"}, kind="matrix"),
        body({"values": [[30, "1"]]}, kind="matrix"),
        body(series([1e400, "1"]), kind="matrix"),
    ],
)
def test_a_matrix_that_the_api_does_not_promise_is_a_decode_error(text: bytes) -> None:
    with pytest.raises(PrometheusDecodeError) as caught:
        matrix(text)
    assert len(str(caught.value)) < 1000


@given(st.binary() | json_values.map(lambda value: body(value, kind="matrix")))
def test_any_bytes_are_a_matrix_or_a_prometheus_error(text: bytes) -> None:
    try:
        vectors = matrix(text)
    except PrometheusError:
        return
    assert len(vectors) == 3
