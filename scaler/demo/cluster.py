"""The simulated fleet in real time, with the addresses that a cluster would give it.

/replicas/<pod>/metrics        what the pod's vLLM shows; refused while it loads its model, gone with the pod
/kube-state-metrics/metrics    what the Deployment says of itself
/targets                       the pods, for Prometheus' HTTP service discovery
"""

import http
import json
from collections.abc import Callable
from typing import Final

import yaml

from scaler.demo import pages
from scaler.demo.web import Page
from scaler.sim.fleet import Fleet
from scaler.sim.replica import Phase
from scaler.sim.request import Outcome

_NOT_FOUND: Final = Page(b"no such page\n", status=http.HTTPStatus.NOT_FOUND)
_LOADING: Final = Page(b"the model is still loading\n", status=http.HTTPStatus.SERVICE_UNAVAILABLE)
# vLLM's port, for the instance label.
_VLLM_PORT: Final = 8000


class DemoCluster:
    """A namespace with one Deployment.

    Args:
        fleet: The Deployment's pods; its time 0 is when the demo starts.
        namespace: Where it lives.
        model_name: The model that it serves.
        elapsed: Gives the seconds since the start.
        started_at: The start, in Unix seconds.
    """

    def __init__(
        self, fleet: Fleet, *, namespace: str, model_name: str, elapsed: Callable[[], float], started_at: float
    ) -> None:
        self.fleet = fleet
        self.namespace = namespace
        self.model_name = model_name
        self._elapsed = elapsed
        self._started_at = started_at

    def catch_up(self) -> list[Outcome]:
        """Let the fleet work until now, and return the requests that ended meanwhile."""
        return self.fleet.advance(max(self.fleet.now, self._elapsed()))

    def page(self, path: str) -> Page:
        """Return the page of a path, as of the last ``catch_up``."""
        if path == "/targets":
            return Page(json.dumps(self._targets()).encode(), "application/json")
        if path == "/kube-state-metrics/metrics":
            body = pages.deployment_page(
                self.fleet.status(), namespace=self.namespace, deployment=self.fleet.spec.deployment
            )
            return Page(body, pages.CONTENT_TYPE)
        for replica in self.fleet.replicas:
            if path != _replica_path(replica.name):
                continue
            if replica.phase(self.fleet.now) is Phase.STARTING:
                return _LOADING
            body = pages.replica_page(
                replica.engine,
                model_name=self.model_name,
                process_started_at=self._started_at + replica.created_at,
            )
            return Page(body, pages.CONTENT_TYPE)
        return _NOT_FOUND

    def _targets(self) -> list[dict[str, object]]:
        # One address for all: the path tells the pods apart. Prometheus takes a target of "" for the discovery's own.
        return [
            {
                "targets": [f"{replica.name}:{_VLLM_PORT}"],
                "labels": {
                    "namespace": self.namespace,
                    "pod": replica.name,
                    "__metrics_path__": _replica_path(replica.name),
                },
            }
            for replica in self.fleet.replicas
        ]


def prometheus_config(fleet_url: str, *, scaler_url: str, scrape_interval_s: float) -> str:
    """Write the prometheus.yml that scrapes the fleet behind ``fleet_url``, and the scaler for its dashboards."""
    address = fleet_url.removeprefix("http://")
    config = {
        "global": {"scrape_interval": f"{scrape_interval_s:g}s", "scrape_timeout": f"{scrape_interval_s:g}s"},
        "scrape_configs": [
            {
                "job_name": "vllm",
                "http_sd_configs": [{"url": f"{fleet_url}/targets", "refresh_interval": "1s"}],
                "relabel_configs": [
                    # A pod's own address stays as its instance; all of them are really served here.
                    {"source_labels": ["__address__"], "target_label": "instance"},
                    {"target_label": "__address__", "replacement": address},
                ],
            },
            {
                "job_name": "kube-state-metrics",
                "honor_labels": True,
                "metrics_path": "/kube-state-metrics/metrics",
                "static_configs": [{"targets": [address]}],
            },
            {
                "job_name": "vllm-scaler",
                "honor_labels": True,
                "static_configs": [{"targets": [scaler_url.removeprefix("http://")]}],
            },
        ],
    }
    return yaml.safe_dump(config, sort_keys=False)


def _replica_path(pod: str) -> str:
    return f"/replicas/{pod}/metrics"
