"""One Prometheus for many tests: it has scraped pages that change, each often enough."""

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import yaml

from tests.prometheus_server import RunningPrometheus, start_prometheus
from tests.scraped_pages import Page, Target

# Enough for every page that changes to have changed and been scraped twice since.
SCRAPES = 7
SCRAPED_WITHIN_S = 60.0


class Scraped:
    """A Prometheus, and when each target was scraped.

    Args:
        url: Where Prometheus is.
        served: When each page was served, in Unix seconds and in their order.
        target_list: What is scraped.
    """

    def __init__(self, url: str, served: Sequence[Sequence[float]], target_list: Sequence[Target]) -> None:
        self.url = url
        self._served = served
        self._targets = target_list

    def at(self, namespace: str, scrape: int) -> float:
        """Return when the nth scrape, from 1, of a namespace's first target came."""
        number = next(n for n, target in enumerate(self._targets) if target.labels.get("namespace") == namespace)
        return self._served[number][scrape - 1]


class Pages(ThreadingHTTPServer):
    """Serves the pages, each under its number, and notes when."""

    daemon_threads = True

    def __init__(self, pages: Sequence[Page]) -> None:
        self.pages = pages
        self.served: list[list[float]] = [[] for _ in pages]
        self.lock = threading.Lock()
        super().__init__(("127.0.0.1", 0), PageHandler)


class PageHandler(BaseHTTPRequestHandler):
    server: Pages

    def do_GET(self) -> None:
        number = int(self.path.strip("/"))
        with self.server.lock:
            self.server.served[number].append(time.time())
            scrape = len(self.server.served[number])
        text = self.server.pages[number](scrape)
        # Prometheus may have given up meanwhile, on a machine that is busy.
        with suppress(ConnectionError):
            self.send_response(503 if text is None else 200)
            self.send_header("Content-Type", "text/plain; version=0.0.4")
            self.end_headers()
            self.wfile.write((text or "").encode())

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class's name
        pass


@contextmanager
def scraped_prometheus(
    target_list: Sequence[Target], data_dir: Path, start: Callable[..., RunningPrometheus] = start_prometheus
) -> Iterator[Scraped]:
    """Start a Prometheus, or what ``start`` does, and wait until it has scraped every target often enough."""
    with ExitStack() as cleanup:
        server = cleanup.enter_context(Pages([target.page for target in target_list]))
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        cleanup.callback(thread.join)
        cleanup.callback(server.shutdown)
        jobs = [
            {
                "job_name": f"{job}-{honoured}",
                "honor_labels": honoured,
                "static_configs": [
                    _static(server, number, target)
                    for number, target in enumerate(target_list)
                    if target.honoured is honoured and (job == "once" or target.twice)
                ],
            }
            for job in ("once", "again")
            for honoured in (True, False)
        ]
        config = {"global": {"scrape_interval": "1s", "scrape_timeout": "1s"}, "scrape_configs": jobs}
        prometheus = start(yaml.safe_dump(config), data_dir=data_dir, extra_args=(), cleanup=cleanup)
        deadline = time.monotonic() + SCRAPED_WITHIN_S
        while any(len(times) < SCRAPES for times in server.served):
            assert time.monotonic() < deadline, f"too few scrapes: {[len(times) for times in server.served]}"
            time.sleep(0.05)
        yield Scraped(prometheus.url, server.served, target_list)


def _static(server: Pages, number: int, target: Target) -> dict[str, Any]:
    return {
        "targets": [f"127.0.0.1:{server.server_port}"],
        "labels": {**target.labels, "__metrics_path__": f"/{number}"},
    }
