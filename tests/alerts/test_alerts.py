"""Each alert fires when it should and not when it should not, and leads to its runbook."""

import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import promql_parser
import pytest
import yaml
from grpc_health.v1 import health_pb2

from scaler.model import ReasonCode, SignalName
from scaler.protos import externalscaler_pb2

ROOT = Path(__file__).parents[2]
RULES = ROOT / "deploy" / "helm" / "vllm-keda-scaler" / "files" / "rules.yaml"
RUNBOOKS = ROOT / "docs" / "runbooks"
PARTS = ["Meaning", "Impact", "Investigate", "Fix"]
POOL = 'namespace="serving",scaled_object="llama"'
OF_POOL = {"namespace": "serving", "scaled_object": "llama"}


METHODS = {
    (service.full_name, method.name)
    for file in (externalscaler_pb2.DESCRIPTOR, health_pb2.DESCRIPTOR)
    for service in file.services_by_name.values()
    for method in service.methods
}


def rules() -> list[dict[str, Any]]:
    return [rule for group in yaml.safe_load(RULES.read_text(encoding="utf-8"))["groups"] for rule in group["rules"]]


ALERTS = sorted({rule["alert"] for rule in rules()})


@dataclass(frozen=True)
class Case:
    """Series in promtool's notation, a value a minute; what fires at a minute, and did not the minute before."""

    name: str
    alert: str
    series: dict[str, str]
    minute: int
    severity: str | None = None
    """None: nothing fires."""
    labels: dict[str, str] | None = None

    def fires(self) -> Iterator[dict[str, Any]]:
        """What promtool is to expect, with the annotations of the rule as a person reads them."""
        if self.severity is None:
            return
        labels = OF_POOL if self.labels is None else self.labels
        (rule,) = (
            rule for rule in rules() if (rule["alert"], rule["labels"]["severity"]) == (self.alert, self.severity)
        )
        texts = rule["annotations"].items()
        yield {
            "exp_labels": {**labels, "severity": self.severity},
            "exp_annotations": {name: rendered(text, labels) for name, text in texts},
        }


def rendered(text: str, labels: dict[str, str]) -> str:
    return re.sub(r"\{\{ \$labels\.(\w+) \}\}", lambda match: labels[match[1]], text)


def of_pool(metric: str, values: str, labels: str = "") -> dict[str, str]:
    """The same from both replicas of the service: the alert is one for the pool."""
    return {
        f'vllm_scaler_{metric}{{{POOL},instance="{instance}"{labels and ","}{labels}}}': values for instance in "ab"
    }


def signal(metric: str, values: str, name: str = "ttft_p95") -> dict[str, str]:
    return of_pool(f"signal_{metric}", values, f'signal="{name}"')


def ages(data: str, decision: str) -> dict[str, str]:
    known = of_pool("data_age_seconds", data) | of_pool("decision_age_seconds", decision)
    return known | of_pool("pool_info", "1x60")


def queries(of: str, values: str, labels: str = "") -> dict[str, str]:
    return {f'vllm_scaler_query_{of}{{backend="eu-1",query="latency"{labels and ","}{labels}}}': values}


PROTECTION, STALLED, NO_DATA = "VLLMScalerPoolInProtection", "VLLMScalerScaleUpStalled", "VLLMScalerNoData"
BURNING, FLAPPING, COST = "VLLMScalerObjectiveBurning", "VLLMScalerFlapping", "VLLMScalerCostLimitReached"
WEDGED, IMBALANCE, HPA = "VLLMScalerWedgedReplica", "VLLMScalerRoutingImbalance", "VLLMScalerHPASwallowsDecisions"
DOWN, SLOW = "VLLMScalerDown", "VLLMScalerPrometheusSlow"
TIMEOUT = of_pool("cold_start_timeout_seconds", "600x30")
UP = {'vllm_scaler_build_info{instance="a"}': "1x60"}
SIGNAL = {"signal": "ttft_p95"}
EU = {"backend": "eu-1"}


def below(bound: str, values: str) -> dict[str, str]:
    return queries("duration_seconds_bucket", values, f'le="{bound}"')


CASES = [
    Case("capped for long", PROTECTION, of_pool("protection_grade", "1x30"), 10, "warning"),
    Case("capped for a moment", PROTECTION, of_pool("protection_grade", "1x5 0x30"), 11),
    Case("capped and requests wait", PROTECTION, of_pool("protection_grade", "2x30"), 2, "critical"),
    Case("the need is met", PROTECTION, of_pool("protection_grade", "0x30"), 20),
    Case("starting for too long", STALLED, of_pool("starting_seconds", "0+60x30") | TIMEOUT, 12, "critical"),
    Case("starting as it should", STALLED, of_pool("starting_seconds", "0+60x8 0x20") | TIMEOUT, 13),
    Case("data is old", NO_DATA, ages("0+60x30", "10x30"), 6, "critical"),
    Case("it is not evaluated", NO_DATA, ages("0+60x30", "0+60x30"), 14, "critical"),
    Case("it is evaluated every five minutes", NO_DATA, ages("250x30", "250x30"), 14),
    Case("never seen", NO_DATA, of_pool("pool_info", "1x30"), 3, "critical"),
    Case("data is fresh", NO_DATA, ages("15x30", "15x30"), 20),
    Case("a pool that has gone", NO_DATA, dict.fromkeys(ages("", ""), "1x5 stale"), 20),
    Case(
        "above the objective for long",
        BURNING,
        signal("value", "3x60") | signal("scale_up_threshold", "2.5x60"),
        17,
        "critical",
        OF_POOL | SIGNAL,
    ),
    Case(
        "above it for ten minutes", BURNING, signal("value", "3x10 1x60") | signal("scale_up_threshold", "2.5x60"), 20
    ),
    Case(
        "no traffic after a burst", BURNING, signal("value", "3x10 stale") | signal("scale_up_threshold", "2.5x60"), 40
    ),
    Case(
        "a full pool within its objective",
        BURNING,
        signal("value", "99x60", "saturation") | signal("scale_up_threshold", "16x60", "saturation"),
        40,
    ),
    Case("three regrets", FLAPPING, of_pool("regretted_increases", "3x30"), 5, "warning"),
    Case("two regrets", FLAPPING, of_pool("regretted_increases", "2x30"), 6),
    Case("the budget bites for long", COST, of_pool("limit_active", "1x30", 'limit="cost_limit"'), 15, "warning"),
    Case("the budget bites for a moment", COST, of_pool("limit_active", "1x10 stale", 'limit="cost_limit"'), 20),
    Case("another limit", COST, of_pool("limit_active", "1x30", 'limit="max_replicas"'), 20),
    Case("a replica hangs", WEDGED, of_pool("diagnostic_active", "1x30", 'diagnostic="wedged_replica"'), 3, "warning"),
    Case("it was restarted", WEDGED, of_pool("diagnostic_active", "1x2 stale", 'diagnostic="wedged_replica"'), 4),
    Case("routing for long", IMBALANCE, of_pool("diagnostic_active", "1x30", 'diagnostic="imbalance"'), 10, "warning"),
    Case("another diagnostic", IMBALANCE, of_pool("diagnostic_active", "1x30", 'diagnostic="regret"'), 20),
    Case(
        "the HPA does not follow",
        HPA,
        of_pool("lands_on_replicas", "6x30") | of_pool("requested_replicas", "4x30"),
        10,
        "warning",
    ),
    Case(
        "the HPA follows a minute later",
        HPA,
        of_pool("lands_on_replicas", "4x4 6x30") | of_pool("requested_replicas", "4x5 6x30"),
        20,
    ),
    Case("within the tolerance for long", HPA, of_pool("limit_active", "1x90", 'limit="hpa_tolerance"'), 60, "info"),
    Case("within the tolerance for a while", HPA, of_pool("limit_active", "1x30 stale", 'limit="hpa_tolerance"'), 61),
    Case("nothing is scraped", DOWN, {}, 2, "critical", {}),
    Case("it was scraped and is gone", DOWN, {'vllm_scaler_build_info{instance="a"}': "1x5 stale"}, 8, "critical", {}),
    Case("it stands still", DOWN, UP | {"vllm_scaler_ticks_total": "100x60"}, 3, "critical", {}),
    Case("one of two ticks", DOWN, UP | {"vllm_scaler_ticks_total": "100+4x60"}, 20),
    Case("slow", SLOW, below("5.0", "0x30") | below("10.0", "0+9x30") | below("+Inf", "0+9x30"), 6, "warning", EU),
    Case("quick", SLOW, below("5.0", "0+9x30") | below("10.0", "0+9x30") | below("+Inf", "0+9x30"), 20),
    Case(
        "failing",
        SLOW,
        queries("errors_total", "0+1x30", 'error="timeout"') | queries("duration_seconds_count", "0+9x30"),
        6,
        "warning",
        EU,
    ),
    Case(
        "one failure",
        SLOW,
        queries("errors_total", "0x5 1x30", 'error="timeout"') | queries("duration_seconds_count", "0+9x30"),
        20,
    ),
]


def test_the_rules_are_clean(promtool_bin: Path) -> None:
    result = subprocess.run(
        [promtool_bin, "check", "rules", "--lint=all", "--lint-fatal", str(RULES)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (result.returncode, result.stderr) == (0, "")


def test_every_alert_fires_when_it_should_and_not_when_it_should_not(promtool_bin: Path, tmp_path: Path) -> None:
    file = tmp_path / "alerts.test.yaml"
    file.write_text(
        yaml.safe_dump(
            {
                "rule_files": [str(RULES)],
                "evaluation_interval": "1m",
                "tests": [
                    {
                        "name": f"{case.alert}: {case.name}",
                        "interval": "1m",
                        "input_series": [{"series": each, "values": values} for each, values in case.series.items()],
                        "alert_rule_test": [
                            {"eval_time": f"{minute}m", "alertname": case.alert, "exp_alerts": alerts}
                            for minute, alerts in ((case.minute - 1, []), (case.minute, list(case.fires())))
                        ],
                    }
                    for case in CASES
                ],
            }
        ),
        encoding="utf-8",
    )
    result = subprocess.run([promtool_bin, "test", "rules", str(file)], capture_output=True, text=True, check=False)
    assert (result.returncode, result.stderr) == (0, "")


@pytest.mark.parametrize("rule", rules(), ids=lambda rule: f"{rule['alert']}-{rule['labels']['severity']}")
def test_every_rule_has_a_case_in_which_it_fires(rule: dict[str, Any]) -> None:
    severity = rule["labels"]["severity"]
    assert severity in {"critical", "warning", "info"}
    assert [case.name for case in CASES if (case.alert, case.severity) == (rule["alert"], severity)]


@pytest.mark.parametrize("alert", ALERTS)
def test_every_alert_has_a_case_in_which_it_does_not_fire(alert: str) -> None:
    assert [case.name for case in CASES if (case.alert, case.severity) == (alert, None)]


@pytest.mark.parametrize("rule", rules(), ids=lambda rule: f"{rule['alert']}-{rule['labels']['severity']}")
def test_an_alert_says_what_is_wrong_and_where_to_read_on(rule: dict[str, Any]) -> None:
    annotations = rule["annotations"]
    page = ROOT / annotations["runbook_url"]

    assert set(annotations) == {"summary", "description", "runbook_url"}
    assert page == RUNBOOKS / f"{rule['alert']}.md"
    assert page.read_text(encoding="utf-8").startswith(f"# {rule['alert']}\n")
    labels = set(re.findall(r"\$labels\.(\w+)", annotations["summary"]))
    kept = set(re.findall(r"by \(([^)]+)\)", rule["expr"])[0].split(", ")) if labels else labels
    assert labels <= kept, "a label that the expression drops is empty in the summary"


def test_every_runbook_is_of_an_alert() -> None:
    assert sorted(path.stem for path in RUNBOOKS.glob("VLLM*.md")) == ALERTS


def test_the_table_of_runbooks_has_each_alert_with_its_severities() -> None:
    table = dict(re.findall(r"^\| \[(\w+)\]\(\w+\.md\) \| ([\w, ]+) \|", index(), re.MULTILINE))
    severities: dict[str, list[str]] = {}
    for rule in rules():
        severities.setdefault(rule["alert"], []).append(rule["labels"]["severity"])
    assert {alert: text.split(", ") for alert, text in table.items()} == severities


def index() -> str:
    return (RUNBOOKS / "README.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("alert", ALERTS)
def test_a_runbook_says_what_it_means_whom_it_hurts_what_to_look_at_and_what_to_do(alert: str) -> None:
    text = (RUNBOOKS / f"{alert}.md").read_text(encoding="utf-8")
    assert re.findall(r"^## (.+)$", text, re.MULTILINE) == PARTS
    investigate = text.partition("## Investigate")[2].partition("\n## ")[0]
    assert investigate.count("```promql") >= 2
    called = re.findall(r"grpcurl -plaintext .*?localhost:50051 (\S+)/(\w+)", investigate)
    assert called
    assert set(called) <= METHODS


@pytest.mark.parametrize("alert", ALERTS)
def test_every_block_of_promql_in_a_runbook_is_one_query(alert: str) -> None:
    text = (RUNBOOKS / f"{alert}.md").read_text(encoding="utf-8")
    for block in re.findall(r"^```promql\n(.*?)^```$", text, re.MULTILINE | re.DOTALL):
        assert block.count("\n") == 1
        promql_parser.parse(block)


@pytest.mark.parametrize("path", [RULES, *sorted(RUNBOOKS.glob("*.md"))], ids=lambda path: path.stem)
def test_a_reason_or_signal_that_is_asked_for_is_one_that_the_law_gives(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    codes = re.findall(r'(?:limit|diagnostic|reason)="(\w+)"', text)
    signals = [name for names in re.findall(r'signal=~?"([\w|]+)"', text) for name in names.split("|")]
    assert set(codes) - set(ReasonCode) == set()
    assert set(signals) - set(SignalName) == set()
