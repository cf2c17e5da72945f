"""The service's own metrics: clean, complete, and silent about what is not known."""

import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from scaler.adapters.pool_metrics import PoolView
from scaler.adapters.telemetry import Telemetry
from scaler.model import (
    Absent,
    Action,
    Observation,
    PoolKey,
    PoolLocator,
    PoolPolicy,
    ReasonCode,
    ReplicaLoad,
    Workload,
    WorkloadKind,
)
from scaler.policy.decide import advance
from scaler.policy.history import History
from tests.builders import LOCATOR, observation, policy

KEY = PoolKey("serving", "llama", "0a1b2c3d")
POOL = 'namespace="serving",pool="deployment/vllm",scaled_object="llama",trigger="0a1b2c3d"'


def view(*seen: Observation, pool: PoolPolicy | None = None, history: History | None = None) -> PoolView:
    """A pool that has seen these observations one after the other."""
    pool, past, decision = pool or policy(), history or History(), None
    for one in seen:
        past, decision = advance(pool, past, one)
    return PoolView(KEY, pool, past, decision, {(Action.SCALE_UP, ReasonCode.BURST): 3})


def scrape(*views: PoolView, now: float = 0.0, telemetry: Telemetry | None = None) -> dict[str, float]:
    """Every series of a scrape by its name and labels, which are in order of their names."""
    telemetry = telemetry or Telemetry()
    telemetry.pools, telemetry.now = lambda: views, lambda: now
    series = {}
    for row in telemetry.exposition()[0].decode().splitlines():
        if row.startswith("vllm_scaler_"):
            name, value = row.rsplit(" ", 1)
            series[name] = float(value)
    return series


def of_pool(series: dict[str, float], name: str, labels: str = "") -> float | None:
    wanted = f"vllm_scaler_{name}{{{','.join(sorted((POOL + labels).split(',')))}}}"
    return {_sorted(key): value for key, value in series.items()}.get(wanted)


def _sorted(series: str) -> str:
    name, _, labels = series.partition("{")
    return f"{name}{{{','.join(sorted(labels.rstrip('}').split(',')))}}}"


def busy_telemetry() -> Telemetry:
    """Every family with at least one series."""
    telemetry = Telemetry()
    telemetry.query_done("default", "replicas", 0.02, None)
    telemetry.query_done("eu-1", "latency", 10.0, "PrometheusTimeoutError")
    telemetry.tick_done(0.3)
    telemetry.ticks_skipped(2)
    telemetry.rpc_done("GetMetrics", "OK", 0.001)
    telemetry.rpc_done("StreamIsActive", "CANCELLED", None)
    telemetry.streams_open(1)
    telemetry.fault("tick")
    telemetry.pools = lambda: (view(observation(0, 80, 4)),)
    return telemetry


def test_promtool_has_nothing_to_say(promtool_bin: Path) -> None:
    text, _ = busy_telemetry().exposition()
    own = b"".join(line for line in text.splitlines(keepends=True) if b"vllm_scaler_" in line)
    result = subprocess.run([promtool_bin, "check", "metrics"], input=own, capture_output=True, check=False)
    assert (result.returncode, result.stdout + result.stderr) == (0, b"")


def test_a_pool_shows_its_decision() -> None:
    series = scrape(view(observation(0, 80, 4)), now=7.5)
    shown = {
        name: of_pool(series, name)
        for name in (
            "target_replicas",
            "reported_replicas",
            "requested_replicas",
            "serving_replicas",
            "pending_replicas",
            "decision_age_seconds",
            "data_age_seconds",
        )
    }
    assert shown == {
        "target_replicas": 8,
        "reported_replicas": 8,
        "requested_replicas": 4,
        "serving_replicas": 4,
        "pending_replicas": 0,
        "decision_age_seconds": 7.5,
        "data_age_seconds": 7.5,
    }
    assert of_pool(series, "decision_info", ',action="scale_up",reason="burst"') == 1
    assert of_pool(series, "decisions_total", ',action="scale_up",reason="burst"') == 3


def test_a_pool_shows_what_it_carries_and_may_carry() -> None:
    loads = tuple(ReplicaLoad(f"vllm-{number}", running, 0.0) for number, running in enumerate((6.0, 3.0, 3.0)))
    seen = observation(0, 12, 3, replicas=loads, kv_usage_ratios=(0.1, 0.2, 0.9))
    series = scrape(view(seen, pool=policy(max_replicas=7, cold_start_timeout_s=300.0)))
    assert {
        name: of_pool(series, name)
        for name in (
            "replica_slots",
            "max_replicas",
            "cold_start_timeout_seconds",
            "running_requests",
            "waiting_requests",
            "ready_replicas",
            "generation_tokens_per_second",
            "kv_cache_fullest_ratio",
            "imbalance_ratio",
            "sample_age_seconds",
        )
    } == {
        "replica_slots": 4,
        "max_replicas": 7,
        "cold_start_timeout_seconds": 300,
        "running_requests": 12,
        "waiting_requests": 0,
        "ready_replicas": 3,
        "generation_tokens_per_second": 500,
        "kv_cache_fullest_ratio": 0.9,
        "imbalance_ratio": 1.5,
        "sample_age_seconds": 5,
    }


def test_a_pool_shows_the_needs_between_which_nothing_changes() -> None:
    series = scrape(view(*(observation(tick, 12, 4) for tick in range(20))))
    assert (of_pool(series, "up_need_replicas"), of_pool(series, "down_need_replicas")) == (3, 5)


def test_a_pool_shows_for_how_long_replicas_have_been_starting() -> None:
    waiting = [observation(tick, 60, 8, running=16.0, waiting=44.0, serving=4.0, ready=4.0) for tick in range(5)]
    assert of_pool(scrape(view(*waiting)), "starting_seconds") == 60
    assert of_pool(scrape(view(observation(0, 8, 4))), "starting_seconds") == 0
    unknown = observation(5, 60, 8, serving=Absent.MISSING, ready=Absent.MISSING)
    assert of_pool(scrape(view(*waiting, unknown)), "starting_seconds") is None


def test_a_pool_shows_increases_that_took_a_decrease_back() -> None:
    series = scrape(view(observation(100, 8, 4), history=History(regrets=(100.0, 200.0))))
    assert of_pool(series, "regretted_increases") == 2


@pytest.mark.parametrize(
    ("locator", "models", "pods"),
    [
        (LOCATOR, "llama", "vllm-[bcdfghjklmnpqrstvwxz2456789]{1,10}-[bcdfghjklmnpqrstvwxz2456789]{5}"),
        (replace(LOCATOR, workload=Workload(WorkloadKind.STATEFUL_SET, "vllm")), "llama", "vllm-[0-9]+"),
        (PoolLocator("serving", "org/llama-3.1", None), r"org/llama-3\\.1", ".+"),
        (replace(LOCATOR, model_name=None, workload=Workload(WorkloadKind.LEADER_WORKER_SET, "r1")), ".+", "r1-[0-9]+"),
    ],
)
def test_a_pool_shows_by_which_patterns_its_vllm_series_are_found(locator: PoolLocator, models: str, pods: str) -> None:
    (info,) = (name for name in scrape(view(pool=policy(locator=locator))) if name.startswith("vllm_scaler_pool_info"))
    assert f'models="{models}"' in info
    assert f'pods="{pods}"' in info


def test_a_pool_where_nothing_runs_has_no_imbalance() -> None:
    idle = tuple(ReplicaLoad(f"vllm-{number}", 0.0, 0.0) for number in range(3))
    assert of_pool(scrape(view(observation(0, 0, 3, replicas=idle))), "imbalance_ratio") is None
    assert of_pool(scrape(view(observation(0, 0, 3))), "imbalance_ratio") is None


def test_a_pool_shows_each_signal() -> None:
    series = scrape(view(observation(0, 80, 4)))
    saturation = {
        name: of_pool(series, f"signal_{name}", ',signal="saturation"')
        for name in ("value", "scale_up_threshold", "up_need_replicas", "down_need_replicas", "missing")
    }
    assert saturation == {
        "value": 80,
        "scale_up_threshold": 16,
        "up_need_replicas": 20,
        "down_need_replicas": 25,
        "missing": 0,
    }
    assert of_pool(series, "signal_scale_down_threshold", ',signal="kv_cache"') == pytest.approx(0.525)


@pytest.mark.parametrize(("reading", "missing"), [(Absent.MISSING, 1), (Absent.NO_TRAFFIC, 0)])
def test_a_reading_that_is_not_there_is_no_series(reading: Absent, missing: int) -> None:
    series = scrape(view(observation(0, 8, 4, ttft_p95_s=reading, requested=Absent.MISSING, kv_usage_ratios=reading)))
    assert of_pool(series, "signal_missing", ',signal="ttft_p95"') == missing
    assert of_pool(series, "signal_value", ',signal="ttft_p95"') is None
    assert of_pool(series, "requested_replicas") is None
    assert of_pool(series, "serving_replicas") == 4


def test_a_pool_of_which_nothing_is_known_shows_no_target() -> None:
    series = scrape(view(Observation(0.0)), now=3.0)
    assert of_pool(series, "target_replicas") is None
    assert of_pool(series, "data_age_seconds") is None
    assert of_pool(series, "decision_age_seconds") == 3


def test_a_pool_that_was_not_evaluated_shows_that_it_is_there() -> None:
    series = scrape(view())
    assert series["vllm_scaler_pools"] == 1
    assert of_pool(series, "replica_slots") == 4
    assert not any(name.startswith("vllm_scaler_target_replicas") for name in series)


def test_a_pool_has_some_fifty_series_and_a_signal_six() -> None:
    def series(pool: PoolPolicy) -> int:
        seen = [observation(tick, 80, 4) for tick in range(20)]
        return len([name for name in scrape(view(*seen, pool=pool)) if "scaled_object=" in name])

    three = policy(replica_hourly_cost=2.5, max_hourly_cost=40.0)
    two = replace(three, signals=three.signals[:2])
    # For ten thousand pools each of them counts ten thousand times.
    assert series(three) <= 50
    assert series(three) - series(two) == 6


def test_a_pool_that_is_gone_takes_its_series_with_it() -> None:
    telemetry = Telemetry()
    scrape(view(observation(0, 80, 4)), telemetry=telemetry)
    series = scrape(telemetry=telemetry)
    assert series["vllm_scaler_pools"] == 0
    assert not any("llama" in name for name in series)


def test_an_age_is_not_negative_when_the_clock_was_set_back() -> None:
    series = scrape(view(observation(10, 80, 4)), now=0.0)
    assert of_pool(series, "decision_age_seconds") == 0


def test_queries_ticks_and_calls_are_counted() -> None:
    telemetry = busy_telemetry()
    series = {
        row.rsplit(" ", 1)[0]: float(row.rsplit(" ", 1)[1])
        for row in telemetry.exposition()[0].decode().splitlines()
        if row.startswith("vllm_scaler_")
    }
    assert series['vllm_scaler_query_duration_seconds_count{backend="default",query="replicas"}'] == 1
    assert series['vllm_scaler_query_errors_total{backend="eu-1",error="timeout",query="latency"}'] == 1
    assert series["vllm_scaler_ticks_total"] == 1
    assert series["vllm_scaler_tick_duration_seconds_sum"] == 0.3
    assert series["vllm_scaler_skipped_ticks_total"] == 2
    assert series['vllm_scaler_grpc_handled_total{code="OK",method="GetMetrics"}'] == 1
    assert series['vllm_scaler_grpc_handled_total{code="CANCELLED",method="StreamIsActive"}'] == 1
    assert series['vllm_scaler_grpc_handling_seconds_count{method="GetMetrics"}'] == 1
    assert 'vllm_scaler_grpc_handling_seconds_count{method="StreamIsActive"}' not in series
    assert series["vllm_scaler_grpc_streams"] == 1


def test_two_services_in_one_process_do_not_share_counters() -> None:
    first, second = Telemetry(), Telemetry()
    first.tick_done(1.0)
    assert scrape(telemetry=second)["vllm_scaler_ticks_total"] == 0
