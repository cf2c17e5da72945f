"""The GPUs of a workload's pods, from NVIDIA's DCGM exporter.

Value: the mean of the GPUs' utilisation, the share of time in which any kernel ran. Support: the mean share of their
memory in use. Both are ratios from 0 to 1. There is no model label: GPUs are a pool's by namespace and workload.

The exporter names a GPU's pod in its own labels ``namespace`` and ``pod``. Where the scrape does not honour them
(``honorLabels: false``, the default of the exporter's chart), those are the exporter's own and the GPU's are in
``exported_namespace`` and ``exported_pod``. Of a LeaderWorkerSet only the leaders' GPUs are known.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from scaler.model import Absent, Extra, Reading, SignalName
from scaler.promql.batches import Batch, Identity, Owners, batched
from scaler.promql.escape import one_of
from scaler.promql.extra_query import Reader
from scaler.promql.notes import Notes
from scaler.promql.queries import METRIC_LABEL
from scaler.promql.query import LabelNames, Query, Sample
from scaler.promql.rows import best, usable
from scaler.promql.workloads import WORKLOAD_LABEL, PodPattern

_UTILISATION: Final = "DCGM_FI_DEV_GPU_UTIL"  # percent
_MEMORY_USED: Final = "DCGM_FI_DEV_FB_USED"  # MiB
_MEMORY_FREE: Final = "DCGM_FI_DEV_FB_FREE"  # MiB
_NAMESPACE: Final = "namespace"
_POD: Final = "pod"
_EXPORTED_NAMESPACE: Final = "exported_namespace"
_EXPORTED_POD: Final = "exported_pod"
# The GPU's number within its node, and the instance within a GPU that is partitioned.
_GPU_LABELS: Final = ("gpu", "GPU_I_ID")
# DCGM's integers from 0x7ffffffffffffff0 on stand for "no value"; no GPU has memory of this order.
_BLANK: Final = 2.0**62

_Gpu: TypeAlias = tuple[str, ...]
"""Pod, number and instance."""
_Values: TypeAlias = Mapping[str, float]
"""What is known of one GPU, by metric."""


@dataclass(frozen=True, slots=True)
class GpuQuery:
    """The GPUs of workloads whose pods are named alike."""

    pods: PodPattern

    @property
    def name(self) -> str:
        """The signal's name."""
        return SignalName.GPU.value

    def batches(self, owners: Owners, names: LabelNames) -> Iterator[Batch]:
        """Write the queries that together cover some workloads; how targets are labelled does not matter."""
        del names
        return batched(owners, (_NAMESPACE, WORKLOAD_LABEL), self._query)

    def read(self, rows: Sequence[Sample], reader: Reader, notes: Notes) -> Extra:
        """Average the GPUs of the pods that report; where less than half of the replicas do, it is missing."""
        exported = [row for row in rows if row.labels.get(_EXPORTED_POD)]
        gpus = _by_gpu(exported or rows)
        pods = len({pod for (pod, *_), values in gpus.items() if _utilisation(values) is not None})
        if not pods:
            notes.add(
                f"{self.name} is missing: no usable {_UTILISATION} of a pod of {reader.locator} in namespace "
                f"{reader.locator.namespace}: the DCGM exporter is not scraped, or does not name pods"
            )
        elif reader.serving is not None and pods * 2 < reader.serving:
            notes.add(f"{self.name} is missing: {_UTILISATION} is known of only {pods} of {reader.serving} replicas")
        else:
            return Extra(_mean(map(_utilisation, gpus.values())), _mean(map(_memory, gpus.values())))
        return Extra(Absent.MISSING)

    def _query(self, identities: Sequence[Identity]) -> Query:
        metrics = one_of(METRIC_LABEL, (_UTILISATION, _MEMORY_USED, _MEMORY_FREE))

        def rows(namespace_label: str, pod_label: str, condition: str) -> str:
            scope = one_of(namespace_label, (namespace for namespace, _ in identities))
            labels = ",".join((METRIC_LABEL, namespace_label, pod_label, *_GPU_LABELS))
            return self.pods.with_workload(f"max by ({labels}) ({{{metrics},{scope},{condition}}})", pod_label)

        exported = rows(_EXPORTED_NAMESPACE, _EXPORTED_POD, f'{_EXPORTED_POD}!=""')
        exported = f'label_replace({exported},"{_NAMESPACE}","$1","{_EXPORTED_NAMESPACE}","(.*)")'
        honoured = rows(_NAMESPACE, _POD, f'{_EXPORTED_POD}=""')
        return Query(self.name, f"{exported} or {honoured}")


def _by_gpu(rows: Iterable[Sample]) -> dict[_Gpu, dict[str, float]]:
    gpus: dict[_Gpu, dict[str, float]] = {}
    for row in rows:
        pod = row.labels.get(_EXPORTED_POD) or row.labels.get(_POD, "")
        values = gpus.setdefault((pod, *(row.labels.get(label, "") for label in _GPU_LABELS)), {})
        metric = row.labels.get(METRIC_LABEL, "")
        values[metric] = best((row.value, values.get(metric, row.value)))
    return gpus


def _utilisation(values: _Values) -> float | None:
    percent = values.get(_UTILISATION)
    return percent / 100 if percent is not None and 0 <= percent <= 100 else None  # noqa: PLR2004 - percent


def _memory(values: _Values) -> float | None:
    used, free = values.get(_MEMORY_USED), values.get(_MEMORY_FREE)
    if used is None or free is None or not (usable(used) and usable(free)) or max(used, free) >= _BLANK:
        return None
    return used / (used + free) if used + free > 0 else None


def _mean(values: Iterable[float | None]) -> Reading:
    known = sorted(value for value in values if value is not None)
    return sum(known) / len(known) if known else Absent.MISSING
