"""The fleets that the faults happen to: what a Prometheus scrapes of each, as the test sets it."""

import shutil
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from threading import Thread
from typing import Any, Final

import yaml

from scaler.protos import externalscaler_pb2 as pb
from tests.prometheus_server import RunningPrometheus, start_prometheus
from tests.scraped_pages import deployment
from tests.scraped_prometheus import Pages

SLOTS: Final = 4
SCRAPED_WITHIN_S: Final = 30.0
_SCRAPE_INTERVAL: Final = "500ms"
# Two scrapes make a rate.
_SCRAPES: Final = 3


@dataclass
class Fleet:
    """One pool in a namespace of its own, all of whose series are one page.

    Args:
        namespace: Where it is.
        load: Requests in flight, spread evenly over the replicas that serve.
        replicas: Replicas that are requested, and serve.
        unscraped: Of how many replicas nothing is scraped; they serve all the same, and kube-state-metrics says so.
        is_out_of_reach: Whether no scrape of anything succeeds.
        is_followed: Whether the HPA sets the replicas that KEDA hears.
    """

    namespace: str
    load: float = 12.0
    replicas: int = 4
    unscraped: int = 0
    is_out_of_reach: bool = False
    is_followed: bool = True
    _scrapes: int = field(default=0, init=False)

    def page(self, scrape: int) -> str | None:
        """Return the page for the nth scrape."""
        if self.is_out_of_reach:
            return None
        self._scrapes = scrape
        engines = "".join(map(self._engine, range(self.unscraped, self.replicas)))
        return engines + deployment(self.namespace, *(self.replicas for _ in range(4)))

    def ref(self, **changes: str) -> pb.ScaledObjectRef:
        """Return the trigger as KEDA sends it: windows of few ticks and no cooldowns, so that all is quick."""
        metadata = {
            "scalerAddress": "scaler.keda:50051",
            "deployment": "vllm",
            "modelName": "llama",
            "slotsPerReplica": str(SLOTS),
            "maxReplicas": "20",
            "scaleUpWindows": "2",
            "scaleDownWindows": "2",
            "scaleUpCooldownSeconds": "0",
            "scaleDownCooldownSeconds": "0",
            "rateWindowSeconds": "10",
        }
        return pb.ScaledObjectRef(name="vllm", namespace=self.namespace, scalerMetadata=metadata | changes)

    def _engine(self, number: int) -> str:
        pod = f"vllm-7d4b9c5f6d-bbbb{'bcdfghjk'[number]}"
        labels = f'namespace="{self.namespace}",pod="{pod}",instance="{pod}:8000",model_name="llama",engine="0"'
        values = {
            "num_requests_running": self.load / self.replicas,
            "num_requests_waiting": 0,
            "kv_cache_usage_perc": 0.3,
            "time_to_first_token_seconds_count": self._scrapes,
            "generation_tokens_total": 100 * self._scrapes,
            "num_preemptions_total": 0,
        }
        bucket = "vllm:time_to_first_token_seconds_bucket"
        buckets = "".join(f'{bucket}{{{labels},le="{le}"}} {self._scrapes}\n' for le in ("0.25", "2.5", "+Inf"))
        return buckets + "".join(f"vllm:{name}{{{labels}}} {value}\n" for name, value in values.items())


@dataclass
class Shared:
    """A Prometheus that nothing happens to, and the fleets that it scrapes and nobody has taken."""

    url: str
    free: list[Fleet]

    def take(self, count: int) -> list[Fleet]:
        """Return fleets for one test alone."""
        assert len(self.free) >= count, "let the shared Prometheus have more fleets"
        taken, self.free = self.free[:count], self.free[count:]
        return taken


@dataclass
class Watching:
    """A Prometheus that scrapes fleets twice a second."""

    server: RunningPrometheus
    pages: Pages
    data_dir: Path

    @property
    def url(self) -> str:
        """Its address."""
        return self.server.url

    def forget(self) -> None:
        """Remove its database; it must not run."""
        shutil.rmtree(self.data_dir / "tsdb")


@contextmanager
def watching(fleets: Sequence[Fleet], data_dir: Path) -> Iterator[Watching]:
    """Start a Prometheus for some fleets, and wait until it has scraped each."""
    with ExitStack() as cleanup:
        pages = cleanup.enter_context(Pages([fleet.page for fleet in fleets]))
        thread = Thread(target=pages.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        cleanup.callback(thread.join)
        cleanup.callback(pages.shutdown)
        targets: list[dict[str, Any]] = [
            {"targets": [f"127.0.0.1:{pages.server_port}"], "labels": {"__metrics_path__": f"/{number}"}}
            for number in range(len(fleets))
        ]
        config = {
            "global": {"scrape_interval": _SCRAPE_INTERVAL, "scrape_timeout": _SCRAPE_INTERVAL},
            "scrape_configs": [{"job_name": "fleets", "honor_labels": True, "static_configs": targets}],
        }
        server = start_prometheus(yaml.safe_dump(config), data_dir=data_dir, extra_args=(), cleanup=cleanup)
        deadline = time.monotonic() + SCRAPED_WITHIN_S
        while any(len(times) < _SCRAPES for times in pages.served):
            assert time.monotonic() < deadline, "too few scrapes"
            time.sleep(0.02)
        yield Watching(server, pages, data_dir)
