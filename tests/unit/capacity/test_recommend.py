import math
import re
from typing import Any

import pytest
import yaml

from scaler.capacity.recommend import Advice, Server, recommend, snippet
from scaler.capacity.slo import Slo
from scaler.capacity.sweep import Capacity, fit
from scaler.config.trigger import Trigger, parse_trigger
from tests.bench_results import results, steady

SLO = Slo(ttft_s=0.5, e2e_s=30.0)


def capacity(slo: Slo = SLO, **fields: Any) -> Capacity:
    found = fit(results(*(steady(seed=str(seed), **fields) for seed in range(3))), slo).capacity
    assert found is not None
    return found


def advice(server: Server | None = None, slo: Slo = SLO, **fields: Any) -> Advice:
    most = fields.pop("most", (math.inf, math.inf))
    given = recommend(capacity(slo, **fields), slo, server=server or Server(), most_tokens_per_s=most)
    assert given is not None
    return given


def parsed(text: str) -> Trigger:
    (trigger,) = yaml.safe_load(text)
    assert (trigger["type"], trigger["metricType"]) == ("external", "AverageValue")
    return parse_trigger("serving", "vllm", trigger["metadata"], tick_s=15.0)


def trigger_text(given: Advice, model: str = "meta-llama/Llama-3.1-8B-Instruct") -> str:
    return snippet(given, deployment="vllm-llama", model=model, scaler_address="vllm-scaler:50051")


def test_slots_are_the_requests_in_flight_rounded_down() -> None:
    given = advice(e2e=5.2)
    assert given.in_flight == pytest.approx(20.8)
    assert given.slots == 20
    assert advice(e2e=5.0).slots == 20  # a whole product is not lost to rounding


def test_slots_are_no_more_than_run_at_once() -> None:
    given = advice(Server(max_num_seqs=4, engines=2), e2e=5.2)
    assert given.slots == 8
    assert "only 8 run at once (--max-num-seqs)" in given.notes[0]


def test_slots_are_no_more_than_the_kv_cache_holds() -> None:
    given = advice(Server(kv_cache_tokens=2000), e2e=5.2)
    assert given.slots == 14  # 0.9 x 2000 / 128
    assert given.kv_usage_ratio == pytest.approx(20.8 * 128 / 2000)
    assert any("nine tenths of the KV cache hold 14 requests of 128 tokens" in note for note in given.notes)
    roomy = advice(Server(kv_cache_tokens=100_000), e2e=5.2)
    assert (roomy.slots, roomy.settings["kvCacheScaleUp"]) == (20, "0.9")


def test_without_a_known_kv_cache_it_is_said_that_nobody_looked() -> None:
    given = advice(e2e=5.2)
    assert given.kv_usage_ratio is None
    assert any("give --kv-cache-tokens" in note for note in given.notes)
    assert "kvCacheScaleUp" not in given.settings


def test_what_rounding_down_costs_is_said() -> None:
    given = advice(e2e=0.6)
    assert given.slots == 2
    assert any("2.4 requests in flight become 2 slot(s)" in note for note in given.notes)


def test_less_than_one_request_in_flight_lowers_the_saturation_of_the_one_slot() -> None:
    given = advice(e2e=0.07)
    assert given.in_flight == pytest.approx(0.28)
    assert given.slots == 1
    assert (given.settings["scaleUpSaturation"], given.settings["scaleDownSaturation"]) == ("0.28", "0.22")


def test_requests_too_short_to_be_seen_are_no_signal() -> None:
    given = advice(e2e=0.011)
    assert "scaleUpSaturation" not in given.settings
    assert any("are too few to steer by" in note for note in given.notes)


@pytest.mark.parametrize(
    ("slo_s", "seen_s", "chosen"),
    [(0.5, 0.4, 0.5), (0.6, 0.4, 0.5), (0.6, 0.55, 0.75), (0.005, 0.004, 0.01), (1.0, 0.1, 1.0), (9000.0, 0.1, 2560.0)],
)
def test_the_ttft_threshold_lies_on_a_bound_of_vllms_histogram(slo_s: float, seen_s: float, chosen: float) -> None:
    slo = Slo(ttft_s=slo_s)
    given = advice(slo=slo, ttft=seen_s, e2e=5.0)
    assert given.ttft_p95_s == chosen
    assert parsed(trigger_text(given)).warnings == ()


def test_a_bound_between_two_is_explained() -> None:
    assert any("0.6 s is no bound" in note for note in advice(slo=Slo(ttft_s=0.6), e2e=5.0).notes)


def test_without_a_bound_of_ttft_that_signal_is_off() -> None:
    given = advice(slo=Slo(e2e_s=30.0), e2e=5.0)
    assert given.settings["ttftP95Seconds"] == "off"


def test_another_attainment_than_95_per_cent_is_no_p95() -> None:
    notes = advice(slo=Slo(ttft_s=0.5, attainment=0.99), e2e=5.0).notes
    assert any("the SLO wants 99 %" in note for note in notes)


def test_rates_of_tokens_are_those_at_the_capacity_and_below_what_was_reached() -> None:
    given = advice(e2e=5.0)
    assert (given.prompt_tokens_per_s, given.generation_tokens_per_s) == (256, 256)
    given = advice(e2e=5.0, most=(200.0, 1000.0))
    assert (given.prompt_tokens_per_s, given.generation_tokens_per_s) == (180, 256)


def test_a_million_tokens_cost_what_the_hour_costs() -> None:
    cost = advice(Server(hourly_cost=2.5), e2e=5.0).cost
    assert cost is not None
    assert cost.output == pytest.approx(2.71, abs=0.005)
    assert cost.all == pytest.approx(cost.output / 2)
    assert advice(e2e=5.0).cost is None


def test_without_times_in_the_system_there_are_no_slots() -> None:
    lists = ("input_lens", "output_lens", "ttfts", "latencies", "start_times", "queue_times", "errors")
    files = [{k: v for k, v in steady(seed=str(seed)).items() if k not in lists} for seed in range(3)]
    found = fit(results(*(file | {"p99_ttft_ms": 10.0} for file in files)), Slo(ttft_s=0.5)).capacity
    assert found is not None
    assert recommend(found, SLO, server=Server()) is None


@pytest.mark.parametrize("server", [{"max_num_seqs": 0}, {"hourly_cost": math.inf}, {"kv_cache_tokens": -1}])
def test_impossible_servers_are_refused(server: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="sizes and costs of a replica are above 0"):
        Server(**server)


SERVERS = [Server(), Server(max_num_seqs=256, kv_cache_tokens=100_000, hourly_cost=2.5), Server(max_num_seqs=4)]


@pytest.mark.parametrize("server", SERVERS)
@pytest.mark.parametrize("e2e", [0.011, 0.0162, 0.02, 0.07, 0.2, 1.0, 5.2, 25.0])
def test_the_trigger_is_one_that_the_scaler_takes_without_a_warning(server: Server, e2e: float) -> None:
    given = advice(server, e2e=e2e, ttft=0.01)
    trigger = parsed(trigger_text(given))
    assert trigger.warnings == ()
    assert trigger.policy.slots_per_replica == given.slots
    assert trigger.policy.replica_hourly_cost == server.hourly_cost


@pytest.mark.parametrize("model", ["", "/models/llama: 8b #1", 'a"b', "ünï"])
def test_any_name_of_a_model_keeps_the_trigger_readable(model: str) -> None:
    trigger = parsed(trigger_text(advice(e2e=5.0), model))
    assert trigger.policy.locator.model_name == (model or None)


def test_the_guards_in_the_comments_can_be_switched_on() -> None:
    text = re.sub(r"^    # (\w+: )", r"    \1", trigger_text(advice(e2e=5.0)), flags=re.MULTILINE)
    trigger = parsed(text)
    assert trigger.warnings == ()
    assert {"prompt_tokens", "generation_tokens"} <= {signal.name for signal in trigger.policy.signals}
