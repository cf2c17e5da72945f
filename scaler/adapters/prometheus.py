"""Queries over Prometheus's HTTP API, within a deadline: the one place that knows prometheus-api-client.

The client blocks, so it runs in a few threads. Rules: a query ends at its deadline for whoever awaits it, even where
its thread still hangs in a socket; a thread is free for the next query only when it really is; so neither threads nor
waiting work grow without bound, whatever the server does. Redirects are not followed, and nothing of the
environment (proxies, .netrc) is used.
"""

import asyncio
import contextlib
import http
import json
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Final, TypeVar

import requests
from prometheus_api_client import PrometheusConnect
from requests.adapters import HTTPAdapter
from urllib3.exceptions import HTTPError, ReadTimeoutError
from urllib3.util.retry import Retry

from scaler.adapters.access import Access, Credentials, TlsAdapter
from scaler.errors import (
    PrometheusDecodeError,
    PrometheusError,
    PrometheusOversizeError,
    PrometheusRejectedError,
    PrometheusTimeoutError,
    PrometheusUnavailableError,
)
from scaler.promql import Sample
from scaler.promql.answer import decode_matrix, decode_vector, describe_error, quoted

# Bytes asked of the socket at a time: the deadline and the limit are looked at between two of them.
_CHUNK_BYTES: Final = 64 * 1024
# A server that restarts, or a kept-alive connection that was closed meanwhile: one more try, once this has passed.
_RETRY_PAUSE_S: Final = 0.1
MAX_POINTS: Final = 11_000
"""Prometheus refuses a range query of more instants."""
# What Prometheus says, with HTTP 422, of a query that goes beyond --query.max-samples.
_TOO_MANY_SAMPLES: Final = "too many samples"

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class _Reply:
    status: int
    location: str
    body: bytes


class _BlockingClient(PrometheusConnect):  # type: ignore[misc]  # the package has no types
    """The client, with its session put right for one query within a deadline.

    Its own query methods are not used: they put the query into the address, retry by themselves for longer than any
    deadline, read answers of any length, and drop warnings and the type of the result.
    """

    def __init__(
        self,
        url: str,
        *,
        access: Access,
        concurrency: int,
        max_response_bytes: int,
        monotonic: Callable[[], float],
        pause_s: float,
    ) -> None:
        super().__init__(url=url.rstrip("/"), retry=Retry(total=0))
        self._session.trust_env = False
        self._session.mount(self.url, HTTPAdapter(pool_maxsize=concurrency, max_retries=Retry(total=0)))
        self._credentials = Credentials(access)
        self._concurrency = concurrency
        self._mounting = threading.Lock()
        self._max_response_bytes = max_response_bytes
        self._monotonic = monotonic
        self._pause_s = pause_s
        self._closing = threading.Event()
        # Of several threads that compute, the one with the event loop gets its turn last; and one is no slower.
        self._decoding = threading.Lock()

    def close(self) -> None:
        self._closing.set()
        super().close()

    def ask(self, path: str, form: Mapping[str, str], decode: Callable[[bytes], _T], deadline: float) -> _T:
        """Ask once, and once more when there was no connection or the server said that it is busy (503)."""
        try:
            reply = self._post(path, form, deadline)
        except PrometheusUnavailableError:
            if not self._may_retry(deadline):
                raise
            reply = self._post(path, form, deadline)
        else:
            busy = reply.status == http.HTTPStatus.SERVICE_UNAVAILABLE
            if busy and isinstance(self._refusal(reply), PrometheusUnavailableError) and self._may_retry(deadline):
                reply = self._post(path, form, deadline)
        if reply.status != http.HTTPStatus.OK:
            raise self._refusal(reply)
        with self._decoding:
            self._left(deadline)
            return self._decoded(reply.body, decode)

    def prepare(self) -> dict[str, str]:
        """Return the headers to send, after what TLS needs was put in place.

        Raises:
            PrometheusUnavailableError: A file cannot be read or used; the text names it.
        """
        if self.url.lower().startswith("https:"):
            context = self._credentials.tls()
            with self._mounting:
                used = self._session.get_adapter(self.url)
                if not isinstance(used, TlsAdapter) or used.context is not context:
                    self._session.mount(self.url, TlsAdapter(context, self._concurrency))
                    used.close()
        return self._credentials.headers()

    def _may_retry(self, deadline: float) -> bool:
        if deadline - self._monotonic() <= self._pause_s:
            return False
        return not self._closing.wait(self._pause_s)

    def _post(self, path: str, form: Mapping[str, str], deadline: float) -> _Reply:
        headers = self.prepare()
        left_s = self._left(deadline)
        try:
            with self._session.post(
                f"{self.url}/api/v1/{path}",
                # The server need not go on for longer than we listen. VictoriaMetrics answers as of 30 s before "now",
                # its search.latencyOffset, unless it is asked for no cache; others do not know that word.
                data={**form, "timeout": f"{left_s:.3f}", "nocache": "1"},
                headers=headers,
                timeout=(left_s, left_s),
                allow_redirects=False,
                stream=True,
            ) as response:
                return _Reply(
                    response.status_code, response.headers.get("Location", ""), self._body(response, deadline)
                )
        except (requests.Timeout, ReadTimeoutError) as error:
            raise PrometheusTimeoutError(f"Prometheus at {self.url} did not answer in {left_s:.1f} s") from error
        except requests.RequestException as error:
            raise PrometheusUnavailableError(f"Prometheus at {self.url} cannot be asked: {_cause(error)}") from error
        except HTTPError as error:
            raise PrometheusDecodeError(f"the answer of Prometheus at {self.url} broke off: {quoted(error)}") from error

    def _body(self, response: requests.Response, deadline: float) -> bytes:
        """Read the answer as it comes; a plain read would wait for a whole chunk of a body that only drips."""
        body = bytearray()
        while chunk := response.raw.read1(_CHUNK_BYTES, decode_content=True):
            body += chunk
            if len(body) > self._max_response_bytes:
                raise PrometheusOversizeError(
                    f"the answer of Prometheus at {self.url} is longer than {self._max_response_bytes} bytes: "
                    "raise max-response-bytes, or give pools narrower selectors"
                )
            self._left(deadline)
        return bytes(body)

    def _left(self, deadline: float) -> float:
        left_s = deadline - self._monotonic()
        if left_s <= 0:
            raise PrometheusTimeoutError(f"Prometheus at {self.url} did not answer in time")
        return left_s

    def _decoded(self, body: bytes, decode: Callable[[bytes], _T]) -> _T:
        """Read an answer; the text of its error has no secret, even where the server repeats one."""
        with contextlib.suppress(PrometheusError):
            return decode(body)
        # Masked before the text is cut: half a secret would not be found afterwards.
        return decode(self._credentials.masked(body.decode("utf-8", "replace")).encode())

    def _refusal(self, reply: _Reply) -> PrometheusError:
        """Return the error that an answer other than 200 stands for."""
        body = self._credentials.masked(reply.body.decode("utf-8", "replace"))
        try:
            answer = json.loads(body)
        except (ValueError, RecursionError):
            answer = None
        said = describe_error(answer) or quoted(body[:300]) or "without a text"
        text = f"Prometheus at {self.url} answered HTTP {reply.status}: {said}"
        if 500 <= reply.status < 600:  # noqa: PLR2004 - the class of the status
            if isinstance(answer, dict) and answer.get("errorType") == "timeout":
                return PrometheusTimeoutError(text)
            return PrometheusUnavailableError(text)
        if reply.status == http.HTTPStatus.UNPROCESSABLE_ENTITY and _TOO_MANY_SAMPLES in said:
            return PrometheusOversizeError(text)
        if 400 <= reply.status < 500:  # noqa: PLR2004 - the class of the status
            return PrometheusRejectedError(text)
        if reply.location:
            target = quoted(self._credentials.masked(reply.location))
            return PrometheusDecodeError(
                f"Prometheus at {self.url} redirects to {target} (HTTP {reply.status}), which is not"
                " followed: set the address to where Prometheus itself is"
            )
        return PrometheusDecodeError(text)


def _cause(error: BaseException) -> str:
    """Return what a connection failed of, in the operating system's words: "connection refused"."""
    seen: BaseException | None = error
    for _ in range(8):  # requests wraps urllib3's error, which wraps another, which wraps the system's
        if seen is None:
            break
        if isinstance(seen, OSError) and seen.strerror:
            return seen.strerror.lower()
        inner = getattr(seen, "reason", None) or next((one for one in seen.args if isinstance(one, Exception)), None)
        seen = inner if isinstance(inner, BaseException) else seen.__cause__ or seen.__context__
    return quoted(error)


class Prometheus:
    """Asks one Prometheus, several queries at once.

    Args:
        url: Where the HTTP API is, without ``/api/v1``.
        timeout_s: Seconds that a query may take where its caller sets no deadline.
        concurrency: Queries, and threads, at once.
        max_response_bytes: The longest answer that is read, after decompression.
        access: What it wants besides; files are not looked at before ``check`` or the first query.
        monotonic: Seconds since some instant; deadlines are on this clock.
        retry_pause_s: Seconds before the one retry.
    """

    def __init__(
        self,
        url: str,
        *,
        timeout_s: float,
        concurrency: int,
        max_response_bytes: int,
        access: Access = Access(),  # noqa: B008 - frozen
        monotonic: Callable[[], float] = time.monotonic,
        retry_pause_s: float = _RETRY_PAUSE_S,
    ) -> None:
        self._timeout_s = timeout_s
        self._monotonic = monotonic
        self._client = _BlockingClient(
            url,
            access=access,
            concurrency=concurrency,
            max_response_bytes=max_response_bytes,
            monotonic=monotonic,
            pause_s=retry_pause_s,
        )
        self._threads = ThreadPoolExecutor(concurrency, thread_name_prefix="prometheus")
        self._free_threads = asyncio.Semaphore(concurrency)

    def check(self) -> None:
        """Look whether the files are there and can be used.

        Raises:
            PrometheusUnavailableError: One cannot; the text names it.
        """
        self._client.prepare()

    def deadline(self) -> float:
        """Return the instant ``timeout_s`` from now, for queries that share it."""
        return self._monotonic() + self._timeout_s

    async def query(self, expr: str, at: float, deadline: float | None = None) -> tuple[Sample, ...]:
        """Ask for an instant vector.

        Args:
            expr: The PromQL.
            at: The instant of the evaluation, in Unix seconds.
            deadline: When to give up, on the monotonic clock; None is ``timeout_s`` from now.

        Returns:
            The elements; none is an answer too.

        Raises:
            PrometheusError: There was no complete and readable answer; its subclass says why.
        """
        form = {"query": expr, "time": f"{at:.3f}"}
        return await self._ask("query", form, decode_vector, self.deadline() if deadline is None else deadline)

    async def query_range(
        self, expr: str, start: float, end: float, step_s: float, deadline: float | None = None
    ) -> tuple[tuple[Sample, ...], ...]:
        """Ask for the vectors that instant queries would give from ``start`` to ``end``, every ``step_s``.

        A span that is too much for one answer, by ``max_response_bytes`` or for Prometheus, is halved until it is not.

        Args:
            expr: The PromQL.
            start: The first instant, in Unix seconds.
            end: The last instant, a whole number of steps later.
            step_s: Seconds between two of them.
            deadline: When to give up, for all parts together; None is ``timeout_s`` from now.

        Returns:
            A vector for each instant, oldest first; one may be empty.

        Raises:
            PrometheusError: There was no complete and readable answer; its subclass says why.
        """
        until = self.deadline() if deadline is None else deadline
        points = round((end - start) / step_s) + 1
        vectors: list[tuple[Sample, ...]] = []
        # Parts that are still to be asked for, the earliest last: (first, how many).
        parts = [(first, min(MAX_POINTS, points - first)) for first in range(0, points, MAX_POINTS)][::-1]
        while parts:
            first, count = parts.pop()
            try:
                vectors += await self._ask_part(expr, start + first * step_s, step_s, count, until)
            except PrometheusOversizeError:
                if count == 1:
                    raise
                half = count // 2
                parts += [(first + half, count - half), (first, half)]
        return tuple(vectors)

    async def _ask_part(
        self, expr: str, start: float, step_s: float, points: int, deadline: float
    ) -> tuple[tuple[Sample, ...], ...]:
        form = {
            "query": expr,
            "start": f"{start:.3f}",
            "end": f"{start + (points - 1) * step_s:.3f}",
            "step": f"{step_s:.3f}",
        }
        decode = partial(decode_matrix, index_of=lambda at: round((at - start) / step_s), points=points)
        return await self._ask("query_range", form, decode, deadline)

    async def _ask(self, path: str, form: Mapping[str, str], decode: Callable[[bytes], _T], until: float) -> _T:
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(until - self._monotonic()):
                await self._free_threads.acquire()
                job = self._submit(path, form, decode, until)
                job.add_done_callback(lambda _: self._give_back(loop))
                return await asyncio.wrap_future(job)
        except TimeoutError as error:
            raise PrometheusTimeoutError(f"Prometheus at {self._client.url} did not answer in time") from error

    def close(self) -> None:
        """End what can be ended: idle connections at once, queries under way at their deadline."""
        self._threads.shutdown(wait=False, cancel_futures=True)
        self._client.close()

    def _submit(self, path: str, form: Mapping[str, str], decode: Callable[[bytes], _T], deadline: float) -> Future[_T]:
        try:
            return self._threads.submit(self._client.ask, path, form, decode, deadline)
        except RuntimeError as error:
            self._free_threads.release()
            raise PrometheusUnavailableError(
                f"Prometheus at {self._client.url} is not asked any more: {error}"
            ) from error

    def _give_back(self, loop: asyncio.AbstractEventLoop) -> None:
        # A thread can outlive the event loop that asked it; then nobody waits for it any more.
        with contextlib.suppress(RuntimeError):
            loop.call_soon_threadsafe(self._free_threads.release)
