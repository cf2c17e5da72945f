"""The dashboards as files: what Python makes, complete in themselves, and with a way on from every panel."""

import json
import re
from itertools import combinations
from pathlib import Path
from typing import Any

import promql_parser
import pytest

from grafana import build
from grafana.evaluate import load, replaced, targets
from grafana.frame import DECISIONS, SATURATION
from scaler.adapters import pool_metrics
from scaler.adapters.telemetry import Telemetry

ROOT = Path(__file__).parents[2]
METRIC = re.compile(r"\bvllm_scaler_[a-z_]+")
BOARDS = {name: load(build.FOLDERS[0] / f"{name}.json") for name in build.DASHBOARDS}
VALUES = {
    name: "x"
    for board in BOARDS.values()
    for name in (*(each["name"] for each in board["templating"]["list"]), "__rate_interval")
} | {"__rate_interval": "1m"}


def panels(kind: str | None = None) -> list[Any]:
    """Every panel but the rows, as a parameter named after it."""
    return [
        pytest.param(panel, id=f"{name}-{panel['title']}")
        for name, board in BOARDS.items()
        for panel in board["panels"]
        if panel["type"] != "row" and kind in (None, panel["type"])
    ]


def exported() -> set[str]:
    """The families of our own metrics; a counter's is without its suffix."""
    own = re.findall(r"^# TYPE (vllm_scaler_\S+) \S+$", Telemetry().exposition()[0].decode(), re.MULTILINE)
    families = {*own, *(f"{pool_metrics.PREFIX}_{name}" for name in pool_metrics._FAMILIES)}
    return {name for name in families if not name.endswith("_created")}


def family(series: str) -> str:
    return re.sub(r"_(bucket|sum|count)$", "", series)


@pytest.mark.parametrize(("path", "text"), [*build.files()], ids=lambda value: getattr(value, "name", ""))
def test_a_committed_file_is_what_the_python_makes(path: Path, text: str) -> None:
    assert path.read_text(encoding="utf-8") == text, "run: make dashboards"


def test_the_chart_has_the_same_files_and_no_others() -> None:
    first, second = ({path.name: path.read_bytes() for path in folder.iterdir()} for folder in build.FOLDERS)
    assert first == second
    assert sorted(first) == sorted(f"{name}.json" for name in build.DASHBOARDS)


@pytest.mark.parametrize("board", BOARDS.values(), ids=BOARDS)
def test_a_dashboard_can_be_imported_and_provisioned_alike(board: dict[str, Any]) -> None:
    assert "__inputs" not in board, "the sidecar fills in nothing"
    assert board["uid"] in {SATURATION, DECISIONS}
    assert board["templating"]["list"][0]["type"] == "datasource"
    assert set(re.findall(r'"datasource": \{"type": "(\w+)", "uid": "([^"]+)"', json.dumps(board))) == {
        ("prometheus", "${datasource}")
    }


@pytest.mark.parametrize("board", BOARDS.values(), ids=BOARDS)
def test_panels_do_not_cover_each_other(board: dict[str, Any]) -> None:
    places = [(panel["title"], panel["gridPos"]) for panel in board["panels"]]
    covered = [
        (one, other)
        for (one, a), (other, b) in combinations(places, 2)
        if a["x"] < b["x"] + b["w"]
        and b["x"] < a["x"] + a["w"]
        and a["y"] < b["y"] + b["h"]
        and b["y"] < a["y"] + a["h"]
    ]
    assert covered == []
    assert [title for title, place in places if place["x"] + place["w"] > 24] == []
    assert len({panel["id"] for panel in board["panels"]}) == len(board["panels"])


@pytest.mark.parametrize("panel", panels())
def test_a_panel_says_what_it_shows_and_what_to_do_when_it_looks_bad(panel: dict[str, Any]) -> None:
    sentences = re.split(r"(?<=\.) ", panel["description"])
    assert len(sentences) >= 2
    assert [each for each in sentences[1:] if re.match(r"(When|While)\b[^.]*[,:;] ", each)], "no: When ..., do ..."
    assert panel["description"].endswith(".")


@pytest.mark.parametrize("panel", panels())
def test_a_panel_leads_to_runbooks_that_are_there(panel: dict[str, Any]) -> None:
    for link in panel.get("links", ()):
        (name,) = re.findall(r"^\$\{runbooks\}/(\w+)\.md$", link["url"])
        assert (ROOT / "docs" / "runbooks" / f"{name}.md").is_file()


@pytest.mark.parametrize("board", BOARDS.values(), ids=BOARDS)
def test_each_dashboard_leads_to_the_other_and_to_the_runbooks(board: dict[str, Any]) -> None:
    other, runbooks = (link["url"] for link in board["links"])
    (uid,) = {SATURATION, DECISIONS} - {board["uid"]}
    assert other.startswith(f"/d/{uid}?")
    assert (ROOT / other_path(runbooks)).is_file()
    named = set(re.findall(r"\$\{(\w+)\}", other))
    assert named <= {each["name"] for each in board["templating"]["list"]}


def other_path(url: str) -> str:
    return url.replace("${runbooks}", "docs/runbooks")


@pytest.mark.parametrize("panel", panels("timeseries"))
def test_a_style_is_of_a_series_that_the_panel_has(panel: dict[str, Any]) -> None:
    legends = {target["legendFormat"] for target in panel["targets"]}
    overrides = panel["fieldConfig"]["overrides"]
    assert {each["matcher"]["options"] for each in overrides} - legends == set()
    below = [p["value"] for each in overrides for p in each["properties"] if p["id"] == "custom.fillBelowTo"]
    assert set(below) - legends == set()


@pytest.mark.parametrize("panel", panels())
def test_a_panel_has_a_unit_or_names_for_its_values(panel: dict[str, Any]) -> None:
    defaults = panel["fieldConfig"]["defaults"]
    of_columns = [p["id"] for each in panel["fieldConfig"]["overrides"] for p in each["properties"]]
    assert defaults.get("unit") or defaults.get("mappings") or "unit" in of_columns


@pytest.mark.parametrize("board", BOARDS.values(), ids=BOARDS)
def test_every_query_is_promql_that_names_series_which_are_exported(board: dict[str, Any]) -> None:
    for target in targets(board):
        promql_parser.parse(replaced(target.expr, VALUES))
        assert {family(name) for name in METRIC.findall(target.expr)} - exported() == set()


def test_each_of_our_metrics_is_looked_at_by_a_dashboard_an_alert_or_a_runbook() -> None:
    readers = [*build.FOLDERS[0].glob("*.json"), *(ROOT / "docs" / "runbooks").glob("*.md")]
    readers.append(ROOT / "deploy" / "helm" / "vllm-keda-scaler" / "files" / "rules.yaml")
    read = {family(name) for path in readers for name in METRIC.findall(path.read_text(encoding="utf-8"))}
    # A count of all is what a person looks at by hand, and open streams tell of external-push alone.
    assert exported() - read == {"vllm_scaler_grpc_streams", "vllm_scaler_decisions_total"}
