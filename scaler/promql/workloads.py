"""How Kubernetes names the pods of a workload, and what kube-state-metrics calls a workload's replica counts."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from scaler.model import Workload, WorkloadKind
from scaler.promql.escape import literal_pattern, literal_replacement, quote

WORKLOAD_LABEL: Final = "workload"
"""Label that our queries put the workload's name into."""

# Kubernetes makes names that cannot spell anything: no vowels, no 0, 1 or 3 (k8s.io/apimachinery/pkg/util/rand).
_RANDOM: Final = "[bcdfghjklmnpqrstvwxz2456789]"
# A pod template's hash is a 32-bit number in that alphabet, digit by digit: 1 to 10 characters.
_HASH_CHARS: Final = 10
# A generated name is cut to 58 characters before 5 random ones are added (k8s.io/apiserver/pkg/storage/names).
_PREFIX_CHARS: Final = 58
_SUFFIX: Final = f"{_RANDOM}{{5}}"
# The longest Deployment name whose pods' prefix, "<name>-<hash>-", is never cut.
_UNCUT_CHARS: Final = _PREFIX_CHARS - _HASH_CHARS - 2


@dataclass(frozen=True, slots=True)
class PodPattern:
    """How the workload's name is had from a pod's name, as arguments of ``label_replace``.

    Args:
        pattern: RE2 pattern of the whole pod name.
        workload: Replacement that gives the workload's name.
    """

    pattern: str
    workload: str

    def with_workload(self, rows: str, pod_label: str) -> str:
        """Write ``rows`` with the name of each pod's workload as a further label."""
        return f"label_replace({rows},{','.join(map(quote, (WORKLOAD_LABEL, self.workload, pod_label, self.pattern)))})"


_DEPLOYMENT_PODS: Final = PodPattern(f"(.+)-{_RANDOM}{{1,{_HASH_CHARS}}}-{_SUFFIX}", "$1")
# Of a LeaderWorkerSet, "<name>-<group>" is the leader, and only leaders serve /metrics: a group is one replica.
_NUMBERED_PODS: Final = PodPattern("(.+)-[0-9]+", "$1")


def pod_pattern(workload: Workload) -> PodPattern:
    """Return how to know a workload's pods by name; one pattern does for all workloads of a kind if it can.

    ``vllm-7d4b9c5f6d-x2zq5`` is a pod of Deployment ``vllm``, ``vllm-canary-7d4b9c5f6d-x2zq5`` is not.
    """
    if workload.kind is not WorkloadKind.DEPLOYMENT:
        return _NUMBERED_PODS
    if len(workload.name) <= _UNCUT_CHARS:
        return _DEPLOYMENT_PODS
    return PodPattern(_cut_pods(workload.name), literal_replacement(workload.name))


def own_pods(workload: Workload) -> str:
    """Return the RE2 pattern of the pods of one workload, for whoever looks at this one alone."""
    pattern = pod_pattern(workload).pattern
    # Where the pattern captures the workload's name, this one's name takes its place.
    return pattern.replace("(.+)", literal_pattern(workload.name), 1)


def _cut_pods(name: str) -> str:
    """Return the pattern of the pods of a Deployment whose long name leaves too little room for the hash.

    A name of 50 characters leaves 7 of the 58 for the hash: a longer hash is cut there and its dash is gone
    ("<name>-bcdfghjxxxxx"), a shorter one is whole ("<name>-bcdfgh-xxxxx").
    """
    hash_room = _PREFIX_CHARS - len(name) - 1
    kept = literal_pattern(name[:_PREFIX_CHARS])
    if hash_room < 0:
        return f"{kept}{_SUFFIX}"
    if hash_room == 0:
        return f"{kept}-{_SUFFIX}"
    cut = f"{_RANDOM}{{{hash_room}}}"
    whole = f"|{_RANDOM}{{1,{hash_room - 1}}}-" if hash_room > 1 else ""
    return f"{kept}-(?:{cut}{whole}){_SUFFIX}"


@dataclass(frozen=True, slots=True)
class WorkloadSeries:
    """Names of the series that kube-state-metrics exports of a kind of workload.

    Args:
        label: Label with the workload's name; its namespace is in ``namespace``.
        requested: spec.replicas.
        ready: Replicas that are ready.
        total: Replicas of any revision.
        updated: Replicas of the newest revision.
    """

    label: str
    requested: str
    ready: str
    total: str
    updated: str


WORKLOAD_SERIES: Final[Mapping[WorkloadKind, WorkloadSeries]] = MappingProxyType(
    {
        WorkloadKind.DEPLOYMENT: WorkloadSeries(
            label="deployment",
            requested="kube_deployment_spec_replicas",
            ready="kube_deployment_status_replicas_ready",
            total="kube_deployment_status_replicas",
            updated="kube_deployment_status_replicas_updated",
        ),
        WorkloadKind.STATEFUL_SET: WorkloadSeries(
            label="statefulset",
            requested="kube_statefulset_replicas",
            ready="kube_statefulset_status_replicas_ready",
            total="kube_statefulset_status_replicas",
            updated="kube_statefulset_status_replicas_updated",
        ),
        # kube-state-metrics has none of its own for this kind: these are of the CustomResourceState config we document.
        WorkloadKind.LEADER_WORKER_SET: WorkloadSeries(
            label="leaderworkerset",
            requested="kube_leaderworkerset_spec_replicas",
            ready="kube_leaderworkerset_status_ready_replicas",
            total="kube_leaderworkerset_status_replicas",
            updated="kube_leaderworkerset_status_updated_replicas",
        ),
    }
)
