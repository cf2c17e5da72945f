"""A dashboard's queries run as Grafana runs them, for tests and pictures: variables are resolved, then replaced.

Of Grafana's own variables there are those that our dashboards use; one that is not known raises, as does a query that
Prometheus refuses.
"""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import requests

_LABEL_VALUES: Final = re.compile(r"label_values\((?P<series>.+), (?P<label>\w+)\)")
_QUERY_RESULT: Final = re.compile(r"query_result\((?P<expr>.+)\)")
_VARIABLE: Final = re.compile(r"\$(?:\{(\w+)\}|(\w+))")
_TIMEOUT_S: Final = 30.0


@dataclass(frozen=True, slots=True)
class Target:
    """One query of a panel, or of an annotation.

    Args:
        dashboard: The dashboard's uid.
        panel: The panel's title, or the annotation's name.
        expr: The query with its variables.
        legend: The series' name with its labels.
        instant: Whether it is asked for now only.
    """

    dashboard: str
    panel: str
    expr: str
    legend: str
    instant: bool

    def __str__(self) -> str:
        return f"{self.dashboard}: {self.panel}: {self.legend or self.expr[:40]}"


@dataclass(frozen=True, slots=True)
class Series:
    """One answer: its labels, and its points as (Unix seconds, value)."""

    labels: Mapping[str, str]
    points: tuple[tuple[float, float], ...]


def load(path: Path) -> dict[str, Any]:
    """Read a dashboard's JSON."""
    board: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return board


def targets(board: Mapping[str, Any]) -> Iterator[Target]:
    """Yield every query of a dashboard."""
    uid = board["uid"]
    for each in board["annotations"]["list"]:
        yield Target(
            uid, each["name"], each["target"]["expr"], f"{each['titleFormat']} {each['textFormat']}", instant=False
        )
    for panel in board["panels"]:
        for target in panel.get("targets", ()):
            yield Target(uid, panel["title"], target["expr"], target["legendFormat"], bool(target.get("instant")))


class Prometheus:
    """The few calls that Grafana makes.

    Args:
        url: The address of a Prometheus.
    """

    def __init__(self, url: str) -> None:
        self._url = url
        self._session = requests.Session()
        # Not through a proxy of the environment: it is on this machine.
        self._session.trust_env = False

    def close(self) -> None:
        """Close its connections."""
        self._session.close()

    def instant(self, expr: str, at: float) -> list[Series]:
        """Evaluate at one time."""
        found = self._get("query", query=expr, time=f"{at:.3f}")["result"]
        return [Series(each["metric"], (_point(each["value"]),)) for each in found]

    def range(self, expr: str, start: float, end: float, step_s: float) -> list[Series]:
        """Evaluate at each step."""
        found = self._get("query_range", query=expr, start=f"{start:.3f}", end=f"{end:.3f}", step=f"{step_s:g}")
        return [Series(each["metric"], tuple(map(_point, each["values"]))) for each in found["result"]]

    def newest_sample(self) -> float:
        """Return the Unix time of the newest sample that is stored."""
        return float(self._get("status/tsdb")["headStats"]["maxTime"]) / 1000

    def resolve(self, board: Mapping[str, Any], at: float) -> dict[str, str]:
        """Return the value that Grafana gives each variable of a dashboard that was just opened."""
        values: dict[str, str] = {}
        for variable in board["templating"]["list"]:
            name, kind = variable["name"], variable["type"]
            if kind == "datasource":
                values[name] = "default"
            elif kind == "constant":
                values[name] = variable["query"]
            elif variable.get("includeAll"):
                values[name] = variable["allValue"]
            else:
                options = self._options(replaced(variable["query"], values), at)
                pattern = variable.get("regex", "").strip("/")
                found = [match[1] for text in options if (match := re.search(pattern, text))] if pattern else options
                # Of one value Grafana escapes backslashes and quotes, for it stands in a string of PromQL.
                values[name] = found[0].replace("\\", "\\\\").replace('"', '\\"') if found else ""
        return values

    def _options(self, query: str, at: float) -> list[str]:
        if match := _LABEL_VALUES.fullmatch(query):
            series: list[dict[str, str]] = self._get(
                "series", **{"match[]": match["series"], "start": f"{at - 300:.3f}", "end": f"{at:.3f}"}
            )
            return sorted({each[match["label"]] for each in series if match["label"] in each})
        if match := _QUERY_RESULT.fullmatch(query):
            return [f"{{X}} {each.points[0][1]:g} {at}" for each in self.instant(match["expr"], at)]
        raise ValueError(f"{query!r} is neither label_values nor query_result")

    def _get(self, path: str, **parameters: str) -> Any:  # noqa: ANN401 - as JSON is
        answer = self._session.get(f"{self._url}/api/v1/{path}", params=parameters, timeout=_TIMEOUT_S)
        body = answer.json()
        if body["status"] != "success":
            raise ValueError(f"{parameters}: {body['error']}")
        return body["data"]


def replaced(expr: str, values: Mapping[str, str]) -> str:
    """Put values in place of a query's variables: ``x{a="$b"}`` with b = c becomes ``x{a="c"}``."""
    return _VARIABLE.sub(lambda match: values[match[1] or match[2]], expr)


def _point(pair: tuple[float, str]) -> tuple[float, float]:
    at, value = pair
    return float(at), float(value)
