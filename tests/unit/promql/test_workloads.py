import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scaler.model import Workload, WorkloadKind
from scaler.promql.workloads import WORKLOAD_SERIES, own_pods, pod_pattern

RANDOM_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"


def deployment_pod(deployment: str, template_hash: int, suffix: str) -> str:
    """A pod's name as Kubernetes makes it: SafeEncodeString of the hash, then generateName."""
    encoded = "".join(RANDOM_ALPHABET[ord(digit) % len(RANDOM_ALPHABET)] for digit in str(template_hash))
    return f"{deployment}-{encoded}-"[:58] + suffix


def workload_of(kind: WorkloadKind, workload: str, pod: str) -> str | None:
    """What label_replace makes of a pod's name in the queries for a workload."""
    rule = pod_pattern(Workload(kind, workload))
    match = re.fullmatch(rule.pattern, pod)
    return match and match.expand(rule.workload.replace("$1", r"\1"))


def belongs(kind: WorkloadKind, workload: str, pod: str) -> bool:
    return workload_of(kind, workload, pod) == workload


names = st.from_regex(r"[a-z0-9]([a-z0-9-]{0,70}[a-z0-9])?", fullmatch=True)
suffixes = st.text(RANDOM_ALPHABET, min_size=5, max_size=5)
hashes = st.integers(0, 2**32 - 1)


@given(names, hashes, suffixes)
def test_a_deployment_of_any_length_of_name_knows_its_pods(name: str, template_hash: int, suffix: str) -> None:
    assert belongs(WorkloadKind.DEPLOYMENT, name, deployment_pod(name, template_hash, suffix))


@pytest.mark.parametrize("length", range(44, 64))
@pytest.mark.parametrize("template_hash", [7, 1_234_567, 4_294_967_295])
def test_a_name_at_the_edge_of_what_kubernetes_keeps_knows_its_pods(length: int, template_hash: int) -> None:
    name = "llama-" + "x" * (length - 6)
    assert belongs(WorkloadKind.DEPLOYMENT, name, deployment_pod(name, template_hash, "x2zq5"))


@pytest.mark.parametrize(
    ("kind", "workload", "pod", "expected"),
    [
        (WorkloadKind.DEPLOYMENT, "vllm", "vllm-7d4b9c5f6d-x2zq5", True),
        (WorkloadKind.DEPLOYMENT, "vllm", "vllm-canary-7d4b9c5f6d-x2zq5", False),
        (WorkloadKind.DEPLOYMENT, "vllm-canary", "vllm-7d4b9c5f6d-x2zq5", False),
        (WorkloadKind.DEPLOYMENT, "vllm-canary", "vllm-canary-7d4b9c5f6d-x2zq5", True),
        (WorkloadKind.DEPLOYMENT, "vllm", "vllm-0", False),
        (WorkloadKind.DEPLOYMENT, "vllm", "my-vllm-7d4b9c5f6d-x2zq5", False),
        (WorkloadKind.DEPLOYMENT, "vllm", "vllm-7d4b9c5f6d-aeiou", False),
        (WorkloadKind.DEPLOYMENT, "vllm", "vllm-router-x2zq5", False),
        (WorkloadKind.DEPLOYMENT, "v.lm", "vllm-7d4b9c5f6d-x2zq5", False),
        (WorkloadKind.STATEFUL_SET, "vllm", "vllm-0", True),
        (WorkloadKind.STATEFUL_SET, "vllm", "vllm-12", True),
        (WorkloadKind.STATEFUL_SET, "vllm", "vllm-canary-0", False),
        (WorkloadKind.STATEFUL_SET, "vllm-canary", "vllm-canary-0", True),
        (WorkloadKind.LEADER_WORKER_SET, "vllm", "vllm-3", True),
        (WorkloadKind.LEADER_WORKER_SET, "vllm", "vllm-3-1", False),
    ],
)
def test_a_pod_belongs_to_the_workload_that_its_name_says(
    kind: WorkloadKind, workload: str, pod: str, *, expected: bool
) -> None:
    assert belongs(kind, workload, pod) is expected


def test_two_long_names_that_differ_before_the_cut_are_told_apart() -> None:
    ours, other = "a" * 50 + "-one", "a" * 50 + "-two"
    assert not belongs(WorkloadKind.DEPLOYMENT, ours, deployment_pod(other, 4_294_967_295, "x2zq5"))


def test_workloads_of_one_kind_share_their_pattern_and_so_their_queries() -> None:
    assert pod_pattern(Workload(WorkloadKind.DEPLOYMENT, "a")) == pod_pattern(Workload(WorkloadKind.DEPLOYMENT, "b"))


def test_every_kind_of_workload_has_its_series() -> None:
    assert set(WORKLOAD_SERIES) == set(WorkloadKind)


@given(names, hashes, suffixes)
def test_the_pattern_of_one_workload_matches_its_pods_and_no_other_deployments(
    name: str, template_hash: int, suffix: str
) -> None:
    pattern = own_pods(Workload(WorkloadKind.DEPLOYMENT, name))
    assert re.fullmatch(pattern, deployment_pod(name, template_hash, suffix))
    assert not re.fullmatch(pattern, deployment_pod(f"x{name}", template_hash, suffix))
