"""What stands between the service and Prometheus, and can answer in its place."""

import http.client
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, TypeAlias
from urllib.parse import parse_qs, urlsplit


@dataclass(frozen=True)
class Reply:
    """An answer over HTTP.

    Args:
        cut: Bytes at its end that are announced and never come.
    """

    status: int
    body: bytes
    content_type: str = "application/json"
    cut: int = 0


Fault: TypeAlias = Callable[[str, Callable[[], Reply]], Reply]
"""Answers in place of Prometheus; gets the PromQL and what asks Prometheus itself."""


class Proxy(ThreadingHTTPServer):
    """Passes queries on, or does what ``fault`` says.

    Args:
        url: The Prometheus behind it.
    """

    daemon_threads = True
    request_queue_size = 64

    def __init__(self, url: str) -> None:
        self.behind = urlsplit(url).netloc
        self.fault: Fault | None = None
        self.over = threading.Event()
        self.asked: list[str] = []
        super().__init__(("127.0.0.1", 0), _Handler)

    @property
    def url(self) -> str:
        """Its address."""
        return f"http://127.0.0.1:{self.server_port}"


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: Proxy

    def do_POST(self) -> None:
        form = self.rfile.read(int(self.headers["Content-Length"]))
        expr = parse_qs(form.decode())["query"][0]
        self.server.asked.append(expr)
        fault = self.server.fault
        try:
            self._send(self._passed_on(form) if fault is None else fault(expr, lambda: self._passed_on(form)))
        except OSError:
            self.close_connection = True

    def _passed_on(self, form: bytes) -> Reply:
        connection = http.client.HTTPConnection(self.server.behind, timeout=10)
        try:
            connection.request("POST", self.path, form, {"Content-Type": "application/x-www-form-urlencoded"})
            response = connection.getresponse()
            return Reply(response.status, response.read())
        finally:
            connection.close()

    def _send(self, reply: Reply) -> None:
        self.send_response(reply.status)
        self.send_header("Content-Type", reply.content_type)
        self.send_header("Content-Length", str(len(reply.body) + reply.cut))
        self.end_headers()
        self.wfile.write(reply.body)
        if reply.cut:
            self.close_connection = True

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class's name
        pass


@contextmanager
def proxied(url: str) -> Iterator[Proxy]:
    """Run a proxy before a Prometheus."""
    with Proxy(url) as proxy:
        thread = threading.Thread(target=proxy.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield proxy
        finally:
            proxy.over.set()
            proxy.shutdown()
            thread.join()


def always(reply: Reply) -> Fault:
    """Answer every query alike."""
    return lambda _expr, _ask: reply


def refusal(status: int, kind: str, text: str) -> Reply:
    """An error in Prometheus' words."""
    return Reply(status, json.dumps({"status": "error", "errorType": kind, "error": text}).encode())


def changed(change: Callable[[dict[str, Any]], object]) -> Fault:
    """Answer as Prometheus does, with a change to what it says."""

    def fault(_expr: str, ask: Callable[[], Reply]) -> Reply:
        answer = json.loads(ask().body)
        change(answer)
        return Reply(200, json.dumps(answer).encode())

    return fault
