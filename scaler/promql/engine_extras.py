"""Extras that vLLM itself exports: further latencies, rejections and prompt tokens, of the pool in the rate window.

A latency's value is its P95 in seconds and its support the observations behind it. Queue time and E2E latency are
observed when a request ends, and nothing below their first bound of 0.3 s is told apart: a P95 of 0.285 s means "at
most 0.3 s". The others are rates in units per second, without support.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import Final

from scaler.model import Absent, Extra, SignalName
from scaler.promql.batches import MAX_POOLS, Batch, Identity, Owners, batched
from scaler.promql.engines import VLLM
from scaler.promql.escape import quote
from scaler.promql.extra_query import Reader
from scaler.promql.notes import Notes
from scaler.promql.quantile import read_p95
from scaler.promql.queries import EngineShape, duration, latency_pools, union
from scaler.promql.query import LabelNames, Query, Sample
from scaler.promql.rows import by_signal, reading, usable

_VALUE: Final = "value"
_SUPPORT: Final = "support"

# The newest name first, where there are several.
_METRICS: Final[Mapping[SignalName, tuple[str, ...]]] = MappingProxyType(
    {
        SignalName.ITL_P95: VLLM.inter_token_latency,
        SignalName.QUEUE_TIME_P95: (VLLM.queue_time,),
        SignalName.E2E_P95: (VLLM.e2e_latency,),
        SignalName.REJECTION_RATE: (VLLM.rejections,),
        SignalName.PROMPT_TOKENS: (VLLM.prompt_tokens_by_source, VLLM.prompt_tokens),
    }
)
_LATENCIES: Final = frozenset({SignalName.ITL_P95, SignalName.QUEUE_TIME_P95, SignalName.E2E_P95})
ENGINE_EXTRAS: Final = frozenset(_METRICS)
"""The signals that are read here."""


@dataclass(frozen=True, slots=True)
class EngineExtra:
    """One signal of the engines of some pools.

    Args:
        signal: One of ``ENGINE_EXTRAS``.
        shape: What the engines' series have in common.
        rate_window_s: Window of rates and quantiles.
    """

    signal: SignalName
    shape: EngineShape
    rate_window_s: float

    @property
    def name(self) -> str:
        """The signal's name."""
        return self.signal.value

    def batches(self, owners: Owners, names: LabelNames) -> Iterator[Batch]:
        """Write the queries that together cover some pools."""
        most = latency_pools(len(owners)) if self.signal in _LATENCIES else MAX_POOLS
        return batched(owners, self.shape.identity_labels(names), partial(self._query, names), max_pools=most)

    def read(self, rows: Sequence[Sample], reader: Reader, notes: Notes) -> Extra:
        """Read a quantile with its count, or a rate."""
        found = by_signal(rows)
        metric = " or ".join(_METRICS[self.signal])
        value = found.get(_VALUE)
        if value is None and not (self.signal in _LATENCIES and found.get(_SUPPORT) == 0):
            # A pool without replicas has none of its series, and says so once for all.
            if reader.serving != 0:
                notes.add(
                    f"{self.name} is missing: no rate of {metric}: {reader.too_few_scrapes()}, "
                    "or it is not exported by this release or dropped by the scrape"
                )
            return Extra(Absent.MISSING, reading(found.get(_SUPPORT)))
        if self.signal in _LATENCIES:
            samples = reading(found.get(_SUPPORT))
            return Extra(read_p95(value, samples, metric, notes), samples)
        if value is not None and not usable(value):
            notes.add(f"{self.name} is missing: the rate of {metric} is {value:g}, which is none")
        return Extra(reading(value))

    def _query(self, names: LabelNames, identities: Sequence[Identity]) -> Query:
        scope = self.shape.scope(identities, names)
        window = f"[{duration(self.rate_window_s)}]"

        def changes(function: str, part: str = "") -> str:
            # Of an engine that exports a series under its new and its old name, the first counts.
            return " or ".join(f"{function}({metric}{part}{{{scope}}}{window})" for metric in _METRICS[self.signal])

        if self.signal in _LATENCIES:
            parts = {
                _VALUE: self.shape.p95(changes("rate", "_bucket"), names),
                _SUPPORT: self.shape.total(changes("increase", "_count"), names),
            }
        elif self.signal is SignalName.REJECTION_RATE:
            parts = {_VALUE: self.shape.total(f"sum without ({VLLM.reason_label}) ({changes('rate')})", names)}
        else:
            computed = f"{VLLM.source_label}={quote(VLLM.computed_source)}"
            rates = (
                f"rate({VLLM.prompt_tokens_by_source}{{{computed},{scope}}}{window})"
                f" or ignoring ({VLLM.source_label}) rate({VLLM.prompt_tokens}{{{scope}}}{window})"
            )
            parts = {_VALUE: self.shape.total(rates, names)}
        return Query(self.name, union(parts))
