"""The client against a server that wants certificates, tokens, passwords and headers, and files that change."""

import base64
import json
import ssl
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, TypeAlias

import pytest
from structlog.testing import capture_logs

from scaler.adapters.access import MAX_SECRET_BYTES, Access
from scaler.adapters.prometheus import Prometheus
from scaler.errors import (
    PrometheusDecodeError,
    PrometheusError,
    PrometheusPartialError,
    PrometheusRejectedError,
    PrometheusUnavailableError,
)
from tests.certificates import Authority, authority

AT = 1_800_000_000.0
TOKEN = "eyJhbGciOiJSUzI1NiJ9.first"
ANSWER = {"status": "success", "data": {"resultType": "vector", "result": []}}


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: "Server"

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.server.headers.append(dict(self.headers))
        status, body = self.server.answer(dict(self.headers))
        self.send_response(status)
        if status == 302:
            self.send_header("Location", f"https://elsewhere.example/{self.headers.get('Authorization', '')}")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class's name
        pass


class Server(ThreadingHTTPServer):
    """Answers by ``answer``, which gets the headers, and notes them; with TLS where it is given a certificate."""

    daemon_threads = True

    def __init__(self, context: ssl.SSLContext | None = None) -> None:
        self.headers: list[dict[str, str]] = []
        self.answer: Callable[[dict[str, str]], tuple[int, bytes]] = lambda _: (200, json.dumps(ANSWER).encode())
        self.scheme = "http" if context is None else "https"
        super().__init__(("127.0.0.1", 0), Handler)
        if context is not None:
            # The handshake is the connection's own thread's, so that a client without trust holds up nobody.
            self.socket = context.wrap_socket(self.socket, server_side=True, do_handshake_on_connect=False)

    @property
    def url(self) -> str:
        return f"{self.scheme}://127.0.0.1:{self.server_port}"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that does not trust us hangs up, which is what some of the tests are about."""


Serve: TypeAlias = Callable[..., Server]
Connect: TypeAlias = Callable[..., Prometheus]


@pytest.fixture(scope="module")
def trusted(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return authority(tmp_path_factory.mktemp("trusted") / "ca")


@pytest.fixture(scope="module")
def other(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return authority(tmp_path_factory.mktemp("other") / "ca")


@pytest.fixture
def serve() -> Iterator[Serve]:
    running: list[tuple[Server, threading.Thread]] = []

    def start(signed_by: Authority | None = None, *, clients: Authority | None = None) -> Server:
        context = None
        if signed_by is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(*signed_by.issue("server"))
        if context is not None and clients is not None:
            context.verify_mode = ssl.CERT_REQUIRED
            context.load_verify_locations(clients.certificate)
        server = Server(context)
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        running.append((server, thread))
        return server

    yield start
    for server, thread in running:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.fixture
def connect() -> Iterator[Connect]:
    made: list[Prometheus] = []

    def make(server: Server, **access: Any) -> Prometheus:
        client = Prometheus(
            server.url,
            timeout_s=30.0,
            concurrency=2,
            max_response_bytes=1 << 20,
            access=Access(**access),
            retry_pause_s=0.0,
        )
        made.append(client)
        return client

    yield make
    for client in made:
        client.close()


async def failure(client: Prometheus) -> PrometheusError:
    with pytest.raises(PrometheusError) as caught:
        await client.query("up", AT)
    return caught.value


def written(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


async def test_a_server_of_a_private_authority_is_asked(serve: Serve, connect: Connect, trusted: Authority) -> None:
    client = connect(serve(trusted), ca_file=trusted.certificate)
    assert await client.query("up", AT) == ()


@pytest.mark.parametrize("told", [True, False], ids=["another authority", "the public authorities"])
async def test_a_server_of_an_authority_that_is_not_trusted_gets_no_query(
    serve: Serve, connect: Connect, trusted: Authority, other: Authority, *, told: bool
) -> None:
    server = serve(trusted)
    client = connect(server, **({"ca_file": other.certificate} if told else {}))
    error = await failure(client)
    assert isinstance(error, PrometheusUnavailableError)
    assert "certificate verify failed" in str(error)
    assert server.headers == []


async def test_a_certificate_is_shown_to_a_server_that_asks_for_one(
    serve: Serve, connect: Connect, trusted: Authority, other: Authority
) -> None:
    server = serve(trusted, clients=trusted)
    certificate, key = trusted.issue("client")
    client = connect(server, ca_file=trusted.certificate, client_cert_file=certificate, client_key_file=key)
    assert await client.query("up", AT) == ()
    strange, strange_key = other.issue("client")
    for access in ({}, {"client_cert_file": strange, "client_key_file": strange_key}):
        error = await failure(connect(server, ca_file=trusted.certificate, **access))
        assert isinstance(error, PrometheusUnavailableError)
    assert len(server.headers) == 1


async def test_a_certificate_that_was_renewed_is_shown_at_the_next_query(
    serve: Serve, connect: Connect, trusted: Authority, other: Authority, tmp_path: Path
) -> None:
    server = serve(trusted, clients=trusted)
    strange, strange_key = other.issue("client")
    certificate, key = (written(tmp_path / path.name, path.read_text()) for path in (strange, strange_key))
    client = connect(server, ca_file=trusted.certificate, client_cert_file=certificate, client_key_file=key)
    assert isinstance(await failure(client), PrometheusUnavailableError)
    for path, renewed in zip((certificate, key), trusted.issue("client"), strict=True):
        path.write_bytes(renewed.read_bytes())
    assert await client.query("up", AT) == ()


async def test_an_authority_that_was_replaced_is_used_at_the_next_query(
    serve: Serve, connect: Connect, trusted: Authority, other: Authority, tmp_path: Path
) -> None:
    authorities = written(tmp_path / "ca.crt", trusted.certificate.read_text())
    client = connect(serve(trusted), ca_file=authorities)
    assert await client.query("up", AT) == ()
    authorities.write_bytes(other.certificate.read_bytes())
    assert "certificate verify failed" in str(await failure(client))


async def test_a_token_is_sent_and_read_again_once_it_was_renewed(
    serve: Serve, connect: Connect, tmp_path: Path
) -> None:
    server = serve()
    token = written(tmp_path / "token", f"{TOKEN}\n")
    client = connect(server, bearer_token_file=token)
    await client.query("up", AT)
    # As the kubelet renews a mounted token: another file in its place.
    written(tmp_path / "new", "second").replace(token)
    await client.query("up", AT)
    assert [headers["Authorization"] for headers in server.headers] == [f"Bearer {TOKEN}", "Bearer second"]


async def test_basic_auth_names_the_user_and_reads_the_password_again(
    serve: Serve, connect: Connect, tmp_path: Path
) -> None:
    server = serve()
    password = written(tmp_path / "password", "h\u00fcsh: hush\n")
    client = connect(server, basic_auth_user="me", basic_auth_password_file=password)
    await client.query("up", AT)
    password.write_text("other")
    await client.query("up", AT)
    sent = [base64.b64decode(headers["Authorization"].removeprefix("Basic ")).decode() for headers in server.headers]
    assert sent == ["me:h\u00fcsh: hush", "me:other"]


async def test_headers_are_sent_with_every_query(serve: Serve, connect: Connect) -> None:
    server = serve()
    client = connect(server, headers={"X-Scope-OrgID": "serving|batch"})
    await client.query("up", AT)
    await client.query("up", AT)
    assert [headers["X-Scope-OrgID"] for headers in server.headers] == ["serving|batch"] * 2


async def test_nothing_is_sent_that_nobody_asked_for(
    serve: Serve, connect: Connect, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written(tmp_path / ".netrc", "machine 127.0.0.1 login me password hush\n")
    monkeypatch.setenv("NETRC", str(tmp_path / ".netrc"))
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    server = serve()
    await connect(server).query("up", AT)
    assert "Authorization" not in server.headers[0]


@pytest.mark.parametrize(
    ("key", "content", "text"),
    [
        ("bearer_token_file", None, "the bearer token file {path} cannot be read: No such file or directory"),
        ("bearer_token_file", "", "the bearer token file {path} does not hold one line of text"),
        ("bearer_token_file", "hush\nhush", "the bearer token file {path} does not hold one line of text"),
        ("bearer_token_file", "h\u00fcsh", "the bearer token file {path} does not hold one line of text"),
        ("bearer_token_file", "h" * (MAX_SECRET_BYTES + 1), "the bearer token file {path} is larger than 16384 bytes"),
        ("basic_auth_password_file", None, "the password file {path} cannot be read: No such file or directory"),
        ("ca_file", None, "the TLS file {path} cannot be read: No such file or directory"),
        ("ca_file", "", "{path} holds no PEM certificates of authorities"),
        ("ca_file", "no certificate", "{path} holds no PEM certificates of authorities"),
    ],
)
async def test_a_file_that_cannot_be_used_later_makes_the_query_fail_by_its_name(
    serve: Serve, connect: Connect, trusted: Authority, tmp_path: Path, *, key: str, content: str | None, text: str
) -> None:
    server = serve(trusted)
    path = written(tmp_path / "file", trusted.certificate.read_text() if key == "ca_file" else "hush")
    access = {"ca_file": trusted.certificate, "basic_auth_user": "me", key: path}
    client = connect(server, **access)
    client.check()
    await client.query("up", AT)
    path.unlink()
    if content is not None:
        path.write_text(content)
    error = await failure(client)
    assert isinstance(error, PrometheusUnavailableError)
    assert str(error) == text.format(path=path)
    path.write_text(trusted.certificate.read_text() if key == "ca_file" else "hush")
    assert await client.query("up", AT) == ()


async def test_a_key_of_another_certificate_is_said(
    serve: Serve, connect: Connect, trusted: Authority, other: Authority
) -> None:
    (certificate, _), (_, key) = trusted.issue("client"), other.issue("client")
    client = connect(serve(trusted), client_cert_file=certificate, client_key_file=key)
    assert str(await failure(client)) == f"{certificate} and {key} are no certificate and its key"


@pytest.mark.parametrize("status", [200, 302, 401, 500])
async def test_a_server_that_repeats_secrets_does_not_get_them_into_errors_and_logs(
    serve: Serve, connect: Connect, tmp_path: Path, status: int
) -> None:
    server = serve()
    # So long that the text is cut within it, unless it was masked before.
    token = "hush" * 100
    server.answer = lambda headers: (
        status,
        json.dumps(
            {"status": "error", "errorType": "bad", "error": f"{headers['X-Tenant']} {headers['Authorization']}"}
        ).encode(),
    )
    client = connect(server, bearer_token_file=written(tmp_path / "token", token), headers={"X-Tenant": "tenant-hush"})
    with capture_logs() as logs:
        error = await failure(client)
    assert "hush" not in str(error)
    assert "***" in str(error)
    assert error.__context__ is None
    assert logs == []
    assert "hush" not in repr(Access(headers={"X-Tenant": "tenant-hush"}))


async def test_a_redirect_takes_no_credentials_anywhere(serve: Serve, connect: Connect, tmp_path: Path) -> None:
    server = serve()
    server.answer = lambda _: (302, b"")
    error = await failure(connect(server, bearer_token_file=written(tmp_path / "token", TOKEN)))
    assert isinstance(error, PrometheusDecodeError)
    assert len(server.headers) == 1


async def test_a_refused_token_is_rejected_and_a_partial_answer_is_none(
    serve: Serve, connect: Connect, tmp_path: Path
) -> None:
    refusing, partial = serve(), serve()
    refusing.answer = lambda _: (401, b"no such user")
    partial.answer = lambda _: (200, json.dumps({**ANSWER, "warnings": ["store eu-1b is away"]}).encode())
    token = written(tmp_path / "token", TOKEN)
    assert isinstance(await failure(connect(refusing, bearer_token_file=token)), PrometheusRejectedError)
    error = await failure(connect(partial, bearer_token_file=token))
    assert isinstance(error, PrometheusPartialError)
    assert "store eu-1b is away" in str(error)
