"""Rows of the latency query -> what happened within the rate window."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from scaler.model import Absent, Reading
from scaler.promql.engines import VLLM
from scaler.promql.notes import Notes
from scaler.promql.quantile import read_p95
from scaler.promql.queries import GENERATION_TOKENS, PREEMPTIONS, SIGNAL_LABEL, TTFT_P95, TTFT_SAMPLES
from scaler.promql.query import LabelNames, Sample
from scaler.promql.rows import Source, best, by_signal, reading, replica_of, source_of, usable
from scaler.units import format_duration

_METRICS: Final = {
    TTFT_P95: VLLM.ttft_bucket,
    TTFT_SAMPLES: VLLM.ttft_count,
    GENERATION_TOKENS: VLLM.generation_tokens,
    PREEMPTIONS: VLLM.preemptions,
}


@dataclass(frozen=True, slots=True)
class Latency:
    """What happened within the rate window.

    Args:
        ttft_p95_s: P95 time to first token.
        ttft_samples: First tokens; extrapolated to the window's edges, so not whole.
        generation_tokens_per_s: Tokens generated, of all replicas.
        preemptions: Preempted requests.
        tokens_per_s_by_replica: Tokens generated, by the replica's name.
    """

    ttft_p95_s: Reading = Absent.MISSING
    ttft_samples: Reading = Absent.MISSING
    generation_tokens_per_s: Reading = Absent.MISSING
    preemptions: Reading = Absent.MISSING
    tokens_per_s_by_replica: Mapping[str, Reading] = field(default_factory=dict)


def read_latency(
    rows: Sequence[Sample], *, names: LabelNames, rate_window_s: float, reporting: bool | None, notes: Notes
) -> Latency:
    """Read the signals of the rate window.

    Args:
        rows: Answer to the latency query, in any order.
        names: The labels of the scrape configuration.
        rate_window_s: The window, for the notes.
        reporting: Whether any replica's count of first tokens is there; None when that is not known.
        notes: Gets a sentence for each signal that is missing.
    """
    tokens, by_replica = _tokens(rows, names)
    found = by_signal(rows) | ({} if tokens is None else {GENERATION_TOKENS: tokens})
    samples = reading(found.get(TTFT_SAMPLES))
    latency = Latency(
        ttft_p95_s=read_p95(found.get(TTFT_P95), samples, VLLM.ttft, notes),
        ttft_samples=samples,
        generation_tokens_per_s=reading(tokens),
        preemptions=reading(found.get(PREEMPTIONS)),
        tokens_per_s_by_replica=by_replica,
    )
    _note_missing(found, notes, rate_window_s=rate_window_s, reporting=reporting)
    return latency


def _tokens(rows: Iterable[Sample], names: LabelNames) -> tuple[float | None, dict[str, Reading]]:
    """Add up the token rates of the sources, for the pool and for each replica; one that is none spoils its sums."""
    by_source: dict[Source, float] = {}
    for row in rows:
        if row.labels.get(SIGNAL_LABEL) == GENERATION_TOKENS:
            source = source_of(row, names)
            by_source[source] = best((row.value, by_source[source])) if source in by_source else row.value
    by_replica: dict[str, list[float]] = {}
    for source, value in sorted(by_source.items()):
        by_replica.setdefault(replica_of(source), []).append(value)
    total = _sum(by_source.values()) if by_source else None
    return total, {replica: reading(_sum(values)) for replica, values in by_replica.items()}


def _sum(values: Collection[float]) -> float:
    """Add up values in an order of their own; where some are not usable, return one of those."""
    bad = [value for value in values if not usable(value)]
    return best(bad) if bad else sum(sorted(values))


def _note_missing(found: Mapping[str, float], notes: Notes, *, rate_window_s: float, reporting: bool | None) -> None:
    """Say why signals have no rows. The series that are there tell the causes apart."""
    bad = {signal: value for signal, value in found.items() if signal in _METRICS and not usable(value)}
    for signal in sorted(bad.keys() - {TTFT_P95}):
        notes.add(f"{_METRICS[signal]}: the unusable value {bad[signal]:g} of its rate is ignored")
    # A P95 of nothing is left out by VictoriaMetrics.
    explained = {TTFT_P95} if found.get(TTFT_SAMPLES) == 0 else set()
    absent = [metric for signal, metric in _METRICS.items() if signal not in found and signal not in explained]
    if len(absent) < len(_METRICS):
        if absent:
            notes.add(f"no rate of {', '.join(absent)} where there are others: renamed, or dropped by the scrape")
    elif reporting is not False:
        window = format_duration(rate_window_s)
        half = format_duration(rate_window_s / 2)
        notes.add(
            f"no rates: fewer than two scrapes within the rate window of {window}, because the replicas have just "
            f"started or are scraped less often than every {half}"
        )
