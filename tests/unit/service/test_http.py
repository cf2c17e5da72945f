"""Probes and metrics over HTTP: what they say, and that no client can keep them from saying it."""

import gzip
import socket
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from http import HTTPStatus
from http.client import HTTPConnection

import pytest
from structlog.testing import capture_logs

from scaler.adapters.telemetry import Telemetry
from scaler.errors import StartError
from scaler.service import http
from scaler.service.http import MAX_CONNECTIONS, MAX_SILENCE_S, HttpServer, Vitals


class Probe:
    """A server, its vitals, and a client; ``now`` is the vitals' clock."""

    def __init__(self) -> None:
        self.now = 0.0
        self.telemetry = Telemetry()
        self.vitals = Vitals(lambda: self.now)
        self.vitals.not_ready = None
        self.server = HttpServer("127.0.0.1", 0, self.telemetry, self.vitals)

    def get(self, path: str, method: str = "GET") -> tuple[int, str, str]:
        """Status, content type and body at a path."""
        request = urllib.request.Request(f"http://127.0.0.1:{self.server.port}{path}", method=method)
        try:
            with urllib.request.urlopen(request, timeout=10) as response:
                return response.status, response.headers["Content-Type"], response.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.headers["Content-Type"], error.read().decode()

    def connect(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.server.port), timeout=10)


@pytest.fixture
def probe() -> Iterator[Probe]:
    probe = Probe()
    yield probe
    probe.server.close()


def test_a_process_whose_loop_runs_is_alive(probe: Probe) -> None:
    probe.now += MAX_SILENCE_S
    assert probe.get("/healthz")[::2] == (HTTPStatus.OK, "alive\n")


def test_a_process_whose_loop_is_stuck_is_not_alive_until_it_runs_again(probe: Probe) -> None:
    probe.now += MAX_SILENCE_S + 1
    status, _, body = probe.get("/healthz")
    assert status == HTTPStatus.SERVICE_UNAVAILABLE
    assert body == "the event loop has not run for 31 s\n"
    probe.vitals.beat()
    assert probe.get("/healthz")[0] == HTTPStatus.OK


@pytest.mark.parametrize("why", ["starting", "shutting down"])
def test_a_process_that_does_not_serve_is_not_ready_and_says_why(probe: Probe, why: str) -> None:
    probe.vitals.not_ready = why
    assert probe.get("/readyz")[::2] == (HTTPStatus.SERVICE_UNAVAILABLE, f"not ready: {why}\n")
    assert probe.get("/healthz")[0] == HTTPStatus.OK


def test_a_process_that_serves_is_ready(probe: Probe) -> None:
    assert probe.get("/readyz")[0] == HTTPStatus.OK


def test_metrics_are_given_in_prometheus_text_format(probe: Probe) -> None:
    status, content_type, body = probe.get("/metrics?name=ignored")
    assert status == HTTPStatus.OK
    assert content_type == "text/plain; version=0.0.4; charset=utf-8"
    assert "vllm_scaler_build_info{" in body
    assert "vllm_scaler_pools 0" in body


def test_metrics_are_packed_for_who_takes_them_so(probe: Probe) -> None:
    connection = HTTPConnection("127.0.0.1", probe.server.port, timeout=5)
    connection.request("GET", "/metrics", headers={"Accept-Encoding": "gzip"})
    answer = connection.getresponse()
    packed = answer.read()
    connection.close()
    assert answer.getheader("Content-Encoding") == "gzip"
    assert b"# HELP vllm_scaler_" in gzip.decompress(packed)
    assert len(packed) == int(answer.getheader("Content-Length") or 0)


def test_the_front_page_links_to_the_others(probe: Probe) -> None:
    _, content_type, body = probe.get("/")
    assert content_type.startswith("text/html")
    for path in ("/metrics", "/healthz", "/readyz"):
        assert f'href="{path}"' in body


def test_what_is_not_there_is_not_found(probe: Probe) -> None:
    assert probe.get("/nothing")[0] == HTTPStatus.NOT_FOUND


def test_head_gives_the_head_alone(probe: Probe) -> None:
    assert probe.get("/healthz", "HEAD")[::2] == (HTTPStatus.OK, "")


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE"])
def test_other_methods_are_refused(probe: Probe, method: str) -> None:
    assert probe.get("/healthz", method)[0] == HTTPStatus.NOT_IMPLEMENTED


@pytest.mark.parametrize(
    ("request_text", "status"),
    [
        pytest.param("GET /" + "x" * 70_000 + " HTTP/1.1\r\n\r\n", b" 414 ", id="address"),
        pytest.param("GET / HTTP/1.1\r\nX: " + "x" * 70_000 + "\r\n\r\n", b" 431 ", id="header"),
        pytest.param("GET / HTTP/1.1\r\n" + "X: y\r\n" * 200 + "\r\n", b" 431 ", id="many headers"),
        pytest.param("nonsense\r\n\r\n", b"400", id="no HTTP"),
    ],
)
def test_a_request_head_is_bounded(probe: Probe, request_text: str, status: bytes) -> None:
    with probe.connect() as connection:
        connection.sendall(request_text.encode())
        assert status in connection.recv(1000)


def test_clients_that_say_nothing_do_not_keep_probes_out(probe: Probe) -> None:
    silent = [probe.connect() for _ in range(MAX_CONNECTIONS + 10)]
    assert probe.get("/healthz")[0] == HTTPStatus.OK
    assert silent[0].recv(1) == b"", "the oldest made room"
    for connection in silent:
        connection.close()


def test_a_scrape_that_takes_long_does_not_keep_probes_out(probe: Probe, monkeypatch: pytest.MonkeyPatch) -> None:
    entered, go_on = threading.Event(), threading.Event()

    def slow() -> tuple[bytes, str]:
        entered.set()
        go_on.wait(10)
        return b"done\n", "text/plain"

    monkeypatch.setattr(probe.telemetry, "exposition", slow)
    monkeypatch.setattr(http, "_SCRAPE_WAIT_S", 0.01)
    bodies: list[str] = []
    scraper = threading.Thread(target=lambda: bodies.append(probe.get("/metrics")[2]))
    scraper.start()
    assert entered.wait(10)
    assert probe.get("/healthz")[0] == HTTPStatus.OK
    assert probe.get("/metrics")[0] == HTTPStatus.SERVICE_UNAVAILABLE
    go_on.set()
    scraper.join()
    assert bodies == ["done\n"]


def test_a_bug_in_a_page_is_logged_once_and_leaves_the_others_alone(
    probe: Probe, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken() -> tuple[bytes, str]:
        raise RuntimeError("bug")

    monkeypatch.setattr(probe.telemetry, "exposition", broken)
    with capture_logs() as logs:
        assert [probe.get("/metrics")[0] for _ in range(2)] == [HTTPStatus.INTERNAL_SERVER_ERROR] * 2
    assert len([record for record in logs if record["log_level"] == "error"]) == 1
    assert probe.get("/healthz")[0] == HTTPStatus.OK


def test_a_port_in_use_is_an_error_that_names_the_setting(probe: Probe) -> None:
    with pytest.raises(StartError, match=f"port {probe.server.port}: .*in use.*--http-port"):
        HttpServer("127.0.0.1", probe.server.port, probe.telemetry, probe.vitals)


def test_the_ipv6_wildcard_takes_ipv4_too() -> None:
    if not socket.has_dualstack_ipv6():
        pytest.skip("this machine has no IPv6")
    server = HttpServer("::", 0, Telemetry(), Vitals())
    with socket.create_connection(("127.0.0.1", server.port), timeout=10) as connection:
        connection.sendall(b"GET /healthz HTTP/1.0\r\n\r\n")
        assert b"200" in connection.recv(1000)
    server.close()
