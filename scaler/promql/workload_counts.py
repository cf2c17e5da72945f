"""Rows of kube-state-metrics -> a workload's replica counts.

Of several instances the one that was scraped last counts, as a whole: an instance that is gone can stay in
Prometheus for minutes, and the greatest of an old and a new count is not a count.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from scaler.model import Absent, Reading, WorkloadKind
from scaler.promql.notes import Notes
from scaler.promql.queries import METRIC_LABEL, SAMPLE_TIME, SIGNAL_LABEL
from scaler.promql.query import LabelNames, Sample
from scaler.promql.rows import best, reading
from scaler.promql.workloads import WORKLOAD_SERIES
from scaler.units import format_duration


@dataclass(frozen=True, slots=True)
class WorkloadCounts:
    """What kube-state-metrics says of a workload.

    Args:
        requested: spec.replicas.
        ready: Ready replicas.
        outdated: Replicas that are not on the newest revision.
    """

    requested: Reading = Absent.MISSING
    ready: Reading = Absent.MISSING
    outdated: Reading = Absent.MISSING


def read_workload(
    rows: Iterable[Sample],
    kind: WorkloadKind,
    where: str,
    *,
    names: LabelNames,
    at: float,
    stale_after_s: float,
    notes: Notes,
) -> WorkloadCounts:
    """Read a workload's replica counts.

    Args:
        rows: Answer to the workload query, in any order.
        kind: Says which series to look for.
        where: The workload and its namespace, for the notes.
        names: The labels of the scrape configuration.
        at: The tick's instant, in Unix seconds.
        stale_after_s: The age from which a sample no longer counts.
        notes: Gets a sentence where counts are missing.
    """
    series = WORKLOAD_SERIES[kind]
    scraped_at: dict[str, float] = {}
    counts: dict[str, dict[str, float]] = {}
    for row in rows:
        instance = row.labels.get(names.instance, "")
        if row.labels.get(SIGNAL_LABEL) == SAMPLE_TIME:
            if math.isfinite(row.value):
                scraped_at[instance] = max(row.value, scraped_at.get(instance, row.value))
        else:
            metric = row.labels.get(METRIC_LABEL, "")
            of_instance = counts.setdefault(instance, {})
            of_instance[metric] = best((row.value, of_instance[metric])) if metric in of_instance else row.value
    if not scraped_at:
        notes.add(f"no {series.requested} of {where}: kube-state-metrics is not scraped, or there is no such workload")
        return WorkloadCounts()
    newest_at, newest = max((at_, instance) for instance, at_ in scraped_at.items())
    if not at - newest_at <= stale_after_s:
        age = format_duration(at - newest_at)
        notes.add(f"{series.requested} of {where} is {age} old: kube-state-metrics is no longer scraped")
        return WorkloadCounts()
    found = counts.get(newest, {})
    result = WorkloadCounts(
        requested=reading(found.get(series.requested)),
        ready=reading(found.get(series.ready)),
        outdated=_outdated(found, total=series.total, updated=series.updated),
    )
    for metric in (series.requested, series.ready, series.total, series.updated):
        if reading(found.get(metric)) is Absent.MISSING:
            notes.add(f"no usable {metric} of {where}")
    return result


def _outdated(found: Mapping[str, float], *, total: str, updated: str) -> Reading:
    of_all, of_newest = reading(found.get(total)), reading(found.get(updated))
    if isinstance(of_all, Absent) or isinstance(of_newest, Absent):
        return Absent.MISSING
    return max(0.0, of_all - of_newest)
