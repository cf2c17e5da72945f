"""A simulated run as a page: load, replicas, queue and needs over time, and every change with its reason."""

import math
from collections.abc import Iterable, Sequence

from scaler.report.page import figure, page, paragraph, svg, table
from scaler.sim.closed_loop import Change, Moment, Run
from scaler.units import format_duration

_MINUTE_S = 60.0
_PANELS = 4


def reason(run: Run, change: Change) -> str:
    """Return why the newest decision before a change was what it was; empty when the law gave no reasons."""
    before = [moment.decision for moment in run.moments if moment.at <= change.at]
    decision = before[-1] if before else None
    return decision.reasons[0].text if decision is not None and decision.reasons else ""


def run_page(title: str, facts: Sequence[tuple[str, str]], run: Run) -> str:
    """Return the whole page as HTML.

    Args:
        title: What was simulated.
        facts: What came of it, as names and values.
        run: The run.

    Raises:
        ReportError: matplotlib is not installed.
    """
    changes = [
        (format_duration(round(change.at)), f"{change.before} to {change.after}", reason(run, change))
        for change in run.changes
    ]
    return page(
        title,
        [
            ("What came of it", table(("", ""), facts)),
            ("Over time", svg_of(run)),
            ("Changes", table(("at", "replicas", "why"), changes) if changes else paragraph("There were none.")),
        ],
    )


def svg_of(run: Run) -> str:
    """Draw the timeline."""
    drawn = figure(height=2.2 * _PANELS)
    load, replicas, requests, needs = drawn.subplots(_PANELS, sharex=True)
    moments = run.moments
    minutes = [moment.at / _MINUTE_S for moment in moments]
    load.plot(minutes, [moment.rate for moment in moments], label="requests a second", color="#555")
    replicas.step(minutes, [moment.requested for moment in moments], where="post", label="requested")
    replicas.step(minutes, [moment.serving for moment in moments], where="post", label="serving", linestyle="--")
    requests.plot(minutes, [moment.running for moment in moments], label="running")
    requests.plot(minutes, [moment.waiting for moment in moments], label="waiting", color="#c33")
    needs.step(minutes, list(_need(moments, "up_need")), where="post", label="at least (up)")
    needs.step(minutes, list(_need(moments, "down_need")), where="post", label="at most (down)")
    for panel, name in ((load, "load"), (replicas, "replicas"), (requests, "requests"), (needs, "replicas needed")):
        panel.set_ylabel(name)
        panel.set_ylim(bottom=0)
        panel.legend(loc="upper left", frameon=False, ncols=2)
        panel.grid(alpha=0.3)
    needs.set_xlabel("minutes")
    return svg(drawn)


def _need(moments: Iterable[Moment], name: str) -> Iterable[float]:
    """Yield a need of each moment; nothing is drawn where there is none."""
    for moment in moments:
        value = getattr(moment.decision, name, None)
        yield math.nan if value is None else float(value)
