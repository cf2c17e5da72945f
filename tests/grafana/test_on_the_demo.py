"""Every query of dashboards, alerts and runbooks, run by a real Prometheus on what the demo has left in it.

One run of the demo serves all tests: it is stopped once its fleet has grown in the burst and begun to shrink, and then
Prometheus is started again on the samples that were kept. So no test is in a hurry while it runs.
"""

import math
import os
import re
import signal
import subprocess
import sys
import time
import urllib.request
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from grafana import build
from grafana.evaluate import Prometheus, Series, Target, load, replaced, targets
from scaler.demo.prometheus_process import PrometheusProcess
from scaler.demo.scenario import MODEL_NAME, NAMESPACE, SCALED_OBJECT

ROOT = Path(__file__).parents[2]
STEP_S = 1.0
ENDED_S = 30.0
GRAFANA = {"__rate_interval": "10s"}
EXAMPLES = {'"serving"': f'"{NAMESPACE}"', '"vllm-llama"': f'"{SCALED_OBJECT}"'}
# What has no series while all is well, or none in a minute.
TROUBLE = re.compile(
    r"limit_active|diagnostic_active|query_errors_total|internal_errors_total|data_age_seconds\) > |== 0\)|\[30m:1m\]"
)


@dataclass(frozen=True)
class Run:
    """What a run of the demo has left: a Prometheus with its samples, their times, and a page of metrics."""

    prometheus: Prometheus
    start: float
    end: float
    metrics: bytes

    def answers(self, expr: str, *, instant: bool = False) -> list[Series]:
        if instant:
            return self.prometheus.instant(expr, self.end)
        return self.prometheus.range(expr, self.start, self.end, STEP_S)


def played(folder: Path) -> tuple[float, float, bytes]:
    """Run the demo until replicas go again; return when it began, when it ended, and its metrics in the burst."""
    command: list[str | Path] = [Path(sys.executable).with_name("vllm-scaler"), "demo", "--duration", "60s", "--keep"]
    environment = os.environ | {"PYTHONUNBUFFERED": "1"}
    with subprocess.Popen(command, cwd=folder, env=environment, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        url, metrics, start, end, after = "", b"", 0.0, 0.0, 0
        for line in process.stdout:
            url = url or "".join(re.findall(r"scaler .* (http://\S+)/metrics", line))
            if line.startswith("t="):
                start, end = start or time.time(), time.time()
            if " burst " in line and not metrics:
                with urllib.request.urlopen(f"{url}/metrics", timeout=10.0) as page:
                    metrics = page.read()
            after += "scale down:" in line or after > 0
            if after > 3:
                process.send_signal(signal.SIGTERM)
        assert process.wait(ENDED_S) == 0
    return start, end, metrics


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory, prometheus_bin: Path) -> Iterator[Run]:
    folder = tmp_path_factory.mktemp("demo")
    start, end, metrics = played(folder)
    (kept,) = folder.glob("demo-output/*/prometheus")
    with PrometheusProcess(prometheus_bin, config="{}", data_dir=kept) as process:
        client = Prometheus(process.url)
        yield Run(client, start, end, metrics)
        client.close()


pytestmark = pytest.mark.timeout(180)


def dashboard_targets() -> list[Target]:
    return [target for name in build.DASHBOARDS for target in targets(load(build.FOLDERS[0] / f"{name}.json"))]


@pytest.fixture(scope="module")
def values(demo: Run) -> dict[str, str]:
    """Each variable of each dashboard, as Grafana fills it in."""
    found = dict(GRAFANA)
    for name in build.DASHBOARDS:
        found |= demo.prometheus.resolve(load(build.FOLDERS[0] / f"{name}.json"), demo.end)
    return found


def points(answers: list[Series]) -> list[float]:
    """Every value but NaN, which is no traffic."""
    return [value for series in answers for _, value in series.points if not math.isnan(value)]


def legend(target: Target, series: Series) -> str:
    """A series' name as Grafana writes it."""
    return re.sub(r"\{\{(\w+)\}\}", lambda match: series.labels.get(match[1], ""), target.legend)


def test_the_variables_find_the_pool_and_its_vllm_series(demo: Run, values: dict[str, str]) -> None:
    assert (values["namespace"], values["pool"], values["ttft_bound"]) == (NAMESPACE, SCALED_OBJECT, "1")
    assert re.fullmatch(values["models"].replace("\\\\", "\\"), MODEL_NAME)
    pods = {series.labels["pod"] for series in demo.answers("vllm:num_requests_running")}
    assert len(pods) > 2
    assert [pod for pod in pods if not re.fullmatch(values["pods"], pod)] == []


@pytest.mark.parametrize("target", dashboard_targets(), ids=str)
def test_a_query_of_a_dashboard_has_data(demo: Run, values: dict[str, str], target: Target) -> None:
    answers = demo.answers(replaced(target.expr, values), instant=target.instant)

    if not TROUBLE.search(target.expr):
        assert points(answers)
    names = Counter(legend(target, series) for series in answers)
    assert [name for name, count in names.items() if count > 1 and target.legend != "__auto"] == []


@pytest.mark.parametrize(
    ("panel", "line", "between"),
    [
        ("In flight against capacity", "in flight", (60, 400)),
        ("In flight against capacity", "capacity", (64, 80)),
        ("Saturation", "saturation", (1.01, 10)),
        ("KV-cache usage", "fullest", (0.1, 1)),
        ("TTFT P95 against its objective", "objective", (1, 1)),
        ("Requests over the TTFT objective", "over the objective", (0.1, 1)),
        ("Inter-token latency", "P95", (0.025, 0.5)),
        ("Tokens per second", "generated", (300, 5000)),
        ("Tokens per second", "prompt", (300, 5000)),
        ("Target, reported value and replicas", "target", (8, 10)),
        ("Target, reported value and replicas", "serving", (8, 10)),
        ("The dead band", "up(t)", (8, 50)),
        ("Cost per hour", "cost", (20, 25)),
        ("Cost per hour", "budget", (30, 30)),
        ("Queries: errors", "{{backend}} {{query}} {{error}}", (0, 0)),
    ],
)
def test_the_burst_is_seen(
    demo: Run, values: dict[str, str], panel: str, line: str, between: tuple[float, float]
) -> None:
    (target,) = (each for each in dashboard_targets() if (each.panel, each.legend) == (panel, line))
    assert between[0] <= max(points(demo.answers(replaced(target.expr, values)))) <= between[1]


def test_decisions_are_marked_with_what_they_did_and_why(demo: Run, values: dict[str, str]) -> None:
    marks = [each for each in dashboard_targets() if each.panel == "Decisions"]
    for mark in marks:
        seen = {(each.labels["action"], each.labels["reason"]) for each in demo.answers(replaced(mark.expr, values))}
        assert {("scale_up", "burst"), ("scale_down", "need_below")} <= seen


def alert_expressions() -> list[str]:
    rules = yaml.safe_load((build.FOLDERS[1].parent / "rules.yaml").read_text(encoding="utf-8"))
    return [rule["expr"] for group in rules["groups"] for rule in group["rules"]]


@pytest.mark.parametrize("expr", alert_expressions())
def test_an_alert_can_be_evaluated_and_is_silent_before_the_burst(demo: Run, expr: str) -> None:
    assert demo.prometheus.instant(expr, demo.start + 5.0) == []
    demo.answers(expr)


def runbook_queries() -> list[object]:
    return [
        pytest.param(block.strip(), id=f"{page.stem}-{number}")
        for page in sorted((ROOT / "docs" / "runbooks").glob("VLLM*.md"))
        for number, block in enumerate(
            re.findall(r"^```promql\n(.*?)^```$", page.read_text(), re.MULTILINE | re.DOTALL)
        )
    ]


@pytest.mark.parametrize("expr", runbook_queries())
def test_a_query_of_a_runbook_has_data(demo: Run, expr: str) -> None:
    for example, of_demo in EXAMPLES.items():
        expr = expr.replace(example, of_demo)
    answers = demo.answers(expr)
    if not TROUBLE.search(expr):
        assert points(answers)


def test_promtool_has_nothing_to_say_of_the_metrics_in_the_burst(demo: Run, promtool_bin: Path) -> None:
    own = b"".join(line for line in demo.metrics.splitlines(keepends=True) if b"vllm_scaler_" in line)
    result = subprocess.run([promtool_bin, "check", "metrics"], input=own, capture_output=True, check=False)
    assert own.count(b"\n") > 50
    assert (result.returncode, result.stdout + result.stderr) == (0, b"")


def test_a_query_that_prometheus_refuses_is_an_error(demo: Run) -> None:
    with pytest.raises(ValueError, match="parse error"):
        demo.answers("sum(", instant=True)


def test_a_variable_that_nobody_knows_is_an_error() -> None:
    with pytest.raises(KeyError, match="poool"):
        replaced('x{a="$poool"}', {"pool": "llama"})
