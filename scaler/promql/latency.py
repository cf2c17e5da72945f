"""Rows of the latency query -> what happened within the rate window."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from scaler.model import Absent, Reading
from scaler.promql.engines import VLLM
from scaler.promql.notes import Notes
from scaler.promql.queries import GENERATION_TOKENS, PREEMPTIONS, SIGNAL_LABEL, TTFT_P95, TTFT_SAMPLES
from scaler.promql.query import Sample
from scaler.promql.rows import best, reading, usable
from scaler.units import format_duration, format_number

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
        generation_tokens_per_s: Tokens generated.
        preemptions: Preempted requests.
    """

    ttft_p95_s: Reading = Absent.MISSING
    ttft_samples: Reading = Absent.MISSING
    generation_tokens_per_s: Reading = Absent.MISSING
    preemptions: Reading = Absent.MISSING


def read_latency(rows: Iterable[Sample], *, rate_window_s: float, reporting: bool | None, notes: Notes) -> Latency:
    """Read the signals of the rate window.

    Args:
        rows: Answer to the latency query, in any order.
        rate_window_s: The window, for the notes.
        reporting: Whether any replica's count of first tokens is there; None when that is not known.
        notes: Gets a sentence for each signal that is missing.
    """
    values: dict[str, list[float]] = {}
    for row in rows:
        values.setdefault(row.labels.get(SIGNAL_LABEL, ""), []).append(row.value)
    found = {signal: best(of_signal) for signal, of_signal in values.items()}
    samples = reading(found.get(TTFT_SAMPLES))
    latency = Latency(
        ttft_p95_s=_ttft_p95(found.get(TTFT_P95), samples, notes),
        ttft_samples=samples,
        generation_tokens_per_s=reading(found.get(GENERATION_TOKENS)),
        preemptions=reading(found.get(PREEMPTIONS)),
    )
    _note_missing(found, notes, rate_window_s=rate_window_s, reporting=reporting)
    return latency


def _ttft_p95(quantile: float | None, samples: Reading, notes: Notes) -> Reading:
    if quantile is None or usable(quantile):
        return reading(quantile)
    if samples == 0 and math.isnan(quantile):
        return Absent.NO_TRAFFIC
    if not isinstance(samples, Absent) and samples > 0:
        notes.add(
            f"the quantile of {VLLM.ttft} is {quantile:g} though {format_number(samples)} first tokens came: "
            "its buckets are incomplete (no +Inf bucket?)"
        )
    else:
        notes.add(f"the quantile of {VLLM.ttft} is {quantile:g}, which is no time, and its count does not explain it")
    return Absent.MISSING


def _note_missing(found: Mapping[str, float], notes: Notes, *, rate_window_s: float, reporting: bool | None) -> None:
    """Say why signals have no rows. The series that are there tell the causes apart."""
    bad = {signal: value for signal, value in found.items() if signal in _METRICS and not usable(value)}
    for signal in sorted(bad.keys() - {TTFT_P95}):
        notes.add(f"{_METRICS[signal]}: the unusable value {bad[signal]:g} of its rate is ignored")
    absent = [metric for signal, metric in _METRICS.items() if signal not in found]
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
