"""The service's own metrics.

What happened to the process (queries, ticks, calls) is counted in ordinary counters and histograms. What is true of
each pool is read from the snapshots at scrape time: see ``scaler.adapters.pool_metrics``.
"""

import platform
from collections.abc import Callable, Iterable
from typing import Final

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    GCCollector,
    Histogram,
    Info,
    PlatformCollector,
    ProcessCollector,
    generate_latest,
)
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4

import scaler
from scaler.adapters import pool_metrics
from scaler.adapters.pool_metrics import PREFIX, PoolView

# Seconds: from a cached answer of Prometheus to the longest timeout in use.
_QUERY_BUCKETS: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
# Seconds: from one pool to ten thousand with a slow Prometheus.
_TICK_BUCKETS: Final = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
# Seconds: a snapshot's answer takes well under a millisecond, a first answer up to the 3 s that KEDA's callers bear.
_RPC_BUCKETS: Final = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.1, 0.5, 1.0, 3.0)


class Telemetry:
    """All own metrics, in a registry of their own.

    ``pools`` and ``now`` are put in place by whoever owns the pools and the clock; without them a scrape shows no pool.
    """

    pools: Callable[[], Iterable[PoolView]]
    now: Callable[[], float]

    def __init__(self) -> None:
        self.pools, self.now = tuple, float
        self._registry = registry = CollectorRegistry()
        ProcessCollector(registry=registry)
        PlatformCollector(registry=registry)
        GCCollector(registry=registry)
        build = Info(f"{PREFIX}_build", "The version that runs.", registry=registry)
        build.info({"version": scaler.__version__, "python": platform.python_version()})
        self._query_seconds = Histogram(
            f"{PREFIX}_query_duration_seconds",
            "Time that a Prometheus query took, whatever its outcome.",
            ["backend", "query"],
            buckets=_QUERY_BUCKETS,
            registry=registry,
        )
        self._query_errors = Counter(
            f"{PREFIX}_query_errors",
            "Prometheus queries without a usable answer.",
            ["backend", "query", "error"],
            registry=registry,
        )
        self._tick_seconds = Histogram(
            f"{PREFIX}_tick_duration_seconds",
            "Time from the start of a tick until its last decision is published.",
            buckets=_TICK_BUCKETS,
            registry=registry,
        )
        self._ticks = Counter(f"{PREFIX}_ticks", "Ticks that were evaluated.", registry=registry)
        self._skipped = Counter(
            f"{PREFIX}_skipped_ticks",
            "Ticks of the grid that were not evaluated: an earlier one took too long, or the process stood still.",
            registry=registry,
        )
        self._rpcs = Counter(
            f"{PREFIX}_grpc_handled",
            "Calls of KEDA that ended, by method and gRPC status code.",
            ["method", "code"],
            registry=registry,
        )
        self._rpc_seconds = Histogram(
            f"{PREFIX}_grpc_handling_seconds",
            "Time from a call's arrival until its answer; streams are not in it.",
            ["method"],
            buckets=_RPC_BUCKETS,
            registry=registry,
        )
        self._streams = Gauge(f"{PREFIX}_grpc_streams", "Streams of KEDA that are open.", registry=registry)
        self._faults = Counter(
            f"{PREFIX}_internal_errors",
            "Unexpected exceptions that were survived: each is a bug, and the log has its traceback once.",
            ["where"],
            registry=registry,
        )

    def query_done(self, backend: str, query: str, seconds: float, error: str | None) -> None:
        """Count one Prometheus query.

        Args:
            backend: The name of the Prometheus that was asked.
            query: Its stable name.
            seconds: How long it took.
            error: Name of the error's class, as in ``scaler.errors``; None when it was answered.
        """
        self._query_seconds.labels(backend, query).observe(seconds)
        if error is not None:
            self._query_errors.labels(
                backend, query, error.removeprefix("Prometheus").removesuffix("Error").lower() or "other"
            ).inc()

    def tick_done(self, seconds: float) -> None:
        """Count one evaluated tick of ``seconds``."""
        self._ticks.inc()
        self._tick_seconds.observe(seconds)

    def ticks_skipped(self, count: int) -> None:
        """Count ticks of the grid that were not evaluated."""
        self._skipped.inc(count)

    def rpc_done(self, method: str, code: str, seconds: float | None) -> None:
        """Count one finished call.

        Args:
            method: The method's short name.
            code: The gRPC status code's name.
            seconds: How long it took; None for streams, whose length says nothing.
        """
        self._rpcs.labels(method, code).inc()
        if seconds is not None:
            self._rpc_seconds.labels(method).observe(seconds)

    def streams_open(self, count: int) -> None:
        """Show how many streams are open."""
        self._streams.set(count)

    def fault(self, where: str) -> None:
        """Count an unexpected exception that was survived in ``where``."""
        self._faults.labels(where).inc()

    def exposition(self) -> tuple[bytes, str]:
        """Return all metrics in Prometheus' text format, and its content type."""
        pools = pool_metrics.exposition(tuple(self.pools()), self.now())
        return generate_latest(self._registry) + pools.encode(), CONTENT_TYPE_PLAIN_0_0_4
