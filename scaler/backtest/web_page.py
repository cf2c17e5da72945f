"""A backtest as one HTML page: totals, timelines, and tables of differences."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from scaler.backtest.replay import Backtest, Recorded, Trial
from scaler.backtest.tables import Table, clock, every_table
from scaler.backtest.track import Track
from scaler.report import page

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_DAY_S: Final = 86400.0
_RECORDED = "#6b7280"
_OURS = "#2563eb"
_LOAD = "#059669"
_QUEUE = "#dc2626"
_NEEDS = "#f59e0b"


def web_page(backtest: Backtest, assumptions: Sequence[str]) -> str:
    """Return the page.

    Raises:
        ReportError: matplotlib is not installed.
    """
    until = max(backtest.since + recorded.ticks * recorded.tick_s for recorded in backtest.recorded.values())
    title = f"Backtest {clock(backtest.since)} to {clock(until)} UTC"
    sections = [("What this rests on", "\n".join(map(page.paragraph, assumptions)))]
    warnings = [f"{case.name}: {warning}" for case in backtest.cases for warning in case.warnings]
    if warnings:
        sections.append(("Warnings about the settings", "\n".join(map(page.paragraph, warnings))))
    totals, *others = every_table(backtest)
    sections.append((totals.title, _table(totals)))
    for case, trial in zip(backtest.cases, backtest.trials, strict=True):
        sections.append((f"{trial.name}: timeline", _timeline(trial, backtest.recorded[case.pool])))
    sections += [(table.title, _table(table)) for table in others]
    return page.page(title, sections)


def _table(table: Table) -> str:
    note = f"\n{page.paragraph(table.note)}" if table.note else ""
    return page.table(table.headers, table.rows) + note


def _timeline(trial: Trial, recorded: Recorded) -> str:
    """Draw replicas with needs, load, and queue, one above the other, over the same time."""
    drawn = page.figure(11.0, 7.5)
    replicas, load, queue = drawn.subplots(3, 1, sharex=True, height_ratios=(3, 2, 1))
    at = _Times(recorded.since, recorded.tick_s)
    at.band(replicas, trial.up_need, trial.down_need, "up-need to down-need")
    at.line(replicas, recorded.counts.replicas, "recorded", _RECORDED)
    at.line(replicas, trial.counts.replicas, "ours", _OURS)
    replicas.set_ylabel("replicas")
    at.line(load, recorded.in_flight, "in flight", _LOAD)
    slots = trial.policy.slots_per_replica if trial.replica is None else trial.replica.slots
    at.line(load, recorded.counts.serving, "slots of recorded replicas", _RECORDED, factor=slots)
    if trial.own is not None:
        at.line(load, trial.counts.serving, "slots of ours", _OURS, factor=slots)
    load.set_ylabel("requests")
    at.line(queue, recorded.counts.waiting, "waiting, recorded", _QUEUE)
    if trial.own is not None:
        at.line(queue, trial.counts.waiting, "waiting, ours (model)", _OURS)
    queue.set_ylabel("requests")
    for axes in (replicas, load, queue):
        axes.set_ylim(bottom=0)
        axes.grid(alpha=0.3)
        axes.legend(loc="lower right", bbox_to_anchor=(1, 1), ncols=3, fontsize="small", frameon=False)
    queue.xaxis_date()
    queue.set_xlabel("UTC")
    return page.svg(drawn)


class _Times:
    """Draws tracks over time.

    Args:
        since: The first tick, Unix seconds.
        tick_s: Seconds between two ticks.
    """

    def __init__(self, since: float, tick_s: float) -> None:
        self._since = since
        self._tick_s = tick_s

    def line(self, axes: "Axes", track: Track, label: str, colour: str, *, factor: float = 1.0) -> None:
        """Draw a track: a line where a span has one value, and else all between its lowest and highest."""
        at, lows, highs = self._steps(track, track)
        lows, highs = ([value * factor for value in values] for values in (lows, highs))
        if track.ticks_per_span > 1:
            axes.fill_between(at, lows, highs, step="post", color=colour, alpha=0.35, linewidth=0)
        axes.step(at, highs, where="post", color=colour, linewidth=1.2, label=label)

    def band(self, axes: "Axes", lower: Track, upper: Track, label: str) -> None:
        """Fill what lies between two tracks."""
        at, lows, highs = self._steps(lower, upper)
        axes.fill_between(at, lows, highs, step="post", color=_NEEDS, alpha=0.2, linewidth=0, label=label)

    def _steps(self, lower: Track, upper: Track) -> tuple[list[float], list[float], list[float]]:
        """Return where something changes, and the values from there on; a page of all spans would be megabytes.

        Times are in days since 1970, as matplotlib's axes of dates have them.
        """
        span_s = lower.ticks_per_span * self._tick_s
        pairs = list(zip(lower.lows, upper.highs, strict=True))
        last = len(pairs) - 1
        shown = [n for n in range(len(pairs)) if n in (0, last) or str(pairs[n]) != str(pairs[n - 1])]
        times = [(self._since + number * span_s) / _DAY_S for number in shown]
        return times, [pairs[number][0] for number in shown], [pairs[number][1] for number in shown]
