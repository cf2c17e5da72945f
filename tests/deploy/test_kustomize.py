"""deploy/manifests gives what the chart gives for the same values."""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.manifests import ROOT, Manifest, is_built_in, one, problems, run
from tools import kustomize_base
from tools.kustomize_base import MANIFESTS, SETTINGS, WITH_OPERATOR, WITH_POLICY, WITH_TLS

PAGE = ROOT / "deploy" / "README.md"
BUILDS: list[tuple[str, Mapping[str, Any]]] = [
    ("base", {}),
    ("overlays/tls", WITH_TLS),
    ("overlays/prometheus-operator", WITH_OPERATOR),
    ("overlays/production", {**WITH_TLS, **WITH_OPERATOR, **WITH_POLICY}),
]


def build(kubectl: Path, folder: str) -> list[Manifest]:
    result = run(kubectl, "kustomize", str(MANIFESTS / folder))
    assert result.returncode == 0, result.stderr
    return list(yaml.safe_load_all(result.stdout))


def hashed_name(objects: list[Manifest]) -> str:
    (name,) = (each["metadata"]["name"] for each in objects if each["kind"] == "ConfigMap")
    assert isinstance(name, str)
    return name


@pytest.mark.parametrize(("folder", "values"), BUILDS, ids=[folder for folder, _ in BUILDS])
def test_a_build_is_what_the_chart_gives(kubectl: Path, helm4: Path, folder: str, values: Mapping[str, Any]) -> None:
    built = build(kubectl, folder)
    # The hash in the ConfigMap's name is kustomize's way to start new pods; the chart's is an annotation.
    plain = json.loads(json.dumps(built).replace(hashed_name(built), SETTINGS))

    def by_kind(objects: list[Manifest]) -> dict[tuple[str, str], Manifest]:
        return {(each["kind"], each["metadata"]["name"]): each for each in objects}

    assert by_kind(plain) == by_kind(kustomize_base.render(helm4, values))
    assert [found for each in built if is_built_in(each) for found in problems(each)] == []


def test_the_rendered_files_are_up_to_date(helm4: Path) -> None:
    for name, content in kustomize_base.files(helm4).items():
        assert (MANIFESTS / name).read_text(encoding="utf-8") == content, f"{name}: run make chart"


def test_an_overlay_of_ones_own_is_made_as_it_is_shown(kubectl: Path, tmp_path: Path) -> None:
    (kustomization,) = re.findall(r"^```yaml\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    overlay = tmp_path / "my-overlay"
    overlay.mkdir()
    (overlay / "kustomization.yaml").write_text(kustomization)
    (overlay / "settings.yaml").write_text("prometheus_url: http://thanos.monitoring:9090\n")
    (tmp_path / "manifests").symlink_to(MANIFESTS)

    result = run(kubectl, "kustomize", str(overlay))
    assert result.returncode == 0, result.stderr
    objects = list(yaml.safe_load_all(result.stdout))
    pod = one(objects, "Deployment")["spec"]["template"]["spec"]
    assert pod["containers"][0]["image"] == "registry.example/platform/vllm-keda-scaler:0.1.0"
    assert one(objects, "ServiceMonitor") == one(build(kubectl, "overlays/prometheus-operator"), "ServiceMonitor")
    # Changed settings start new pods, since the name that the pod mounts has changed with them.
    assert pod["volumes"][0]["configMap"]["name"] == hashed_name(objects)
    assert hashed_name(objects) != hashed_name(build(kubectl, "base"))
