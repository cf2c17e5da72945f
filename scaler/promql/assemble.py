"""One pool's rows -> its observation. What cannot be known is missing, with a note that says the likely cause."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

from scaler.errors import PrometheusError
from scaler.model import Absent, Extra, Observation, PoolLocator, Reading, ReplicaLoad, Workload
from scaler.promql.engines import VLLM
from scaler.promql.extra_query import ExtraQuery, Reader
from scaler.promql.latency import Latency, read_latency
from scaler.promql.notes import Notes
from scaler.promql.query import Answer, LabelNames
from scaler.promql.replicas import Freshness, read_freshness, read_replicas
from scaler.promql.workload_counts import WorkloadCounts, read_workload
from scaler.units import format_duration


@dataclass(frozen=True, slots=True)
class Evidence:
    """What each query answered about one pool.

    Args:
        replicas: Engines' gauges.
        freshness: When the replicas were scraped.
        latency: What happened in the rate window.
        workload: Replica counts; of no interest for a pool without a workload.
        extras: Further readings by name: whom was asked and the answer, or why nothing was asked.
    """

    replicas: Answer
    freshness: Answer
    latency: Answer
    workload: Answer
    extras: Mapping[str, tuple[ExtraQuery, Answer] | str]


@dataclass(frozen=True, slots=True)
class _Gauges:
    running: Reading = Absent.MISSING
    waiting: Reading = Absent.MISSING
    kv_usage_ratios: tuple[float, ...] | Absent = Absent.MISSING
    loads: tuple[ReplicaLoad, ...] = ()


def assemble(locator: PoolLocator, evidence: Evidence, names: LabelNames, at: float) -> Observation:
    """Make one pool's observation.

    Args:
        locator: Where the pool's series are.
        evidence: The rows that are the pool's, or why there are none.
        names: The labels of the scrape configuration.
        at: The tick's instant, in Unix seconds.
    """
    notes = Notes()
    counts = _workload(locator, evidence.workload, names, at, notes)
    freshness = _freshness(locator, evidence.freshness, names, at, notes)
    if freshness is not None and not freshness.replicas:
        _note_nobody(locator, freshness, counts.requested, at, notes)
    gauges = _gauges(freshness, evidence.replicas, names, notes)
    latency = _latency(locator, evidence.latency, freshness, names, notes)
    reader = Reader(locator, serving=None if freshness is None else len(freshness.replicas))
    extras = {name: _extra(name, found, reader, notes) for name, found in evidence.extras.items()}
    newest_at = None if freshness is None else freshness.newest_at
    age_s = math.nan if newest_at is None else max(0.0, at - newest_at)
    return Observation(
        at=at,
        running=gauges.running,
        waiting=gauges.waiting,
        kv_usage_ratios=gauges.kv_usage_ratios,
        ttft_p95_s=latency.ttft_p95_s,
        ttft_samples=latency.ttft_samples,
        generation_tokens_per_s=latency.generation_tokens_per_s,
        preemptions=latency.preemptions,
        serving=Absent.MISSING if reader.serving is None else float(reader.serving),
        requested=counts.requested,
        ready=counts.ready,
        outdated=counts.outdated,
        newest_sample_age_s=age_s if math.isfinite(age_s) else Absent.MISSING,
        replicas=tuple(
            replace(load, generation_tokens_per_s=latency.tokens_per_s_by_replica.get(load.name, Absent.MISSING))
            for load in gauges.loads
        ),
        extras=MappingProxyType(extras),
        notes=notes.all(),
    )


def _workload(locator: PoolLocator, answer: Answer, names: LabelNames, at: float, notes: Notes) -> WorkloadCounts:
    if locator.workload is None:
        return WorkloadCounts()
    if isinstance(answer, PrometheusError):
        notes.add_failure("replica counts are missing", answer)
        return WorkloadCounts()
    where = f"{_workload_text(locator.workload)} in namespace {locator.namespace}"
    return read_workload(
        answer,
        locator.workload.kind,
        where,
        names=names,
        at=at,
        stale_after_s=locator.stale_after_s,
        notes=notes,
    )


def _freshness(locator: PoolLocator, answer: Answer, names: LabelNames, at: float, notes: Notes) -> Freshness | None:
    if isinstance(answer, PrometheusError):
        notes.add_failure("it is not known which replicas serve", answer)
        return None
    return read_freshness(answer, names, at, locator.stale_after_s)


def _note_nobody(locator: PoolLocator, freshness: Freshness, requested: Reading, at: float, notes: Notes) -> None:
    if freshness.newest_at is not None:
        notes.add(
            f"{freshness.stale_replicas} replicas report, but their newest sample is "
            f"{format_duration(max(0.0, at - freshness.newest_at))} old: the scrape is broken, or they are gone"
        )
    elif requested != 0:
        subject = " and ".join(
            text
            for text in (
                "" if locator.model_name is None else f"model {locator.model_name}",
                "" if locator.workload is None else _workload_text(locator.workload),
            )
            if text
        )
        notes.add(
            f"no vllm: series in namespace {locator.namespace} for {subject}: "
            "wrong labels, --disable-log-stats, a broken scrape, or no replica"
        )


def _gauges(freshness: Freshness | None, answer: Answer, names: LabelNames, notes: Notes) -> _Gauges:
    if isinstance(answer, PrometheusError):
        notes.add_failure("running, waiting and KV-cache usage are missing", answer)
        return _Gauges()
    if freshness is None or not freshness.replicas:
        return _Gauges()
    serving = len(freshness.replicas)
    values = read_replicas(answer, freshness, names, notes)
    covered = _covered(len(values.kv_usage), serving, " or ".join(VLLM.kv_usage), notes)
    return _Gauges(
        running=_total(values.running, serving, VLLM.running, notes),
        waiting=_total(values.waiting, serving, VLLM.waiting, notes),
        kv_usage_ratios=tuple(sorted(values.kv_usage.values())) if covered else Absent.MISSING,
        loads=tuple(
            ReplicaLoad(replica, running, values.waiting[replica])
            for replica, running in values.running.items()
            if replica in values.waiting and math.isfinite(running + values.waiting[replica])
        ),
    )


def _total(values: Mapping[str, float], serving: int, metric: str, notes: Notes) -> Reading:
    """Add up the replicas that report; those that do not are taken to be like the others.

    Of three serving replicas, two that report 4 and 8 make 12 * 3 / 2 = 18; one alone makes nothing.
    """
    if not _covered(len(values), serving, metric, notes):
        return Absent.MISSING
    total = sum(values.values()) * serving / len(values)
    return total if math.isfinite(total) else Absent.MISSING


def _covered(reporting: int, serving: int, metric: str, notes: Notes) -> bool:
    if reporting == serving:
        return True
    report = f"{reporting} of {serving} serving replicas report {metric}"
    # Below one half, the replicas that report say too little about the others.
    if reporting * 2 < serving:
        notes.add(f"only {report}, so it is missing: it was renamed or is dropped by the scrape")
        return False
    notes.add(f"{report}: the others are taken to be like these")
    return True


def _latency(
    locator: PoolLocator, answer: Answer, freshness: Freshness | None, names: LabelNames, notes: Notes
) -> Latency:
    if isinstance(answer, PrometheusError):
        notes.add_failure("latency, tokens and preemptions are missing", answer)
        return Latency()
    reporting = None if freshness is None else bool(freshness.replicas)
    return read_latency(answer, names=names, rate_window_s=locator.rate_window_s, reporting=reporting, notes=notes)


def _extra(name: str, found: tuple[ExtraQuery, Answer] | str, reader: Reader, notes: Notes) -> Extra:
    if isinstance(found, str):
        notes.add(f"{name} is missing: {found}")
        return Extra(Absent.MISSING)
    query, answer = found
    if isinstance(answer, PrometheusError):
        notes.add_failure(f"{name} is missing", answer)
        return Extra(Absent.MISSING)
    return query.read(answer, reader, notes)


def _workload_text(workload: Workload) -> str:
    return f"{workload.kind} {workload.name}"
