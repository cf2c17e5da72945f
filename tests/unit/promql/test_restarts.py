"""How often engines restarted: what the rows mean."""

import math

import pytest

from scaler.model import Absent, Extra, Observation
from scaler.promql import Sample
from tests.prometheus_rows import asking, engine, has_note, observe, scraped


def read(*values: float) -> Observation:
    rows = [Sample({"namespace": "serving", "workload": "vllm"}, value, 0.0) for value in values]
    return observe(locator=asking("restarts"), replicas=engine(), freshness=[scraped()], extras={"restarts": rows})


@pytest.mark.parametrize("value", [0.0, 3.0])
def test_restarts_are_a_count(value: float) -> None:
    assert read(value).extras["restarts"] == Extra(value)


def test_no_row_is_missing_and_not_zero() -> None:
    seen = read()
    assert seen.extras["restarts"] == Extra(Absent.MISSING)
    assert has_note(seen, "restarts are missing", "vllm:generation_tokens_total")


@pytest.mark.parametrize("value", [math.nan, -1.0, math.inf])
def test_what_is_no_count_is_missing(value: float) -> None:
    seen = read(value)
    assert seen.extras["restarts"] == Extra(Absent.MISSING)
    assert has_note(seen, "restarts are missing", "which is no count")
