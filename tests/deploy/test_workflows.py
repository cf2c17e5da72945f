"""The workflows of GitHub: of the right form, and what their steps run is there."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from scaler.config.trigger import parse_trigger
from tests.conftest import tool
from tests.manifests import ROOT, is_built_in, one, problems, read, run

WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yaml"))
E2E = ROOT / "tests" / "deploy" / "e2e"
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")
OUR_FOLDERS = ("deploy/", "tests/", "tools/", ".ci/", "docs/")

each_workflow = pytest.mark.parametrize("file", WORKFLOWS, ids=lambda file: file.stem)


def workflow(file: Path) -> dict[str, Any]:
    # A text's loader, for which the key `on` is no boolean.
    loaded = yaml.load(file.read_text(encoding="utf-8"), Loader=yaml.BaseLoader)
    assert isinstance(loaded, dict)
    return loaded


def scripts() -> list[tuple[str, str]]:
    """Every script that a step runs, and that of the run on kind."""
    found = [
        (f"{file.stem}/{number}", step["run"])
        for file in WORKFLOWS
        for job in workflow(file)["jobs"].values()
        for number, step in enumerate(job["steps"])
        if "run" in step
    ]
    return [*found, ("run.sh", (E2E / "run.sh").read_text(encoding="utf-8"))]


def test_actionlint_has_nothing_to_say() -> None:
    result = run(tool("actionlint"), *map(str, WORKFLOWS))
    assert result.returncode == 0, result.stdout + result.stderr


@each_workflow
def test_a_job_has_an_end_and_no_rights_but_to_read(file: Path) -> None:
    loaded = workflow(file)
    assert loaded["permissions"] == {"contents": "read"}
    for job in loaded["jobs"].values():
        assert 0 < int(job["timeout-minutes"]) <= 60


@each_workflow
def test_an_action_has_a_version(file: Path) -> None:
    steps = [step for job in workflow(file)["jobs"].values() for step in job["steps"]]
    used = [step["uses"] for step in steps if "uses" in step]
    assert used != []
    assert [action for action in used if not re.fullmatch(r"[\w-]+/[\w-]+@v\d+", action)] == []


@pytest.mark.parametrize("script", [text for _, text in scripts()], ids=[name for name, _ in scripts()])
def test_what_a_step_runs_is_there(script: str) -> None:
    targets = re.findall(r"\bmake ([a-z-]+)", script)
    assert [target for target in targets if f"\n{target}:" not in MAKEFILE] == []
    words = re.split(r"[\s='\"]+", script)
    files = [word for word in words if word.startswith(OUR_FOLDERS)]
    assert [file for file in files if not (ROOT / file).exists()] == []


def test_the_script_on_kind_can_be_read_by_bash() -> None:
    assert run(Path("/bin/bash"), "-n", str(E2E / "run.sh")).returncode == 0


def test_the_supported_pythons_are_those_that_the_package_names() -> None:
    matrix = workflow(ROOT / ".github" / "workflows" / "test.yaml")["jobs"]["test"]["strategy"]["matrix"]["python"]
    named = re.findall(r"Python :: (3\.\d+)", (ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert matrix == named


def test_the_fleet_on_kind_is_one_that_kubernetes_and_the_scaler_take() -> None:
    fleet = read(E2E / "fleet.yaml")
    assert [found for each in fleet if is_built_in(each) for found in problems(each)] == []
    scaled = one(fleet, "ScaledObject")
    (trigger,) = scaled["spec"]["triggers"]
    parsed = parse_trigger("serving", "fleet", trigger["metadata"], tick_s=15.0)
    assert parsed.warnings == ()
    assert parsed.policy.max_replicas == scaled["spec"]["maxReplicaCount"] == 4


def test_the_fleet_on_kind_asks_for_its_maximum() -> None:
    """Each pod shows twice the requests that it has slots for, so every count wants to double."""
    fleet = read(E2E / "fleet.yaml")
    page = one(fleet, "ConfigMap")["data"]["metrics.txt"]
    running, waiting = (int(n) for n in re.findall(r"^vllm:num_requests_\w+\{.*\} (\d+)$", page, re.MULTILINE))
    slots = int(one(fleet, "ScaledObject")["spec"]["triggers"][0]["metadata"]["slotsPerReplica"])
    assert running + waiting == 2 * slots
    assert 'model_name="model"' in page
