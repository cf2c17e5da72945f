"""The client against a server that misbehaves in every way that a Prometheus, or what stands before it, can."""

import asyncio
import gzip
import json
import threading
import time
import urllib.parse
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, TypeAlias

import pytest

from scaler.adapters.prometheus import Prometheus
from scaler.errors import (
    PrometheusDecodeError,
    PrometheusError,
    PrometheusOversizeError,
    PrometheusPartialError,
    PrometheusRejectedError,
    PrometheusTimeoutError,
    PrometheusUnavailableError,
)

AT = 1_800_000_000.125
# Far more than any of these answers takes, where a test is not about slowness.
PATIENT_S = 30.0
# Long enough for a loopback connection, short enough to wait for.
IMPATIENT_S = 0.4
ANSWER = json.dumps(
    {
        "status": "success",
        "data": {"resultType": "vector", "result": [{"metric": {"pod": "a"}, "value": [AT, "4"]}]},
        "infos": ["PromQL info: nothing to worry about"],
    }
).encode()


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: "Server"

    def do_POST(self) -> None:
        form = self.rfile.read(int(self.headers.get("Content-Length", 0))).decode()
        with self.server.lock:
            self.server.asked.append((self.path, urllib.parse.parse_qs(form)))
            behaviour = self.server.script.pop(0) if len(self.server.script) > 1 else self.server.script[0]
        try:
            behaviour(self)
        except OSError:
            self.close_connection = True

    def do_GET(self) -> None:
        self.do_POST()

    def reply(self, status: int, body: bytes, **headers: str) -> None:
        self.send_response(status)
        length = {} if "Transfer_Encoding" in headers else {"Content_Length": str(len(body))}
        for name, value in {**length, **headers}.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(body)

    def drip(self, data: bytes) -> None:
        """Send a byte every now and then, for ever or until the test is over."""
        while not self.server.over.wait(0.02):
            self.wfile.write(data)
            self.wfile.flush()
        self.close_connection = True

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class's name
        pass


Behaviour: TypeAlias = Callable[[Handler], None]


class Server(ThreadingHTTPServer):
    """Behaves by ``script``, an entry for each request, the last one for all that follow."""

    daemon_threads = True

    def __init__(self) -> None:
        self.script: list[Behaviour] = [answer]
        self.asked: list[tuple[str, dict[str, list[str]]]] = []
        self.over = threading.Event()
        self.lock = threading.Lock()
        super().__init__(("127.0.0.1", 0), Handler)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


def answer(handler: Handler) -> None:
    handler.reply(200, ANSWER)


def refuse(status: int, body: bytes = b"", **headers: str) -> Behaviour:
    return lambda handler: handler.reply(status, body, **headers)


def refuse_as_prometheus(status: int, kind: str, text: str) -> Behaviour:
    return refuse(status, json.dumps({"status": "error", "errorType": kind, "error": text}).encode())


def hang_up(handler: Handler) -> None:
    handler.close_connection = True


def stay_silent(handler: Handler) -> None:
    handler.server.over.wait()
    handler.close_connection = True


def drip_body(handler: Handler) -> None:
    handler.send_response(200)
    handler.send_header("Content-Length", "1000000")
    handler.end_headers()
    handler.drip(b" ")


def drip_chunks(handler: Handler) -> None:
    handler.send_response(200)
    handler.send_header("Transfer-Encoding", "chunked")
    handler.end_headers()
    handler.drip(b"1\r\n \r\n")


def drip_header(handler: Handler) -> None:
    handler.send_response(200)
    handler.flush_headers()
    handler.wfile.write(b"X-Never-Ends: ")
    handler.drip(b"x")


@pytest.fixture
def server() -> Iterator[Server]:
    with Server() as api:
        thread = threading.Thread(target=api.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield api
        api.over.set()
        api.shutdown()
        thread.join()


@pytest.fixture
def client(server: Server) -> Iterator[Callable[..., Prometheus]]:
    made: list[Prometheus] = []

    def make(**settings: Any) -> Prometheus:
        defaults = {"timeout_s": PATIENT_S, "concurrency": 2, "max_response_bytes": 1 << 20, "retry_pause_s": 0.0}
        made.append(Prometheus(settings.pop("url", server.url), **{**defaults, **settings}))
        return made[-1]

    yield make
    server.over.set()
    for prometheus in made:
        prometheus.close()


Make: TypeAlias = Callable[..., Prometheus]


async def failure(prometheus: Prometheus) -> PrometheusError:
    with pytest.raises(PrometheusError) as caught:
        await prometheus.query("up", AT)
    return caught.value


async def test_a_query_is_posted_as_a_form_for_its_instant(server: Server, client: Make) -> None:
    (sample,) = await client(url=f"{server.url}/").query('up{pod="a&b"}', AT)
    assert (sample.labels, sample.value, sample.at) == ({"pod": "a"}, 4.0, AT)
    ((path, form),) = server.asked
    assert path == "/api/v1/query"
    assert (form["query"], form["time"]) == (['up{pod="a&b"}'], ["1800000000.125"])
    assert 0 < float(form["timeout"][0]) <= PATIENT_S
    # Or VictoriaMetrics would answer for half a minute ago.
    assert form["nocache"] == ["1"]


async def test_a_server_below_a_path_is_asked_there(server: Server, client: Make) -> None:
    await client(url=f"{server.url}/prometheus").query("up", AT)
    assert server.asked[0][0] == "/prometheus/api/v1/query"


async def test_a_compressed_answer_is_read(server: Server, client: Make) -> None:
    server.script = [refuse(200, gzip.compress(ANSWER), Content_Encoding="gzip")]
    assert len(await client().query("up", AT)) == 1


@pytest.mark.parametrize("fault", [hang_up, refuse(503), refuse_as_prometheus(503, "unavailable", "starting up")])
async def test_a_server_that_is_back_at_once_is_asked_again(server: Server, client: Make, fault: Behaviour) -> None:
    server.script = [fault, answer]
    assert len(await client().query("up", AT)) == 1
    assert len(server.asked) == 2


@pytest.mark.parametrize("fault", [hang_up, refuse(503, b"upstream connect error")])
async def test_a_server_that_stays_away_is_asked_no_more_than_twice(
    server: Server, client: Make, fault: Behaviour
) -> None:
    server.script = [fault]
    assert isinstance(await failure(client()), PrometheusUnavailableError)
    assert len(server.asked) == 2


async def test_there_is_no_second_try_beyond_the_deadline(server: Server, client: Make) -> None:
    server.script = [refuse(503)]
    assert isinstance(await failure(client(retry_pause_s=PATIENT_S + 1)), PrometheusUnavailableError)
    assert len(server.asked) == 1


async def test_a_server_that_does_not_listen_is_unavailable(server: Server, client: Make) -> None:
    prometheus = client(url="http://127.0.0.1:1")
    assert isinstance(await failure(prometheus), PrometheusUnavailableError)
    assert server.asked == []


@pytest.mark.parametrize("status", [500, 502, 504])
async def test_a_server_error_is_unavailable_and_not_asked_again(server: Server, client: Make, status: int) -> None:
    server.script = [refuse(status, b"Bad Gateway")]
    error = await failure(client())
    assert isinstance(error, PrometheusUnavailableError)
    assert f"HTTP {status}: Bad Gateway" in str(error)
    assert len(server.asked) == 1


async def test_a_query_that_took_the_server_too_long_is_a_timeout_and_not_asked_again(
    server: Server, client: Make
) -> None:
    server.script = [refuse_as_prometheus(503, "timeout", "query timed out in expression evaluation")]
    error = await failure(client())
    assert isinstance(error, PrometheusTimeoutError)
    assert "query timed out" in str(error)
    assert len(server.asked) == 1


@pytest.mark.parametrize(
    ("behaviour", "text"),
    [
        (refuse_as_prometheus(400, "bad_data", "invalid parameter"), "HTTP 400: bad_data: invalid parameter"),
        (refuse_as_prometheus(422, "execution", "many-to-many"), "HTTP 422: execution: many-to-many"),
        (refuse(401, b"<html>Sign in</html>"), "HTTP 401: <html>Sign in</html>"),
        (refuse(404), "HTTP 404: without a text"),
        (refuse(200, b'{"status":"error","errorType":"internal","error":"oops"}'), "internal: oops"),
    ],
)
async def test_a_refusal_is_rejected_with_its_reason_and_not_asked_again(
    server: Server, client: Make, behaviour: Behaviour, text: str
) -> None:
    server.script = [behaviour]
    error = await failure(client())
    assert isinstance(error, PrometheusRejectedError)
    assert text in str(error)
    assert len(server.asked) == 1


async def test_a_long_or_multi_line_refusal_is_shortened(server: Server, client: Make) -> None:
    server.script = [refuse_as_prometheus(400, "bad_data\n", "x" * 100_000)]
    text = str(await failure(client()))
    assert len(text) < 1000
    assert "\n" not in text


@pytest.mark.parametrize(
    "behaviour",
    [
        refuse(200, b"<html>Sign in</html>", Content_Type="text/html"),
        refuse(200, ANSWER[:-10]),
        refuse(200, ANSWER[:-10], Content_Length=str(len(ANSWER))),
        refuse(200, b"ff\r\nhalf", Transfer_Encoding="chunked"),
        refuse(200, b"no gzip", Content_Encoding="gzip"),
        refuse(200, ANSWER.replace(b"vector", b"matrix")),
        refuse(204),
    ],
    ids=["html", "half-json", "half-body", "half-chunk", "no-gzip", "matrix", "no-content"],
)
async def test_an_answer_that_cannot_be_read_is_a_decode_error(
    server: Server, client: Make, behaviour: Behaviour
) -> None:
    def once(handler: Handler) -> None:
        behaviour(handler)
        handler.close_connection = True

    server.script = [once]
    assert isinstance(await failure(client()), PrometheusDecodeError)


@pytest.mark.parametrize("body", [b" " * 5_000_000, gzip.compress(b" " * 50_000_000)], ids=["plain", "gzip"])
async def test_an_answer_that_is_too_long_is_not_read_to_its_end(server: Server, client: Make, body: bytes) -> None:
    packed = {"Content_Encoding": "gzip"} if body.startswith(b"\x1f") else {}
    server.script = [refuse(200, body, **packed)]
    error = await failure(client(max_response_bytes=1000))
    assert isinstance(error, PrometheusOversizeError)
    assert "longer than 1000 bytes" in str(error)


async def test_warnings_make_an_answer_partial(server: Server, client: Make) -> None:
    server.script = [refuse(200, ANSWER.replace(b'"infos"', b'"warnings"').replace(b"PromQL info", b"store"))]
    assert isinstance(await failure(client()), PrometheusPartialError)


@pytest.mark.parametrize("status", [301, 302, 307, 308])
async def test_a_redirect_is_not_followed(server: Server, client: Make, status: int) -> None:
    server.script = [refuse(status, Location=f"{server.url}/elsewhere"), answer]
    error = await failure(client())
    assert isinstance(error, PrometheusDecodeError)
    assert "/elsewhere" in str(error)
    assert len(server.asked) == 1


@pytest.mark.parametrize("behaviour", [stay_silent, drip_header, drip_body, drip_chunks])
async def test_a_slow_answer_is_a_timeout_at_the_deadline(server: Server, client: Make, behaviour: Behaviour) -> None:
    server.script = [behaviour]
    prometheus = client(timeout_s=IMPATIENT_S)
    started = time.monotonic()
    assert isinstance(await failure(prometheus), PrometheusTimeoutError)
    assert time.monotonic() - started < 10 * IMPATIENT_S


@pytest.mark.parametrize("behaviour", [stay_silent, drip_body, drip_chunks])
async def test_a_slow_answer_does_not_keep_its_thread(server: Server, client: Make, behaviour: Behaviour) -> None:
    server.script = [behaviour, answer]
    prometheus = client(concurrency=1)
    with pytest.raises(PrometheusTimeoutError):
        await prometheus.query("up", AT, prometheus.deadline() - PATIENT_S + IMPATIENT_S)
    assert len(await prometheus.query("up", AT)) == 1


async def test_a_hanging_thread_holds_up_no_query_beyond_its_deadline(server: Server, client: Make) -> None:
    server.script = [drip_header]
    prometheus = client(concurrency=1, timeout_s=IMPATIENT_S)
    assert isinstance(await failure(prometheus), PrometheusTimeoutError)
    assert isinstance(await failure(prometheus), PrometheusTimeoutError)
    assert len(server.asked) == 1
    server.script = [answer]
    server.over.set()
    assert len(await prometheus.query("up", AT, time.monotonic() + PATIENT_S)) == 1


async def test_a_deadline_that_has_passed_asks_nothing(server: Server, client: Make) -> None:
    with pytest.raises(PrometheusTimeoutError):
        await client().query("up", AT, time.monotonic() - 1)
    assert server.asked == []


async def test_no_more_queries_run_at_once_than_allowed(server: Server, client: Make) -> None:
    running, most = set[int](), 0
    both_run = threading.Barrier(2)

    def count(handler: Handler) -> None:
        nonlocal most
        with server.lock:
            running.add(threading.get_ident())
            most = max(most, len(running))
        both_run.wait(PATIENT_S)
        with server.lock:
            running.discard(threading.get_ident())
        answer(handler)

    server.script = [count]
    prometheus = client(concurrency=2)
    await asyncio.gather(*(prometheus.query("up", AT) for _ in range(6)))
    assert most == 2


async def test_proxies_of_the_environment_are_not_used(client: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    monkeypatch.delenv("no_proxy", raising=False)
    assert len(await client().query("up", AT)) == 1


async def test_connections_are_kept_for_the_next_tick(server: Server, client: Make) -> None:
    ports = set[int]()

    def remember(handler: Handler) -> None:
        ports.add(handler.client_address[1])
        answer(handler)

    server.script = [remember]
    prometheus = client()
    for _ in range(3):
        await prometheus.query("up", AT)
    assert len(ports) == 1


async def test_a_closed_client_says_so(server: Server, client: Make) -> None:
    prometheus = client()
    prometheus.close()
    assert isinstance(await failure(prometheus), PrometheusUnavailableError)
    assert server.asked == []


async def test_a_query_that_nobody_awaits_any_more_gives_its_thread_back(server: Server, client: Make) -> None:
    asked = threading.Event()

    def announce_and_stay_silent(handler: Handler) -> None:
        asked.set()
        stay_silent(handler)

    server.script = [announce_and_stay_silent, answer]
    prometheus = client(concurrency=1)
    query = asyncio.create_task(prometheus.query("up", AT))
    await asyncio.to_thread(asked.wait, PATIENT_S)
    query.cancel()
    with pytest.raises(asyncio.CancelledError):
        await query
    server.over.set()
    assert len(await prometheus.query("up", AT)) == 1


def answer_range(handler: Handler, form: dict[str, list[str]], *, most: int) -> None:
    """Answer like Prometheus: one series whose value is the number of the instant; no more than so many of them."""
    start, end, step = (float(form[name][0]) for name in ("start", "end", "step"))
    count = round((end - start) / step) + 1
    if count > most:
        text = "query processing would load too many samples into memory in query execution"
        refuse_as_prometheus(422, "execution", text)(handler)
        return
    values = [[start + number * step, str((start + number * step - AT) / step)] for number in range(count)]
    result = [{"metric": {"pod": "a"}, "values": values}]
    body = {"status": "success", "data": {"resultType": "matrix", "result": result}}
    handler.reply(200, json.dumps(body).encode())


def ranges(*, most: int = 11_000) -> Behaviour:
    return lambda handler: answer_range(handler, handler.server.asked[-1][1], most=most)


async def test_a_range_is_posted_as_a_form_and_gives_a_vector_for_each_instant(server: Server, client: Make) -> None:
    server.script = [ranges()]
    vectors = await client().query_range("up", AT, AT + 45, 15)
    assert [[sample.value for sample in vector] for vector in vectors] == [[0], [1], [2], [3]]
    ((path, form),) = server.asked
    assert path == "/api/v1/query_range"
    assert [form[name] for name in ("query", "start", "end", "step")] == [
        ["up"],
        ["1800000000.125"],
        ["1800000045.125"],
        ["15.000"],
    ]


async def test_a_range_that_is_too_much_for_prometheus_is_asked_for_in_parts(server: Server, client: Make) -> None:
    server.script = [ranges(most=3)]
    vectors = await client().query_range("up", AT, AT + 9 * 15, 15)
    assert [sample.value for vector in vectors for sample in vector] == list(range(10))
    assert 4 < len(server.asked) < 12


async def test_a_range_whose_answer_is_too_long_is_asked_for_in_parts(server: Server, client: Make) -> None:
    server.script = [ranges()]
    vectors = await client(max_response_bytes=400).query_range("up", AT, AT + 99 * 15, 15)
    assert [sample.value for vector in vectors for sample in vector] == list(range(100))


async def test_one_instant_that_is_too_much_is_an_error(server: Server, client: Make) -> None:
    server.script = [ranges(most=0)]
    with pytest.raises(PrometheusOversizeError, match="too many samples"):
        await client().query_range("up", AT, AT + 30, 15)


async def test_no_more_instants_are_asked_for_at_once_than_prometheus_takes(server: Server, client: Make) -> None:
    server.script = [ranges()]
    assert len(await client().query_range("up", AT, AT + 11_999, 1)) == 12_000
    assert len(server.asked) == 2
