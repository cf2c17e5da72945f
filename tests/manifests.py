"""Kubernetes objects for the tests of deploy/: read from files, or rendered from the chart with cases of values."""

import os
import subprocess
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final

import kubernetes_validate
import yaml

ROOT: Final = Path(__file__).resolve().parents[1]
CHART: Final = ROOT / "deploy" / "helm" / "vllm-keda-scaler"
KEDA_CRDS: Final = Path(os.environ.get("KEDA_CRDS") or ROOT.parent / "shared" / "data" / "keda-crds")
"""KEDA's own custom resource definitions, which are not ours to keep here."""
OLDEST_KUBERNETES: Final = "1.27"
NEWEST_KUBERNETES: Final = "1.37"
TIMEOUT_S: Final = 60.0
"""helm and kubectl take a tenth of a second."""

Manifest = dict[str, Any]

CASES: Final[Mapping[str, Mapping[str, Any]]] = {
    "defaults": {},
    "one replica": {
        "replicaCount": 1,
        "podDisruptionBudget": {"enabled": False},
        "topologySpreadConstraints": [],
        "serviceAccount": {"create": False},
        "image": {"repository": "registry.example/platform/vllm-keda-scaler", "tag": "1.2.3"},
    },
    "prometheus operator": {
        "serviceMonitor": {"enabled": True, "labels": {"release": "kube-prometheus-stack"}},
        "prometheusRule": {"enabled": True, "labels": {"release": "kube-prometheus-stack"}},
        "dashboards": {"enabled": True, "namespace": "monitoring", "annotations": {"grafana_folder": "vLLM"}},
    },
    "pod monitor": {
        "prometheusRule": {"enabled": True, "runbookUrl": "https://runbooks.example/scaler"},
        "dashboards": {"enabled": True},
        "podMonitor": {
            "enabled": True,
            "interval": "30s",
            "relabelings": [{"targetLabel": "cluster", "replacement": "eu-1"}],
            "metricRelabelings": [{"action": "labeldrop", "regex": "pool"}],
        },
    },
    "closed": {
        "tls": {"secretName": "vllm-scaler-tls", "requireClientCertificate": True},
        "networkPolicy": {
            "enabled": True,
            "extraIngress": [{"from": [{"namespaceSelector": {}}], "ports": [{"port": "http"}]}],
            "extraEgress": [{"to": [{"ipBlock": {"cidr": "192.0.2.0/24"}}], "ports": [{"port": 443}]}],
        },
        "podDisruptionBudget": {"minAvailable": "50%"},
    },
    "TLS": {"tls": {"secretName": "vllm-scaler-tls"}},
    "several backends": {
        "config": {
            "prometheus_url": "https://prometheus.example",
            "prometheus_basic_auth_user": "vllm-scaler",
            "prometheus_basic_auth_password_file": "/etc/vllm-scaler/default/password",
            "evaluation_interval": "30s",
            "max_pools": 1000000,
            "query_timeout": 8,
            "log_format": "console",
            "backends": {
                "eu-1": {
                    "url": "https://mimir.example/prometheus",
                    "ca_file": "/etc/vllm-scaler/mimir/ca.crt",
                    "bearer_token_file": "/etc/vllm-scaler/mimir/token",
                    "headers": {"X-Scope-OrgID": "serving"},
                    "external_labels": {"cluster": "eu-1"},
                    "timeout": "5s",
                },
            },
            "queries": {"backlog": 'sum by (namespace) (jobs{state="open"})'},
        },
        "secretMounts": [
            {"name": "default", "secretName": "prometheus-password"},
            {"name": "mimir", "secretName": "mimir-credentials"},
        ],
    },
    "settings in a secret": {"configSecret": {"name": "vllm-scaler-settings", "key": "file.yaml"}},
    "OpenShift": {
        "podSecurityContext": {"runAsUser": None, "runAsGroup": None, "fsGroup": None},
        "serviceAccount": {"automountServiceAccountToken": True, "annotations": {"note": "asks Thanos"}},
        "config": {
            "prometheus_url": "https://thanos-querier.openshift-monitoring.svc:9091",
            "prometheus_bearer_token_file": "/var/run/secrets/kubernetes.io/serviceaccount/token",
            "prometheus_ca_file": "/var/run/secrets/kubernetes.io/serviceaccount/service-ca.crt",
        },
    },
    "everything else": {
        "nameOverride": "scaler",
        "clusterDomain": "cluster.example",
        "additionalLabels": {"team": "serving"},
        "additionalAnnotations": {"owner": "platform"},
        "image": {"digest": f"sha256:{'0' * 64}", "pullPolicy": "Always"},
        "imagePullSecrets": [{"name": "registry"}],
        "grpc": {"port": 9090},
        "metrics": {"port": 9091},
        "topologySpreadConstraints": [
            {"topologyKey": "rack", "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {}}
        ],
        "tolerations": [{"key": "infra", "operator": "Exists"}],
        "affinity": {"podAntiAffinity": {}},
        "priorityClassName": "system-cluster-critical",
        "podAnnotations": {"sidecar.istio.io/inject": "false"},
        "podLabels": {"tier": "control"},
        "extraArgs": ["--log-level=debug"],
        "extraEnv": [{"name": "VLLM_SCALER_QUERY_CONCURRENCY", "value": "8"}],
        "extraEnvFrom": [{"configMapRef": {"name": "more", "optional": True}}],
        "extraVolumes": [{"name": "ca", "configMap": {"name": "ca"}}],
        "extraVolumeMounts": [{"name": "ca", "mountPath": "/etc/vllm-scaler/ca"}],
        "extraObjects": [
            {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": {"name": "{{ .Release.Name }}-more"},
                "data": {"at": '{{ include "vllm-scaler.address" . }}'},
            }
        ],
    },
}
"""Values by name; together they take every branch of the templates."""


def run(program: Path, *words: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    """Run a program and return what it said, whether it failed or not."""
    command = [str(program), *words]
    return subprocess.run(command, input=stdin, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)


@cache
def render(helm: Path, case: str, release: str = "vllm-scaler") -> tuple[Manifest, ...]:
    """Return the objects of the chart with one case of values, as helm gives them."""
    words = ("template", release, str(CHART), "--namespace", "keda", "--values", "-")
    result = run(helm, *words, stdin=yaml.safe_dump(dict(CASES[case])))
    assert result.returncode == 0, result.stderr
    return tuple(document for document in yaml.safe_load_all(result.stdout) if document)


def read(path: Path) -> list[Manifest]:
    """Return the objects of a file."""
    return [document for document in yaml.safe_load_all(path.read_text(encoding="utf-8")) if document]


def one(objects: tuple[Manifest, ...] | list[Manifest], kind: str, name: str | None = None) -> Manifest:
    """Return the one object of a kind, or of a kind and a name."""
    found = [each for each in objects if each["kind"] == kind and name in (None, each["metadata"]["name"])]
    (only,) = found
    return only


def is_built_in(manifest: Manifest) -> bool:
    """Tell whether Kubernetes itself has a kind; custom ones have a domain that is not Kubernetes' own."""
    group = str(manifest["apiVersion"]).rpartition("/")[0]
    return "." not in group or (group.endswith(".k8s.io") and not group.endswith("x-k8s.io"))


def problems(manifest: Manifest) -> list[str]:
    """Return what the strict schemas of the oldest and the newest Kubernetes find wrong with an object."""
    found = []
    for version in (OLDEST_KUBERNETES, NEWEST_KUBERNETES):
        try:
            kubernetes_validate.validate(manifest, version, strict=True)
        except kubernetes_validate.ValidationError as error:
            found.append(f"{manifest['kind']} {manifest['metadata']['name']} on {version}: {error.message}")
    return found
