"""An HTTP server in a process of its own that answers the service's queries as Prometheus would, at next to no cost.

Rows are rendered once; an answer is those of the namespaces and names that the query asks for, joined. What a real
Prometheus spends on a query is not measured here.
"""

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from multiprocessing import get_context
from multiprocessing.connection import Connection
from typing import Final
from urllib.parse import parse_qs

from benchmarks.fleet import AT, RUNNING, SCRAPED, BenchPool, bench_pools
from scaler.promql.queries import FRESHNESS, LATENCY, REPLICAS, WORKLOAD

_MATCHER: Final = re.compile(r'\b(namespace|model_name|deployment)=~?"([^"]+)"')
_BEFORE: Final = b'{"status":"success","data":{"resultType":"'
_RESULT: Final = b'","result":['
_AFTER: Final = b"]}}"
# Seconds: Prometheus scrapes every 15 s, so half of that on the average.
_SAMPLE_AGE_S: Final = 7.5


def _kind(expr: str) -> str:
    if "histogram_quantile" in expr:
        return LATENCY
    if "kube_deployment" in expr:
        return WORKLOAD
    return FRESHNESS if "timestamp(" in expr else REPLICAS


def _values(expr: str) -> dict[str, frozenset[str]]:
    """Return the values that the query's first matcher of each label asks for."""
    found: dict[str, frozenset[str]] = {}
    for label, text in _MATCHER.findall(expr):
        found.setdefault(label, frozenset(text.replace("\\", "").split("|")))
    return found


class Answers:
    """The answers about some pools.

    Args:
        pools: Those that there are.
    """

    def __init__(self, pools: Sequence[BenchPool]) -> None:
        self._rows: dict[str, dict[str, list[tuple[BenchPool, bytes]]]] = {}
        for kind in (REPLICAS, FRESHNESS, LATENCY, WORKLOAD):
            of_kind = self._rows[kind] = defaultdict(list)
            for pool in pools:
                of_kind[pool.namespace].append((pool, pool.rows(kind).encode()))

    def answer(self, expr: str, at: float) -> bytes:
        """Return the answer to an instant query of the service.

        Args:
            expr: The PromQL.
            at: The instant of the evaluation, Unix seconds.
        """
        return _BEFORE + b"vector" + _RESULT + _at(self._asked(expr), at) + _AFTER

    def answer_range(self, expr: str, instants: Sequence[float]) -> bytes:
        """Return the answer to a range query of the service: the same values at each instant, but for their times.

        Args:
            expr: The PromQL.
            instants: Those of the evaluations, Unix seconds.
        """
        rows = []
        for row in self._asked(expr).split(b'},{"metric"'):
            labels, value = row.rstrip(b"}").split(b',"value":')
            rows.append(labels + b',"values":[' + b",".join(_at(value, at) for at in instants) + b"]")
        return _BEFORE + b"matrix" + _RESULT + b'},{"metric"'.join(rows) + b"}" + _AFTER

    def _asked(self, expr: str) -> bytes:
        asked = _values(expr)
        models, deployments = asked.get("model_name"), asked.get("deployment")
        return b",".join(
            rendered
            for namespace in sorted(asked["namespace"])
            for pool, rendered in self._rows[_kind(expr)][namespace]
            if (models is None or pool.model in models) and (deployments is None or pool.deployment in deployments)
        )


def _at(rows: bytes, at: float) -> bytes:
    """Put an instant into rendered rows."""
    running = str(5 + round(at / 15) % 3)
    for mark, value in ((AT, f"{at:.3f}"), (SCRAPED, f"{at - _SAMPLE_AGE_S:.3f}"), (RUNNING, running)):
        rows = rows.replace(mark.encode(), value.encode())
    return rows


def _serve(count: int, ready: Connection) -> None:
    answers = Answers(bench_pools(count))

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        # Else the header and the body wait for each other's acknowledgement.
        disable_nagle_algorithm = True

        def do_POST(self) -> None:
            form = parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode())
            expr = form["query"][0]
            if self.path.endswith("query_range"):
                start, end, step_s = (float(form[name][0]) for name in ("start", "end", "step"))
                body = answers.answer_range(
                    expr, [start + n * step_s for n in range(round((end - start) / step_s) + 1)]
                )
            else:
                body = answers.answer(expr, float(form["time"][0]))
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    ready.send(server.server_port)
    server.serve_forever()


@contextmanager
def backend(count: int) -> Iterator[str]:
    """Run the server for as long as the context lasts, and yield its address.

    Args:
        count: Pools that it knows.
    """
    context = get_context("spawn")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=_serve, args=(count, sender), daemon=True)
    process.start()
    try:
        yield f"http://127.0.0.1:{receiver.recv()}"
    finally:
        process.kill()
        process.join()
