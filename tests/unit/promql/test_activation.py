"""What wakes a pool at zero replicas: requests at a router, or in a gateway's queue. Absent is not idle."""

import math
from dataclasses import replace

import pytest

from scaler.errors import PrometheusTimeoutError
from scaler.model import GATEWAY_ACTIVATION, ROUTER_ACTIVATION, Absent, Extra, Observation
from scaler.promql import Sample
from tests.prometheus_rows import AT, LOCATOR, asking, has_note, observe

MISSING = Absent.MISSING
POOL = replace(LOCATOR, model_name="llama")
BOTH = pytest.mark.parametrize("name", [ROUTER_ACTIVATION, GATEWAY_ACTIVATION])


def row(signal: str, value: float = 1.0, **labels: str) -> Sample:
    """A row of the namespace, or of one model in it."""
    return Sample({"namespace": "serving", "signal": signal, **labels}, value, AT)


def read(name: str, *rows: Sample) -> Observation:
    return observe(locator=asking(name, locator=POOL), extras={name: rows})


class TestRouter:
    def test_the_requests_of_the_pools_model_are_counted(self) -> None:
        rows = [row("requests", 3, model="llama"), row("requests", 50, model="qwen"), row("runs")]
        assert read(ROUTER_ACTIVATION, *rows).extras == {ROUTER_ACTIVATION: Extra(3)}

    def test_a_model_that_nobody_has_asked_the_router_for_waits_for_nothing(self) -> None:
        assert read(ROUTER_ACTIVATION, row("runs")).extras[ROUTER_ACTIVATION] == Extra(0)

    def test_without_any_series_of_a_router_it_is_missing_and_not_idle(self) -> None:
        seen = read(ROUTER_ACTIVATION)
        assert seen.extras[ROUTER_ACTIVATION] == Extra(MISSING)
        assert has_note(seen, "activation:router is missing", "model llama", "router is not scraped")

    @pytest.mark.parametrize("value", [math.nan, math.inf, -1.0])
    def test_a_count_that_is_none_is_missing(self, value: float) -> None:
        seen = read(ROUTER_ACTIVATION, row("requests", value, model="llama"), row("runs"))
        assert seen.extras[ROUTER_ACTIVATION].value is MISSING


class TestGateway:
    def test_the_queue_of_the_pools_model_is_read(self) -> None:
        rows = [
            row("queued_for", 4, model="llama"),
            row("queued_as", 4, model="llama"),
            row("queued_for", 50, model="qwen"),
            row("flow_control", 3),
        ]
        assert read(GATEWAY_ACTIVATION, *rows).extras == {GATEWAY_ACTIVATION: Extra(4)}

    @pytest.mark.parametrize("side", ["queued_for", "queued_as"])
    def test_a_request_counts_by_the_model_it_goes_to_and_by_the_one_it_asked_for(self, side: str) -> None:
        seen = read(GATEWAY_ACTIVATION, row(side, 2, model="llama"), row("flow_control"))
        assert seen.extras[GATEWAY_ACTIVATION] == Extra(2)

    def test_an_empty_queue_is_zero(self) -> None:
        rows = [row("queued_for", 0, model="llama"), row("flow_control")]
        assert read(GATEWAY_ACTIVATION, *rows).extras[GATEWAY_ACTIVATION] == Extra(0)

    def test_flow_control_that_has_queued_nothing_for_the_model_yet_is_zero(self) -> None:
        seen = read(GATEWAY_ACTIVATION, row("flow_control"), row("picker"), row("old_picker"))
        assert seen.extras[GATEWAY_ACTIVATION] == Extra(0)
        assert not has_note(seen, GATEWAY_ACTIVATION)

    def test_a_picker_whose_flow_control_is_off_can_never_wake_the_pool_and_says_so(self) -> None:
        seen = read(GATEWAY_ACTIVATION, row("picker"), row("old_picker"))
        assert seen.extras[GATEWAY_ACTIVATION] == Extra(MISSING)
        assert has_note(seen, "activation:gateway is missing", "no flow-control series", "turn its flow control on")

    def test_an_old_picker_without_a_first_request_is_zero_with_a_warning(self) -> None:
        seen = read(GATEWAY_ACTIVATION, row("old_picker"))
        assert seen.extras[GATEWAY_ACTIVATION] == Extra(0)
        assert has_note(seen, "activation:gateway is taken for 0", "before 0.9")

    def test_without_any_series_of_a_picker_it_is_missing_and_not_idle(self) -> None:
        seen = read(GATEWAY_ACTIVATION)
        assert seen.extras[GATEWAY_ACTIVATION] == Extra(MISSING)
        assert has_note(seen, "activation:gateway is missing", "namespace serving", "bearer token")

    @pytest.mark.parametrize("value", [math.nan, math.inf, -1.0])
    def test_a_queue_that_is_none_is_missing(self, value: float) -> None:
        seen = read(GATEWAY_ACTIVATION, row("queued_for", value, model="llama"), row("flow_control"))
        assert seen.extras[GATEWAY_ACTIVATION].value is MISSING


@BOTH
def test_what_happens_in_another_namespace_wakes_nobody_here(name: str) -> None:
    rows = [row(signal, 9, model="llama", namespace="elsewhere") for signal in ("requests", "queued_for", "queued_as")]
    proofs = [row(signal, namespace="elsewhere") for signal in ("runs", "flow_control", "picker", "old_picker")]
    assert read(name, *rows, *proofs).extras[name].value is MISSING


@BOTH
def test_a_pool_without_a_model_cannot_be_woken_by_it(name: str) -> None:
    seen = observe(locator=asking(name))
    assert seen.extras[name] == Extra(MISSING)
    assert has_note(seen, f"{name} is missing", "known by their model")


@BOTH
def test_a_failed_query_is_missing_and_not_idle(name: str) -> None:
    seen = observe(locator=asking(name, locator=POOL), extras={name: PrometheusTimeoutError("no answer in 10 s")})
    assert seen.extras[name].value is MISSING
    assert has_note(seen, f"{name} is missing", "no answer in 10 s")
