import asyncio
import http
from collections.abc import AsyncIterator

import pytest

from scaler.demo.web import HOST, Page, PageServer


def page(path: str) -> Page:
    if path == "/metrics":
        return Page(b"up 1\n", "text/plain; version=0.0.4")
    return Page(b"no such page\n", status=http.HTTPStatus.NOT_FOUND)


@pytest.fixture
async def server() -> AsyncIterator[PageServer]:
    running = PageServer(page)
    await running.start()
    yield running
    await running.stop()


async def ask(server: PageServer, request: bytes) -> bytes:
    reader, writer = await asyncio.open_connection(HOST, int(server.url.rpartition(":")[2]))
    writer.write(request)
    try:
        return await asyncio.wait_for(reader.read(), 5)
    finally:
        writer.close()


async def test_a_page_is_served_with_its_type_and_length(server: PageServer) -> None:
    answer = await ask(server, b"GET /metrics?x=1 HTTP/1.1\r\nHost: demo\r\n\r\n")

    assert answer.startswith(b"HTTP/1.1 200 OK\r\n")
    assert b"Content-Type: text/plain; version=0.0.4\r\nContent-Length: 5\r\n" in answer
    assert answer.endswith(b"\r\n\r\nup 1\n")


@pytest.mark.parametrize(
    ("request_head", "status"),
    [(b"GET /nothing HTTP/1.1\r\n\r\n", b"404 Not Found"), (b"POST /metrics HTTP/1.1\r\n\r\n", b"405 Method")],
)
async def test_other_requests_are_refused(server: PageServer, request_head: bytes, status: bytes) -> None:
    assert status in await ask(server, request_head)


@pytest.mark.parametrize("rubbish", [b"GET", b"\0" * 100_000, b"\r\n\r\n", b"GET \xff\xfe HTTP/1.1\r\n\r\n"])
async def test_rubbish_does_not_stop_it(server: PageServer, rubbish: bytes) -> None:
    reader, writer = await asyncio.open_connection(HOST, int(server.url.rpartition(":")[2]))
    writer.write(rubbish)
    writer.write_eof()
    await asyncio.wait_for(_until_closed(reader), 5)
    writer.close()

    assert b"200 OK" in await ask(server, b"GET /metrics HTTP/1.1\r\n\r\n")


async def _until_closed(reader: asyncio.StreamReader) -> None:
    try:
        await reader.read()
    except ConnectionResetError:
        return


async def test_stopping_closes_the_port_and_open_connections(server: PageServer) -> None:
    port = int(server.url.rpartition(":")[2])
    reader, writer = await asyncio.open_connection(HOST, port)
    assert b"200 OK" in await ask(server, b"GET /metrics HTTP/1.1\r\n\r\n")

    await server.stop()

    await asyncio.wait_for(_until_closed(reader), 5)
    writer.close()
    with pytest.raises(ConnectionRefusedError):
        await asyncio.open_connection(HOST, port)
    await server.stop()
