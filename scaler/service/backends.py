"""The clients of all backends, from the settings."""

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import fields

from scaler.adapters.access import Access
from scaler.adapters.prometheus import Prometheus
from scaler.adapters.reader import Backend
from scaler.config import backends as config
from scaler.errors import PrometheusError, StartError


@contextmanager
def connected(settings: Mapping[str, config.Backend]) -> Iterator[dict[str, Backend]]:
    """Make a client of each backend, and close them all in the end. None is asked yet.

    Args:
        settings: The backends by name.

    Yields:
        The clients by name.

    Raises:
        StartError: Files of a backend cannot be read or used; the text names all of them.
    """
    with ExitStack() as stack:
        backends: dict[str, Backend] = {}
        problems: list[str] = []
        for name, backend in settings.items():
            client = Prometheus(
                backend.url,
                timeout_s=backend.timeout,
                concurrency=backend.concurrency,
                max_response_bytes=backend.max_response_bytes,
                access=Access(**{field.name: getattr(backend, field.name) for field in fields(Access)}),
            )
            stack.callback(client.close)
            try:
                client.check()
            except PrometheusError as error:
                problems.append(f"{name}: {error}")
            backends[name] = Backend(client, backend.external)
        if problems:
            raise StartError(f"Prometheus backends cannot be used: {'; '.join(problems)}")
        yield backends
