"""Metrics and probes over plain HTTP, in threads of their own: they answer while the event loop is busy.

Probes ask about this process alone. A Prometheus that is down must not have the scaler restarted: a fresh process would
have no window to decide on.
"""

import gzip
import socket
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socketserver import TCPServer
from typing import Final
from urllib.parse import urlsplit

import structlog

from scaler.adapters.logs import OncePerKey
from scaler.adapters.telemetry import Telemetry
from scaler.errors import StartError

HEARTBEAT_S: Final = 1.0
"""How often the event loop shows that it runs."""
MAX_SILENCE_S: Final = 30.0
"""An event loop that is silent for longer is stuck: a slow tick of ten thousand pools pauses it for milliseconds."""
MAX_CONNECTIONS: Final = 64
"""Probes and scrapers of a cluster are a handful."""
_READ_TIMEOUT_S: Final = 5.0
"""Seconds that a client may take between two packets."""
_CLOSE_POLL_S: Final = 0.1
"""How often the accepting thread looks whether it is to end."""
_SCRAPE_WAIT_S: Final = 10.0
"""Prometheus' own default scrape timeout: after it nobody waits for the answer."""
_PACKED_FROM_BYTES: Final = 1400
"""What fits into one packet is not worth packing."""
_PACKING_LEVEL: Final = 1
"""The quickest: of 78 MB of metrics it leaves 4 MB in a third of a second."""
_TEXT: Final = "text/plain; charset=utf-8"
_INDEX: Final = b"""<!doctype html><title>vLLM KEDA scaler</title><h1>vLLM KEDA scaler</h1><ul>
<li><a href="/metrics">/metrics</a>: own metrics, with every pool's signals and decisions
<li><a href="/healthz">/healthz</a>: whether the process runs
<li><a href="/readyz">/readyz</a>: whether it answers KEDA
</ul>
"""

_LOG = structlog.stdlib.get_logger("scaler.http")

_Page = tuple[HTTPStatus, str, bytes]


class Vitals:
    """What the probes report: the event loop beats, and says whether KEDA is served.

    Args:
        monotonic: Seconds that never run backwards.
    """

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._beat_at = monotonic()
        self.not_ready: str | None = "starting"
        """Why KEDA is not served; None while it is."""

    def beat(self) -> None:
        """Show that the event loop runs."""
        self._beat_at = self._monotonic()

    def silence_s(self) -> float:
        """Return the seconds since the last beat."""
        return self._monotonic() - self._beat_at


class HttpServer:
    """Serves ``/metrics``, ``/healthz`` and ``/readyz`` until closed.

    Args:
        host: Address to bind; ``::`` takes IPv4 connections too.
        port: Port to bind; 0 takes any free one.
        telemetry: What ``/metrics`` shows.
        vitals: What the probes show.

    Raises:
        StartError: The address cannot be bound.
    """

    def __init__(self, host: str, port: int, telemetry: Telemetry, vitals: Vitals) -> None:
        self._telemetry = telemetry
        self._vitals = vitals
        self._scraping = threading.Lock()
        self._said = OncePerKey()
        try:
            self._server = _Server(host, port, self._page)
        except OSError as error:
            raise StartError(
                f"cannot serve HTTP on {host} port {port}: {error.strerror or error}; set --http-host or --http-port to"
                " an address of this machine and a free port"
            ) from error
        self.port: int = self._server.server_address[1]
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(_CLOSE_POLL_S,), name="http", daemon=True
        )
        self._thread.start()

    def close(self) -> None:
        """Stop accepting, cut connections, and release the port. Blocks for a tenth of a second."""
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def _page(self, path: str) -> _Page:
        """Return what stands at a path, or that it failed."""
        try:
            return self._known_page(path)
        except Exception as error:  # noqa: BLE001 - a bug in one page leaves the others alone
            self._telemetry.fault("http")
            if self._said.first((path, str(error))):
                _LOG.error("unexpected error in a page", path=path, exc_info=error)
            return HTTPStatus.INTERNAL_SERVER_ERROR, _TEXT, b"bug in this scaler, see its log\n"

    def _known_page(self, path: str) -> _Page:
        if path == "/metrics":
            return self._metrics()
        if path == "/healthz":
            return self._health()
        if path == "/readyz":
            reason = self._vitals.not_ready
            if reason is not None:
                return HTTPStatus.SERVICE_UNAVAILABLE, _TEXT, f"not ready: {reason}\n".encode()
            return HTTPStatus.OK, _TEXT, b"ready: KEDA is served\n"
        if path == "/":
            return HTTPStatus.OK, "text/html; charset=utf-8", _INDEX
        return HTTPStatus.NOT_FOUND, _TEXT, b"there are /metrics, /healthz and /readyz\n"

    def _health(self) -> _Page:
        silence_s = self._vitals.silence_s()
        if silence_s > MAX_SILENCE_S:
            text = f"the event loop has not run for {silence_s:.0f} s\n"
            return HTTPStatus.SERVICE_UNAVAILABLE, _TEXT, text.encode()
        return HTTPStatus.OK, _TEXT, b"alive\n"

    def _metrics(self) -> _Page:
        """Return the exposition; one at a time, since each holds all of it in memory."""
        if not self._scraping.acquire(timeout=_SCRAPE_WAIT_S):
            return HTTPStatus.SERVICE_UNAVAILABLE, _TEXT, b"other scrapes are still being written\n"
        try:
            body, content_type = self._telemetry.exposition()
        finally:
            self._scraping.release()
        return HTTPStatus.OK, content_type, body


class _Server(ThreadingHTTPServer):
    """A thread a connection, and a bound on connections: the oldest makes room, so that probes always get through."""

    daemon_threads = True
    block_on_close = False
    request_queue_size = MAX_CONNECTIONS

    def __init__(self, host: str, port: int, page: Callable[[str], _Page]) -> None:
        self.page = page
        self._open: OrderedDict[int, socket.socket] = OrderedDict()
        self._lock = threading.Lock()
        self.address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        super().__init__((host, port), _Handler)

    def server_bind(self) -> None:
        """Bind; the IPv6 wildcard takes IPv4 connections too."""
        if self.address_family == socket.AF_INET6:
            self.socket.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        # Past HTTPServer's own: it looks the host's name up in DNS, which can take long and is not used.
        TCPServer.server_bind(self)

    def process_request(self, request: socket.socket, client_address: object) -> None:  # type: ignore[override]
        """Start a connection's thread; with too many of them, cut the oldest."""
        with self._lock:
            self._open[id(request)] = request
            oldest = self._open.popitem(last=False)[1] if len(self._open) > MAX_CONNECTIONS else None
        if oldest is not None:
            _cut(oldest)
        super().process_request(request, client_address)

    def shutdown_request(self, request: socket.socket) -> None:  # type: ignore[override]
        """Forget a connection that is over."""
        with self._lock:
            self._open.pop(id(request), None)
        super().shutdown_request(request)

    def server_close(self) -> None:
        """Release the port and cut what is still open."""
        super().server_close()
        with self._lock:
            left = tuple(self._open.values())
        for connection in left:
            _cut(connection)

    def handle_error(self, request: object, client_address: object) -> None:  # noqa: ARG002 - the base class' signature
        """Say one line, without a traceback: a client that goes away is nothing of ours."""
        _LOG.debug("HTTP connection ended by an error", client=str(client_address), exc_info=True)


def _cut(connection: socket.socket) -> None:
    try:
        connection.shutdown(socket.SHUT_RDWR)
    except OSError:
        # It was closed by its client or its thread meanwhile, which is what is wanted.
        return


class _Handler(BaseHTTPRequestHandler):
    """Answers one GET or HEAD and closes: requests have no body here, and their heads are bounded by the base class."""

    server: _Server
    timeout = _READ_TIMEOUT_S
    server_version = "vllm-keda-scaler"
    sys_version = ""

    def do_GET(self) -> None:
        """Answer with the page."""
        self._answer(with_body=True)

    def do_HEAD(self) -> None:
        """Answer with the page's head."""
        self._answer(with_body=False)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class' name
        """Log requests at debug level alone: probes come every few seconds."""
        _LOG.debug("HTTP request", line=format % args)

    def _answer(self, *, with_body: bool) -> None:
        status, content_type, body = self.server.page(urlsplit(self.path).path)
        packed = len(body) > _PACKED_FROM_BYTES and "gzip" in self.headers.get("Accept-Encoding", "")
        if packed:
            body = gzip.compress(body, _PACKING_LEVEL)
        self.send_response(status)
        self.send_header("Content-Type", content_type)
        if packed:
            self.send_header("Content-Encoding", "gzip")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if with_body:
            self.wfile.write(body)
