"""The house style of panels: what all of one kind have in common, so that a dashboard says only what is its own."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol, Self, TypeVar

from grafana_foundation_sdk.builders import common as common_builders
from grafana_foundation_sdk.builders import dashboard as builders
from grafana_foundation_sdk.builders import prometheus, stat, statetimeline, table, timeseries
from grafana_foundation_sdk.cog.builder import Builder
from grafana_foundation_sdk.cog.variants import Dataquery
from grafana_foundation_sdk.models import common, dashboard
from grafana_foundation_sdk.models.prometheus import PromQueryFormat

from grafana.queries import Query

DATASOURCE: Final = dashboard.DataSourceRef(type_val="prometheus", uid="${datasource}")
"""The Prometheus that the person chooses: a JSON with this in it works imported and provisioned alike."""
RUNBOOKS: Final = "docs/runbooks"
"""Where the runbooks lie, in this project; who publishes them elsewhere changes the variable ``runbooks``."""

GREEN: Final = "green"
YELLOW: Final = "yellow"
ORANGE: Final = "orange"
RED: Final = "red"
BLUE: Final = "blue"
PURPLE: Final = "purple"
GREY: Final = "#8e8e8e"

_HEIGHT: Final = 8
_FILL_PERCENT: Final = 8


@dataclass(frozen=True, slots=True)
class Line:
    """How a series of a given name is drawn.

    Args:
        color: Its colour; None for the palette's.
        dashed: For thresholds and limits, which are no measurements.
        fill_below_to: Shade down to the series of this name.
        width: Its width in pixels.
        stepped: For what is a count, in a panel of other readings.
        unit: Its unit, where it is not the panel's.
    """

    color: str | None = None
    dashed: bool = False
    fill_below_to: str | None = None
    width: int = 1
    stepped: bool = False
    unit: str | None = None

    def properties(self) -> list[dashboard.DynamicConfigValue]:
        """Return the overrides that draw it so."""
        found: dict[str, object] = {"custom.lineWidth": self.width}
        if self.color is not None:
            found["color"] = {"mode": "fixed", "fixedColor": self.color}
        if self.unit is not None:
            found["unit"] = self.unit
        if self.stepped:
            found["custom.lineInterpolation"] = common.LineInterpolation.STEP_AFTER
        if self.dashed:
            found["custom.lineStyle"] = {"fill": "dash", "dash": [8, 6]}
        if self.fill_below_to is not None:
            found |= {"custom.fillBelowTo": self.fill_below_to, "custom.fillOpacity": 20}
        return [dashboard.DynamicConfigValue(id_val=name, value=value) for name, value in found.items()]


OBJECTIVE: Final = Line(RED, dashed=True)
LIMIT: Final = Line(GREY, dashed=True)
UP_AT: Final = Line(ORANGE, dashed=True, stepped=True)
DOWN_AT: Final = Line(BLUE, dashed=True, stepped=True)


class _AnyPanel(Protocol):
    """What the builders of all kinds of panels have."""

    def title(self, title: str, /) -> Self: ...
    def description(self, description: str, /) -> Self: ...
    def datasource(self, datasource: dashboard.DataSourceRef, /) -> Self: ...
    def height(self, h: int, /) -> Self: ...
    def span(self, w: int, /) -> Self: ...
    def links(self, links: list[Builder[dashboard.DashboardLink]], /) -> Self: ...
    def with_target(self, target: Builder[Dataquery], /) -> Self: ...
    def thresholds(self, thresholds: Builder[dashboard.ThresholdsConfig], /) -> Self: ...


_Panel = TypeVar("_Panel", bound=_AnyPanel)


@dataclass(frozen=True, slots=True, kw_only=True)
class About:
    """What every panel says of itself.

    Args:
        title: A few words.
        text: What it shows, and what to do when it looks bad.
        runbook: The alert whose runbook goes on from here.
        span: Its width, of 24.
        height: Its height in rows of the grid.
    """

    title: str
    text: str
    runbook: str | None = None
    span: int = 12
    height: int = _HEIGHT


def _begin(panel: _Panel, about: About, steps: Sequence[tuple[float, str]]) -> _Panel:
    panel.title(about.title).description(about.text).datasource(DATASOURCE).span(about.span).height(about.height)
    levels = [dashboard.Threshold(None, GREEN), *(dashboard.Threshold(at, color) for at, color in steps)]
    panel.thresholds(builders.ThresholdsConfig().mode(dashboard.ThresholdsMode.ABSOLUTE).steps(levels))
    if about.runbook is not None:
        panel.links([runbook_link(about.runbook)])
    return panel


def runbook_link(alert: str) -> builders.DashboardLink:
    """Link to an alert's runbook."""
    return (
        builders.DashboardLink(f"Runbook: {alert}")
        .type(dashboard.DashboardLinkType.LINK)
        .url(f"${{runbooks}}/{alert}.md")
        .target_blank(target_blank=True)
    )


def _targets(queries: Sequence[Query]) -> list[prometheus.Dataquery]:
    return [
        prometheus.Dataquery().expr(query.expr).legend_format(query.legend or "__auto").ref_id(chr(ord("A") + number))
        for number, query in enumerate(queries)
    ]


def lines(
    about: About,
    *queries: Query,
    unit: str,
    style: Mapping[str, Line] | None = None,
    steps: Sequence[tuple[float, str]] = (),
    highest: float | None = None,
    whole: bool = False,
) -> timeseries.Panel:
    """Draw readings over time.

    Args:
        about: What it says of itself.
        queries: What is drawn.
        unit: Grafana's name of the unit.
        style: How series are drawn, by name.
        steps: Values from which on it looks bad, ascending, drawn as lines.
        highest: The end of the axis.
        whole: Counts, drawn as steps and without decimals.
    """
    panel = (
        _begin(timeseries.Panel(), about, steps)
        .unit(unit)
        .min(0)
        .line_width(1)
        # Of several lines each other's shade would hide them.
        .fill_opacity(_FILL_PERCENT if len(queries) == 1 else 0)
        .color_scheme(builders.FieldColor().mode(dashboard.FieldColorModeId.PALETTE_CLASSIC))
        .show_points(common.VisibilityMode.NEVER)
        .legend(
            common_builders.VizLegendOptions()
            .display_mode(common.LegendDisplayMode.LIST)
            .placement(common.LegendPlacement.BOTTOM)
            .show_legend(show_legend=True)
        )
        .tooltip(
            common_builders.VizTooltipOptions().mode(common.TooltipDisplayMode.MULTI).sort(common.SortOrder.DESCENDING)
        )
    )
    for target in _targets(queries):
        panel.with_target(target.range())
    if steps:
        panel.thresholds_style(
            common_builders.GraphThresholdsStyleConfig().mode(common.GraphThresholdsStyleMode.DASHED)
        )
    if highest is not None:
        panel.max(highest)
    if whole:
        panel.line_interpolation(common.LineInterpolation.STEP_AFTER).decimals(0)
    for name, line in (style or {}).items():
        panel.override_by_name(name, line.properties())
    return panel


def number(
    about: About, query: Query, *, unit: str, steps: Sequence[tuple[float, str]] = (), empty: str = "none"
) -> stat.Panel:
    """Show one number large, its background coloured by ``steps``; ``empty`` stands there when there is none."""
    (target,) = _targets([query])
    return (
        _begin(stat.Panel(), about, steps)
        .unit(unit)
        .no_value(empty)
        .color_mode(common.BigValueColorMode.BACKGROUND if steps else common.BigValueColorMode.VALUE)
        .graph_mode(common.BigValueGraphMode.NONE)
        .with_target(target.instant())
    )


def states(
    about: About, *queries: Query, names: Mapping[str, tuple[str, str]], legend: bool = False
) -> statetimeline.Panel:
    """Draw what held when, a row for each series.

    Args:
        about: What it says of itself.
        queries: What is drawn.
        names: The text and colour of each value.
        legend: Whether the colours are explained below.
    """
    options = {
        value: dashboard.ValueMappingResult(text=text, color=color, index=index)
        for index, (value, (text, color)) in enumerate(names.items())
    }
    panel = (
        _begin(statetimeline.Panel(), about, ())
        .mappings([dashboard.ValueMap(options)])
        .merge_values(merge_values=True)
        .show_value(common.VisibilityMode.AUTO)
        .row_height(0.8)
        .fill_opacity(80)
        .line_width(0)
        .legend(common_builders.VizLegendOptions().show_legend(show_legend=legend))
    )
    for target in _targets(queries):
        panel.with_target(target.range())
    return panel


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table of pools.

    Args:
        title: Its header.
        expr: One value for each pool.
        unit: Grafana's name of the unit.
        steps: Values from which on a cell is coloured, ascending.
    """

    title: str
    expr: str
    unit: str = "short"
    steps: Sequence[tuple[float, str]] = ()


def pools(about: About, columns: Sequence[Column], *, link: str, sorted_by: str) -> table.Panel:
    """Show pools, a row each, whose names lead to one of them.

    Args:
        about: What it says of itself.
        columns: The readings.
        link: Where a pool's name leads; ``${__data.fields.namespace}`` stands for a cell of its row.
        sorted_by: The column to sort by, greatest first.
    """
    panel = _begin(table.Panel(), about, ()).cell_height(common.TableCellHeight.SM)
    for target in _targets([Query(column.expr) for column in columns]):
        panel.with_target(target.instant().format(PromQueryFormat.TABLE))
    names = {f"Value #{chr(ord('A') + number)}": column.title for number, column in enumerate(columns)}
    names |= {"namespace": "Namespace", "scaled_object": "Pool"}
    order = ["namespace", "scaled_object", *(name for name in names if name.startswith("Value"))]
    panel.with_transformation(dashboard.DataTransformerConfig("merge", options={}))
    panel.with_transformation(
        dashboard.DataTransformerConfig(
            "organize",
            options={
                "excludeByName": {"Time": True},
                "indexByName": {name: index for index, name in enumerate(order)},
                "renameByName": names,
            },
        )
    )
    for column in columns:
        panel.override_by_name(column.title, _cells(column))
    panel.override_by_name(
        "Pool",
        [dashboard.DynamicConfigValue("links", [{"title": "Show this pool", "url": link, "targetBlank": False}])],
    )
    return panel.sort_by([common_builders.TableSortByFieldState().display_name(sorted_by).desc(desc=True)])


def _cells(column: Column) -> list[dashboard.DynamicConfigValue]:
    found = [dashboard.DynamicConfigValue("unit", column.unit)]
    if column.steps:
        levels = [{"value": None, "color": "transparent"}, *({"value": at, "color": c} for at, c in column.steps)]
        found += [
            dashboard.DynamicConfigValue("thresholds", {"mode": "absolute", "steps": levels}),
            dashboard.DynamicConfigValue("custom.cellOptions", {"type": "color-background", "mode": "basic"}),
        ]
    return found
