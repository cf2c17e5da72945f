"""What is around the panels: variables, annotations, and the links from one dashboard to the other."""

from collections.abc import Sequence
from typing import Final

from grafana_foundation_sdk.builders import dashboard as builders
from grafana_foundation_sdk.cog.builder import Builder
from grafana_foundation_sdk.models import dashboard

from grafana.panels import DATASOURCE, ORANGE, RUNBOOKS
from grafana.queries import chosen

SATURATION: Final = "vllm-scaler-saturation"
DECISIONS: Final = "vllm-scaler-decisions"
"""Identifiers of the dashboards: they stand in links, so they stay as they are."""
TITLES: Final = {SATURATION: "vLLM scaler: saturation", DECISIONS: "vLLM scaler: decisions"}
_TAG: Final = "vllm-scaler"


class _Marks(dashboard.AnnotationQuery):
    """An annotation that asks Prometheus, with the texts of its marks: the SDK's own type knows neither."""

    def to_json(self) -> dict[str, object]:
        changes = 'action!="hold",reason!~"(increase|decrease)_pending"'
        expr = chosen("decision_info", by=("action", "reason"), matchers=changes)
        return super().to_json() | {
            "target": {"refId": "Anno", "expr": expr, "interval": "15s"},
            "titleFormat": "{{action}}",
            "textFormat": "{{reason}}",
        }


class _DecisionMarks(Builder[dashboard.AnnotationQuery]):
    """A mark at each decision that changed something; those that only repeat one on its way are left out."""

    def build(self) -> dashboard.AnnotationQuery:
        return _Marks(name="Decisions", datasource=DATASOURCE, icon_color=ORANGE)


def _variable(name: str, label: str, query: str, text: str) -> builders.QueryVariable:
    return (
        builders.QueryVariable(name)
        .label(label)
        .description(text)
        .datasource(DATASOURCE)
        .query(query)
        .refresh(dashboard.VariableRefresh.ON_TIME_RANGE_CHANGED)
        .sort(dashboard.VariableSort.ALPHABETICAL_ASC)
    )


def _hidden(name: str, query: str, text: str) -> builders.QueryVariable:
    return _variable(name, name, query, text).hide(dashboard.VariableHide.HIDE_VARIABLE)


def _variables(uid: str) -> list[Builder[dashboard.VariableModel]]:
    pool_info = 'vllm_scaler_pool_info{namespace="$namespace",scaled_object="$pool"}'
    objective = chosen("signal_scale_up_threshold", matchers='signal="ttft_p95"')
    found: list[Builder[dashboard.VariableModel]] = [
        builders.DatasourceVariable("datasource").label("Prometheus").type("prometheus"),
        _variable(
            "namespace", "Namespace", "label_values(vllm_scaler_pool_info, namespace)", "The namespace of the pool."
        ),
        _variable(
            "pool",
            "Pool",
            'label_values(vllm_scaler_pool_info{namespace="$namespace"}, scaled_object)',
            "The pool, by its ScaledObject.",
        ),
        builders.ConstantVariable("runbooks").label("Runbooks").value(RUNBOOKS),
    ]
    if uid != SATURATION:
        return found
    everywhere = _variable(
        "fleet", "Overview of", "label_values(vllm_scaler_pool_info, namespace)", "Namespaces of the overview."
    )
    # A bound of a histogram is written "1.0" by vLLM, and 1 by Prometheus as a value.
    bound = _hidden("ttft_bound", f"query_result({objective})", "The objective of TTFT, as a bound of the histogram.")
    return [
        found[0],
        everywhere.multi(multi=True)
        .include_all(include_all=True)
        .all_value(".*")
        .current(dashboard.VariableOption(text="All", value="$__all")),
        *found[1:],
        _hidden("models", f"label_values({pool_info}, models)", "A pattern of the pool's model names."),
        _hidden("pods", f"label_values({pool_info}, pods)", "A pattern of the names of the pool's pods."),
        bound.regex("/} ([0-9.]+) /"),
    ]


def dashboard_of(uid: str, text: str, *, span: str) -> builders.Dashboard:
    """Begin a dashboard.

    Args:
        uid: ``SATURATION`` or ``DECISIONS``.
        text: What question it answers.
        span: What it shows at first, such as ``now-6h``.
    """
    (other,) = TITLES.keys() - {uid}
    return (
        builders.Dashboard(TITLES[uid])
        .uid(uid)
        .description(text)
        .tags([_TAG])
        .timezone("browser")
        .time(span, "now")
        .refresh("30s")
        .tooltip(dashboard.DashboardCursorSync.CROSSHAIR)
        .editable()
        .variables(_variables(uid))
        .annotation(_DecisionMarks())
        .links([*_links(other)])
    )


def _links(other: str) -> Sequence[builders.DashboardLink]:
    choice = "var-datasource=${datasource}&var-namespace=${namespace}&var-pool=${pool}"
    return (
        builders.DashboardLink(TITLES[other])
        .type(dashboard.DashboardLinkType.LINK)
        .icon("dashboard")
        .tooltip("The same pool and time there")
        .url(f"/d/{other}?{choice}")
        .keep_time(keep_time=True),
        builders.DashboardLink("Runbooks")
        .type(dashboard.DashboardLinkType.LINK)
        .icon("doc")
        .tooltip("What to do when an alert fires")
        .url("${runbooks}/README.md")
        .target_blank(target_blank=True),
    )
