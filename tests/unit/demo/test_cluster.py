import json
from typing import Any

import pytest
import yaml

from scaler.demo.cluster import DemoCluster, prometheus_config
from scaler.sim.engine import EngineSpec
from scaler.sim.fleet import Fleet, FleetSpec
from scaler.sim.request import Request

ENGINE = EngineSpec(slots=4, kv_capacity_tokens=10_000, step_s=0.1, step_per_sequence_s=0.0, prefill_tokens_per_s=1e6)
START = 1_700_000_000.0


class Watch:
    at = 0.0

    def elapsed(self) -> float:
        return self.at


@pytest.fixture
def watch() -> Watch:
    return Watch()


@pytest.fixture
def cluster(watch: Watch) -> DemoCluster:
    arrivals = [Request(float(second), prompt_tokens=10, output_tokens=25) for second in range(1, 10)]
    fleet = Fleet(FleetSpec("vllm", ENGINE, cold_start_s=5.0), replicas=1, arrivals=arrivals, seed=1)
    return DemoCluster(fleet, namespace="demo", model_name="llama", elapsed=watch.elapsed, started_at=START)


def targets(cluster: DemoCluster) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(cluster.page("/targets").body)
    return found


def statuses(cluster: DemoCluster) -> list[int]:
    return [cluster.page(each["labels"]["__metrics_path__"]).status.value for each in targets(cluster)]


def test_the_fleet_works_in_the_watchs_time(cluster: DemoCluster, watch: Watch) -> None:
    watch.at = 2.05
    assert cluster.catch_up() == []
    assert cluster.fleet.running == 2

    watch.at = 4.0
    assert [outcome.request.arrived_at for outcome in cluster.catch_up()] == [1.0]


def test_a_watch_that_lags_does_not_turn_time_back(cluster: DemoCluster, watch: Watch) -> None:
    watch.at = 3.0
    cluster.catch_up()
    watch.at = 1.0

    cluster.catch_up()

    assert cluster.fleet.now == 3.0


def test_a_pod_is_discovered_at_once_and_refuses_scrapes_until_it_serves(cluster: DemoCluster, watch: Watch) -> None:
    cluster.fleet.scale(2)
    assert statuses(cluster) == [200, 503]

    watch.at = 5.0
    cluster.catch_up()
    assert statuses(cluster) == [200, 200]


def test_a_draining_pod_shows_its_metrics_until_it_is_gone(cluster: DemoCluster, watch: Watch) -> None:
    watch.at = 3.0
    cluster.catch_up()
    [path] = [each["labels"]["__metrics_path__"] for each in targets(cluster)]

    cluster.fleet.scale(0)
    assert statuses(cluster) == [200]

    watch.at = 20.0
    cluster.catch_up()
    assert targets(cluster) == []
    assert cluster.page(path).status == 404


def test_targets_carry_the_labels_that_a_cluster_would_give(cluster: DemoCluster) -> None:
    pod = cluster.fleet.replicas[0].name

    assert targets(cluster) == [
        {
            "targets": [f"{pod}:8000"],
            "labels": {"namespace": "demo", "pod": pod, "__metrics_path__": f"/replicas/{pod}/metrics"},
        }
    ]


def test_a_replicas_process_started_when_its_pod_did(cluster: DemoCluster, watch: Watch) -> None:
    watch.at = 30.0
    cluster.catch_up()
    cluster.fleet.scale(2)
    watch.at = 40.0
    cluster.catch_up()

    assert (
        b"process_start_time_seconds 1.70000003e+09"
        in cluster.page(targets(cluster)[1]["labels"]["__metrics_path__"]).body
    )


def test_kube_state_metrics_shows_the_deployment(cluster: DemoCluster) -> None:
    cluster.fleet.scale(3)

    body = cluster.page("/kube-state-metrics/metrics").body

    assert b'kube_deployment_spec_replicas{deployment="vllm",namespace="demo"} 3.0' in body
    assert b'kube_deployment_status_replicas_ready{deployment="vllm",namespace="demo"} 1.0' in body


def test_other_paths_are_not_there(cluster: DemoCluster) -> None:
    assert cluster.page("/replicas/other/metrics").status == 404


def test_prometheus_is_told_to_discover_the_pods_and_to_keep_their_labels() -> None:
    config = yaml.safe_load(
        prometheus_config("http://127.0.0.1:4000", scaler_url="http://127.0.0.1:5000", scrape_interval_s=1.0)
    )

    vllm, kube_state_metrics, scaler = config["scrape_configs"]
    assert config["global"]["scrape_interval"] == "1s"
    assert vllm["http_sd_configs"] == [{"url": "http://127.0.0.1:4000/targets", "refresh_interval": "1s"}]
    assert vllm["relabel_configs"][-1] == {"target_label": "__address__", "replacement": "127.0.0.1:4000"}
    assert kube_state_metrics["honor_labels"] is True
    assert scaler["honor_labels"] is True
    assert scaler["static_configs"] == [{"targets": ["127.0.0.1:5000"]}]
