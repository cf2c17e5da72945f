"""What the pages about the installation promise is what the chart and the law give."""

import re
import shlex
from itertools import pairwise
from pathlib import Path

import pytest
import yaml

from scaler.config.trigger import parse_trigger
from scaler.model import ReasonCode
from tests.builders import drive
from tests.manifests import CASES, CHART, NEWEST_KUBERNETES, OLDEST_KUBERNETES, ROOT, one, read, run

INSTALL = (ROOT / "docs" / "operating" / "install.md").read_text(encoding="utf-8")
DEPLOY = (ROOT / "deploy" / "README.md").read_text(encoding="utf-8")
PAGES = [ROOT / "README.md", ROOT / "docs" / "operating" / "install.md", CHART / "README.md"]
EXAMPLE = ROOT / "deploy" / "examples" / "vllm-deployment.yaml"
TICKS_A_MINUTE = 4


def helm_commands(page: Path) -> list[list[str]]:
    text = page.read_text(encoding="utf-8").replace("\\\n", " ")
    return [shlex.split(line) for line in re.findall(r"^helm upgrade .+$", text, re.MULTILINE)]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_command_that_installs_renders(helm: Path, page: Path) -> None:
    (command,) = helm_commands(page)
    assert command[:4] == ["helm", "upgrade", "--install", "vllm-scaler"]
    assert ROOT / command[4] == CHART
    result = run(helm, "template", "vllm-scaler", str(CHART), *command[5:])
    assert result.returncode == 0, result.stderr
    assert "image: registry.example/platform/vllm-keda-scaler:0.1.0" in result.stdout


def values_examples() -> list[str]:
    text = (CHART / "README.md").read_text(encoding="utf-8")
    return re.findall(r"^```yaml\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("number", range(len(values_examples())))
def test_values_are_taken_as_they_are_shown(helm: Path, number: int) -> None:
    command = ("template", "vllm-scaler", str(CHART), "--namespace", "keda", "--values", "-")
    result = run(helm, *command, stdin=values_examples()[number])
    assert result.returncode == 0, result.stderr
    for each in yaml.safe_load_all(result.stdout):
        if each["kind"] == "Certificate":
            address = one(read(EXAMPLE), "ScaledObject")["spec"]["triggers"][0]["metadata"]["scalerAddress"]
            assert each["spec"]["dnsNames"] == [address.partition(":")[0]]


def test_the_load_of_the_walk_through_scales_as_it_says() -> None:
    scaled = one(read(EXAMPLE), "ScaledObject")
    metadata = scaled["spec"]["triggers"][0]["metadata"]
    policy = parse_trigger("serving", "vllm-llama", metadata, tick_s=15.0).policy
    (load,) = (float(number) for number in re.findall(r"--max-concurrency (\d+)", INSTALL))
    assert f"{load:.0f} requests on slots of {metadata['slotsPerReplica']}, used up to nine tenths" in INSTALL
    assert f"--model {metadata['modelName']}" in INSTALL
    assert scaled["metadata"]["name"] == "vllm-llama"

    minutes = 10
    quiet, busy = [0.0] * 5, [load] * 40
    decisions = drive(policy, [*quiet, *busy, *[0.0] * minutes * TICKS_A_MINUTE], replicas=1)
    first, *others = decisions[len(quiet) : len(quiet) + len(busy)]
    assert (first.target, first.reasons[0].code) == (4, ReasonCode.BURST)
    assert {decision.target for decision in others} == {4}

    idle = [decision.target for decision in decisions[len(quiet) + len(busy) :]]
    steps = [tick / TICKS_A_MINUTE for tick, (before, now) in enumerate(pairwise(idle)) if now != before]
    assert len(steps) == 3
    assert steps[0] == pytest.approx(5, abs=0.5)
    assert [later - earlier for earlier, later in pairwise(steps)] == pytest.approx([2, 2], abs=0.3)
    assert idle[-1] == 1


def test_the_page_counts_what_is_checked() -> None:
    assert len(CASES) == 10
    assert "for ten sets of values" in DEPLOY
    assert f"Kubernetes {OLDEST_KUBERNETES} and {NEWEST_KUBERNETES}" in DEPLOY
    assert f"Kubernetes {OLDEST_KUBERNETES} and {NEWEST_KUBERNETES}" in INSTALL
    chart = (CHART / "Chart.yaml").read_text(encoding="utf-8")
    assert f'kubeVersion: ">={OLDEST_KUBERNETES}.0-0"' in chart


def test_every_example_is_on_the_page() -> None:
    files = {file.name for file in EXAMPLE.parent.iterdir()}
    assert set(re.findall(r"^\| \[`([a-z-]+\.yaml)`\]", DEPLOY, re.MULTILINE)) == files


def test_every_step_says_what_was_tried_of_it() -> None:
    steps = re.findall(r"^## \d\. .+?(?=^## )", INSTALL, re.MULTILINE | re.DOTALL)
    commands = [step for step in steps if "```sh" in step]
    assert len(commands) == 5
    assert [step.partition("\n")[0] for step in commands if "*Tried: " not in step or "Not tried: " not in step] == []
