"""What several integration tests ask for."""

import time
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import replace
from typing import Any, TypeAlias

import pytest

from scaler.adapters.prometheus import Prometheus
from scaler.adapters.reader import MetricsReader, only
from scaler.model import Decision, Observation, PoolKey, PoolLocator, Workload, WorkloadKind
from scaler.policy.decide import advance
from scaler.promql import LabelNames
from tests.scraped_pages import targets
from tests.scraped_prometheus import Scraped, scraped_prometheus

Read: TypeAlias = Callable[..., Awaitable[Observation]]


@pytest.fixture
def changed_decisions(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Fields that every decision of a running service gets, on top of what the law says."""
    fields: dict[str, Any] = {}

    def altered(*args: Any) -> tuple[Any, Decision]:
        history, decision = advance(*args)
        return history, replace(decision, **fields)

    monkeypatch.setattr("scaler.service.ticker.advance", altered)
    return fields


@pytest.fixture(scope="session")
def scraped(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scraped]:
    """A Prometheus that has scraped every page of ``tests.scraped_pages`` often enough."""
    with scraped_prometheus(targets(), tmp_path_factory.mktemp("scraped")) as running:
        yield running


@pytest.fixture
def prometheus(scraped: Scraped) -> Iterator[Prometheus]:
    client = Prometheus(scraped.url, timeout_s=30.0, concurrency=4, max_response_bytes=64 << 20)
    yield client
    client.close()


@pytest.fixture
def read(prometheus: Prometheus) -> Read:
    """Read one pool, the Deployment ``vllm`` of a namespace unless something else is said."""

    async def read_one(
        namespace: str, *, at: float | None = None, queries: dict[str, str] | None = None, **changes: Any
    ) -> Observation:
        locator = PoolLocator(namespace, None, Workload(WorkloadKind.DEPLOYMENT, "vllm"), rate_window_s=30.0)
        reader = MetricsReader(only(prometheus), LabelNames(), queries=queries or {})
        key = PoolKey(namespace, "llama", "0badcafe")
        observed = await reader.observe({key: replace(locator, **changes)}, time.time() if at is None else at)
        return observed[key]

    return read_one
