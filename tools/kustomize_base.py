"""The plain manifests of deploy/manifests, rendered from the chart: ``python -m tools.kustomize_base`` writes them.

What only Helm needs is left out: its labels, and the checksum of the settings, in whose place kustomize puts a hash
into the ConfigMap's name. The kustomization files, the settings and the patch for TLS are written by hand; a test holds
what comes out of them to what the chart gives for the same values.
"""

import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

import yaml

from scaler.demo.prometheus_process import find_tool
from tools.chart_reference import CHART, ROOT

MANIFESTS: Final = ROOT / "deploy" / "manifests"
RELEASE: Final = "vllm-scaler"
NAMESPACE: Final = "keda"
SETTINGS: Final = f"{RELEASE}-settings"
"""The ConfigMap that kustomize makes by itself."""

_HELM_LABELS: Final = ("helm.sh/chart", "app.kubernetes.io/managed-by")
_CHECKSUM: Final = "checksum/settings"
_TIMEOUT_S: Final = 60.0
"""helm takes a tenth of a second."""
_HEADER: Final = "# Rendered from deploy/helm/vllm-keda-scaler: change that, and run make chart.\n"

Manifest = dict[str, Any]

_RELEASE_LABEL: Final = {"release": "kube-prometheus-stack"}
WITH_OPERATOR: Final[Mapping[str, Any]] = {
    "serviceMonitor": {"enabled": True, "labels": _RELEASE_LABEL},
    "prometheusRule": {"enabled": True, "labels": _RELEASE_LABEL},
}
WITH_POLICY: Final[Mapping[str, Any]] = {"networkPolicy": {"enabled": True}}
WITH_TLS: Final[Mapping[str, Any]] = {"tls": {"secretName": "vllm-scaler-tls", "requireClientCertificate": True}}

_FILES: Final[Mapping[str, tuple[Mapping[str, Any], frozenset[str]]]] = {
    "base/vllm-scaler.yaml": (
        {},
        frozenset({"PodDisruptionBudget", "ServiceAccount", "Service", "Deployment"}),
    ),
    "components/prometheus-operator/monitoring.yaml": (WITH_OPERATOR, frozenset({"ServiceMonitor", "PrometheusRule"})),
    "components/network-policy/network-policy.yaml": (WITH_POLICY, frozenset({"NetworkPolicy"})),
}
"""Every file that is rendered: the values, and which kinds of object it takes of what they give."""


class _Dumper(yaml.SafeDumper):
    """Writes texts of several lines as such."""


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


_Dumper.add_representer(str, _text)


def render(helm: Path, values: Mapping[str, Any]) -> list[Manifest]:
    """Return the chart's objects without what only Helm needs.

    Args:
        helm: The program, version 3 or 4.
        values: Values that differ from the chart's own.

    Raises:
        subprocess.CalledProcessError: helm refused them; it has said why on standard error.
    """
    command = [str(helm), "template", RELEASE, str(CHART), "--namespace", NAMESPACE, "--values", "-"]
    text = yaml.safe_dump(dict(values))
    result = subprocess.run(command, input=text, stdout=subprocess.PIPE, text=True, timeout=_TIMEOUT_S, check=True)
    return [_plain(document) for document in yaml.safe_load_all(result.stdout) if document]


def files(helm: Path) -> dict[str, str]:
    """Return every rendered file by its path below deploy/manifests."""
    return {
        path: _dump(manifest for manifest in render(helm, values) if manifest["kind"] in kinds)
        for path, (values, kinds) in _FILES.items()
    }


def _dump(manifests: Iterable[Manifest]) -> str:
    return _HEADER + yaml.dump_all(manifests, Dumper=_Dumper, sort_keys=False, width=120)


def _plain(manifest: Manifest) -> Manifest:
    template = manifest["spec"].get("template", {}) if "spec" in manifest else {}
    for metadata in (manifest["metadata"], template.get("metadata", {})):
        for label in _HELM_LABELS:
            metadata.get("labels", {}).pop(label, None)
        metadata.get("annotations", {}).pop(_CHECKSUM, None)
        if metadata.get("annotations") == {}:
            del metadata["annotations"]
    return manifest


if __name__ == "__main__":
    for name, content in files(find_tool("helm4")).items():
        (MANIFESTS / name).write_text(content, encoding="utf-8")
