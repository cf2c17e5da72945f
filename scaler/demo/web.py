"""The smallest HTTP server that Prometheus can scrape: GET, one page a request, in the event loop.

It runs in the loop of the fleet that it shows, so that a page is never rendered while the fleet changes.
"""

import asyncio
import http
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

HOST: Final = "127.0.0.1"
# A scrape's head is some 300 bytes.
_MAX_HEAD_BYTES: Final = 16 * 1024
_TIMEOUT_S: Final = 5.0
# Prometheus opens one connection a target; the rest is for people with curl.
_MAX_CONNECTIONS: Final = 100


@dataclass(frozen=True, slots=True)
class Page:
    """An answer."""

    body: bytes
    content_type: str = "text/plain; charset=utf-8"
    status: http.HTTPStatus = http.HTTPStatus.OK


class PageServer:
    """Serves pages on the loopback.

    Args:
        page: Gives the page of a path; called in the event loop, so it must be quick.
    """

    def __init__(self, page: Callable[[str], Page]) -> None:
        self._page = page
        self._server: asyncio.Server | None = None
        self._connections: set[asyncio.StreamWriter] = set()
        self._port = 0

    @property
    def url(self) -> str:
        """The address, known once ``start`` has returned."""
        return f"http://{HOST}:{self._port}"

    async def start(self) -> None:
        """Listen on a free port."""
        self._server = await asyncio.start_server(self._serve, HOST, 0, limit=_MAX_HEAD_BYTES)
        self._port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        """Close the port and every connection."""
        if self._server is None:
            return
        self._server.close()
        for writer in tuple(self._connections):
            writer.close()
        await self._server.wait_closed()
        self._server = None

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            if len(self._connections) >= _MAX_CONNECTIONS:
                return
            self._connections.add(writer)
            async with asyncio.timeout(_TIMEOUT_S):
                head = await reader.readuntil(b"\r\n\r\n")
                writer.write(_response(self._answer(head)))
                await writer.drain()
        except (OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass  # Whoever asked has gone, or speaks no HTTP; there is nobody to tell.
        finally:
            self._connections.discard(writer)
            writer.close()

    def _answer(self, head: bytes) -> Page:
        method, _, rest = head.partition(b" ")
        if method != b"GET":
            return Page(b"only GET is served here\n", status=http.HTTPStatus.METHOD_NOT_ALLOWED)
        path = rest.split(b" ", 1)[0].split(b"?", 1)[0]
        return self._page(path.decode("ascii", "replace"))


def _response(page: Page) -> bytes:
    head = (
        f"HTTP/1.1 {page.status.value} {page.status.phrase}\r\n"
        f"Content-Type: {page.content_type}\r\n"
        f"Content-Length: {len(page.body)}\r\n"
        "Connection: close\r\n\r\n"
    )
    return head.encode("ascii") + page.body
