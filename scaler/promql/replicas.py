"""Rows of the engines' gauges -> one value for each replica that is fresh.

A replica is a pod, or a scraped address where there is no pod label. Its engines (data parallelism) are added up.
An engine's gauges may be absent until its first step, so an engine without a first token whose gauge is absent is
idle; one with first tokens whose gauge is absent has lost it, and its replica does not report.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from scaler.promql.engines import VLLM
from scaler.promql.notes import Notes
from scaler.promql.queries import METRIC_LABEL
from scaler.promql.query import LabelNames, Sample
from scaler.promql.rows import Source, best, replica_of, source_of

_Engine: TypeAlias = tuple[str, str]
"""Replica, and the engine within it."""

_METRICS: Final = (VLLM.running, VLLM.waiting, VLLM.waiting_by_reason, *VLLM.kv_usage, VLLM.ttft_count)


@dataclass(frozen=True, slots=True)
class Freshness:
    """Which sources were scraped lately.

    Args:
        fresh: Sources whose newest sample is young enough.
        replicas: Names of the replicas behind them, ascending.
        stale_replicas: How many replicas report, but none of their sources lately.
        newest_at: Unix time of the newest sample of all; None when nobody reports.
    """

    fresh: frozenset[Source]
    replicas: tuple[str, ...]
    stale_replicas: int
    newest_at: float | None


def read_freshness(rows: Iterable[Sample], names: LabelNames, at: float, stale_after_s: float) -> Freshness:
    """Tell the replicas that serve from those whose samples have stopped.

    Args:
        rows: Answer to the freshness query; values are Unix seconds.
        names: The labels of the scrape configuration.
        at: The tick's instant, in Unix seconds.
        stale_after_s: The age from which a sample no longer counts.
    """
    newest: dict[Source, float] = {}
    for row in rows:
        if math.isfinite(row.value):
            source = source_of(row, names)
            newest[source] = max(row.value, newest.get(source, row.value))
    fresh = frozenset(source for source, scraped_at in newest.items() if at - scraped_at <= stale_after_s)
    replicas = {replica_of(source) for source in fresh}
    return Freshness(
        fresh=fresh,
        replicas=tuple(sorted(replicas)),
        stale_replicas=len({replica_of(source) for source in newest} - replicas),
        newest_at=max(newest.values(), default=None),
    )


@dataclass(slots=True, eq=False)
class _Gauge:
    """One gauge of every engine: usable values, and the engines of which there are only unusable ones."""

    values: dict[_Engine, float] = field(default_factory=dict)
    unusable: dict[_Engine, float] = field(default_factory=dict)

    def add(self, engine: _Engine, value: float, *, usable: bool) -> None:
        """Keep the greatest of the values of one engine: duplicates and their order change nothing."""
        cells = self.values if usable else self.unusable
        if engine in cells:
            value = best((value, cells[engine]))
        cells[engine] = value


@dataclass(frozen=True, slots=True)
class ReplicaValues:
    """One value for each replica that reports it, by its name and in the order of the names.

    Args:
        running: Requests in running lists.
        waiting: Requests that wait, less the deferred ones.
        kv_usage: KV-cache usage, 0 to 1, averaged over the replica's engines.
    """

    running: Mapping[str, float]
    waiting: Mapping[str, float]
    kv_usage: Mapping[str, float]


def read_replicas(rows: Sequence[Sample], freshness: Freshness, names: LabelNames, notes: Notes) -> ReplicaValues:
    """Read the gauges of the fresh replicas.

    Args:
        rows: Answer to the replicas query, in any order; of several rows for one engine the greatest counts.
        freshness: Which sources count.
        names: The labels of the scrape configuration.
        notes: Gets a sentence for each kind of value that was ignored or corrected.
    """
    gauges = {metric: _Gauge() for metric in _METRICS}
    running, waiting, deferred = gauges[VLLM.running], gauges[VLLM.waiting], gauges[VLLM.waiting_by_reason]
    usages = [gauges[metric] for metric in VLLM.kv_usage]
    engines: dict[str, set[str]] = {replica: set() for replica in freshness.replicas}
    for row in rows:
        labels = row.labels
        gauge = gauges.get(labels.get(METRIC_LABEL, ""))
        source = source_of(row, names)
        if gauge is None or source not in freshness.fresh:
            continue
        if gauge is deferred and labels.get(VLLM.reason_label) != VLLM.deferred_reason:
            continue
        engine = (replica_of(source), labels.get(VLLM.engine_label, ""))
        engines[engine[0]].add(engine[1])
        # A wrong usage is clamped, because how full the cache is cannot be far from the nearest possible value.
        usable = math.isfinite(row.value) and (row.value >= 0 or gauge in usages)
        gauge.add(engine, row.value, usable=usable)
    for metric, gauge in gauges.items():
        _note_values(notes, f"{metric}: unusable values ignored", gauge.unusable)

    for engine, value in waiting.values.items():
        waiting.values[engine] = max(0.0, value - deferred.values.get(engine, 0.0))
    usage = _kv_usage(usages, notes)
    first_tokens = gauges[VLLM.ttft_count].values

    def per_replica(gauge: _Gauge, combine: Callable[[Sequence[float]], float]) -> dict[str, float]:
        values = {}
        for replica in freshness.replicas:
            of_engines = [_of_engine(gauge, first_tokens, (replica, engine)) for engine in sorted(engines[replica])]
            known = [value for value in of_engines if value is not None]
            if known and len(known) == len(of_engines):
                values[replica] = combine(known)
        return values

    return ReplicaValues(
        running=per_replica(running, sum),
        waiting=per_replica(waiting, sum),
        kv_usage=per_replica(usage, lambda values: sum(values) / len(values)),
    )


def _of_engine(gauge: _Gauge, first_tokens: Mapping[_Engine, float], engine: _Engine) -> float | None:
    if engine in gauge.values:
        return gauge.values[engine]
    never_used = engine not in gauge.unusable and first_tokens.get(engine) == 0
    return 0.0 if never_used else None


def _kv_usage(by_name: Sequence[_Gauge], notes: Notes) -> _Gauge:
    """Merge the names of the KV gauge, the newer one first, into values from 0 to 1."""
    merged = _Gauge()
    for gauge in reversed(by_name):
        merged.values |= gauge.values
        merged.unusable |= gauge.unusable
    outside = {engine: value for engine, value in merged.values.items() if not 0 <= value <= 1}
    _note_values(notes, "KV-cache usage outside 0 to 1 clamped", outside)
    merged.values = {engine: min(1.0, max(0.0, value)) for engine, value in merged.values.items()}
    return merged


def _note_values(notes: Notes, what: str, values: Mapping[_Engine, float]) -> None:
    if values:
        (replica, engine), value = min(values.items())
        others = f" and {len(values) - 1} more" if len(values) > 1 else ""
        notes.add(f"{what}: {value:g} of {replica} engine {engine}{others}")
