"""A fit as one HTML page: attainment, latencies and requests in flight against the rate, and who misses the SLO."""

import math
from collections.abc import Callable, Iterable, Iterator
from html import escape
from typing import TYPE_CHECKING

from scaler.capacity import summary
from scaler.capacity.measure import Latency, Measured
from scaler.capacity.recommend import Advice
from scaler.capacity.slo import percent
from scaler.capacity.sweep import Level, Sweep
from scaler.report import page

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_RUN = "#8a94a6"
_WORST = "#1f5fbf"
_BOUND = "#c0392b"
_PASSED = "#2e8b57"


def html(sweep: Sweep, advice: Advice | None, trigger: str) -> str:
    """Return the page.

    Raises:
        ReportError: matplotlib is not installed.
    """
    return page.page("Capacity of one replica", _sections(sweep, advice, trigger))


def _sections(sweep: Sweep, advice: Advice | None, trigger: str) -> Iterator[tuple[str, str]]:
    said = [f"The SLO: {sweep.slo}.", *summary.conclusion(sweep), *summary.one_token_notes(sweep)]
    yield "What one replica carries", "".join(map(page.paragraph, said))
    if advice is not None:
        lines = "".join(map(page.paragraph, summary.advised(sweep, advice)))
        yield "Settings", f"{lines}<pre>{escape(trigger)}</pre>"
    weaknesses = [finding for finding in sweep.findings if not finding.blocks]
    if weaknesses:
        found = "".join(page.paragraph(summary.finding_text(finding)) for finding in weaknesses)
        yield "What weakens the results", found
    if sweep.levels:
        yield "Rates", page.table(summary.RATE_HEADERS, [summary.rate_row(level) for level in sweep.levels])
        yield "Attainment", _attainment(sweep)
        yield "Latencies", _latencies(sweep)
        yield "Requests in flight", _in_flight(sweep)
    if sweep.set_aside:
        rows = [summary.aside_row(run) for run in sweep.set_aside]
        yield "Runs without a rate of their own", page.table(summary.ASIDE_HEADERS, rows)
    shown = _shown_by_length(sweep)
    if shown is not None:
        yield f"By length, at {shown.rate:g} req/s", _by_length(shown)
    for run in (run for level in sweep.levels for run in level.runs):
        yield run.result.source, page.table(summary.LATENCY_HEADERS, summary.latency_rows(run))


def _axes(title: str, width: float = 10.0, height: float = 4.0) -> tuple["Axes", Callable[[], str]]:
    figure = page.figure(width, height)
    axes = figure.add_subplot()
    axes.set_title(title)
    axes.set_xlabel("requests per second, asked for")
    axes.grid(visible=True, alpha=0.3)
    return axes, lambda: page.svg(figure)


def _attainment(sweep: Sweep) -> str:
    axes, drawn = _axes("Share within the SLO: each run, and the floor")
    for level in sweep.levels:
        shares = [100 * share for run in level.runs for share in run.attainment]
        axes.plot([level.rate] * len(shares), shares, "o", color=_RUN, markersize=4)
    rates = [level.rate for level in sweep.levels]
    axes.plot(rates, [100 * level.floor for level in sweep.levels], "o-", color=_WORST, label="floor")
    wanted = sweep.slo.attainment
    axes.axhline(100 * wanted, color=_BOUND, linestyle="--", label=f"{percent(wanted)} wanted")
    passed, failed = sweep.passed, sweep.failed
    if passed is not None and failed is not None:
        label = f"bracket {passed.rate:g} to {failed.rate:g}"
        axes.axvspan(passed.rate, failed.rate, color=_PASSED, alpha=0.15, label=label)
    axes.set_ylabel("per cent")
    axes.legend()
    return drawn()


def _latencies(sweep: Sweep) -> str:
    return _latency(sweep, "TTFT", lambda run: run.ttft, sweep.slo.ttft_s) + _latency(
        sweep, "TPOT", lambda run: run.tpot, sweep.slo.tpot_s
    )


def _latency(sweep: Sweep, name: str, of: Callable[[Measured], Latency], bound_s: float | None) -> str:
    axes, drawn = _axes(f"{name}: the worst run of each rate")
    for label, color, percentile in (
        ("P50", _RUN, "p50"),
        ("P95", _WORST, "p95"),
        ("P99", _BOUND, "p99"),
    ):
        points = [
            (level.rate, max(known))
            for level in sweep.levels
            if (known := [value for run in level.runs if (value := getattr(of(run), percentile)) is not None])
        ]
        axes.plot([rate for rate, _ in points], [value for _, value in points], "o-", color=color, label=label)
    if bound_s is not None:
        axes.axhline(bound_s, color=_PASSED, linestyle="--", label=f"bound {bound_s:g} s")
    axes.set_ylabel("seconds")
    axes.legend()
    return drawn()


def _in_flight(sweep: Sweep) -> str:
    axes, drawn = _axes("Requests in flight: counted, and rate x mean time in the system (Little)")
    counted = [(level.rate, run.load.mean) for level in sweep.levels for run in level.runs if run.load is not None]
    axes.plot([rate for rate, _ in counted], [mean for _, mean in counted], "o", color=_RUN, label="counted")
    little = [(level.rate, value) for level in sweep.levels if (value := level.in_flight) is not None]
    axes.plot([rate for rate, _ in little], [value for _, value in little], "-", color=_WORST, label="Little's law")
    if sweep.capacity is not None and (at := sweep.capacity.level.in_flight) is not None:
        axes.plot([sweep.capacity.level.rate], [at], "s", color=_PASSED, label="at the capacity")
    axes.set_ylabel("requests")
    axes.legend()
    return drawn()


def _shown_by_length(sweep: Sweep) -> Level | None:
    """Return the rate whose lengths tell the most: the first that failed, else the largest; None without details."""
    level = sweep.failed or (sweep.levels[-1] if sweep.levels else None)
    return level if level is not None and any(run.buckets for run in level.runs) else None


def _by_length(level: Level) -> str:
    """Draw attainment by lengths, of the worst run, with each bucket's share of the attention work."""
    worst = min((run for run in level.runs if run.buckets), key=lambda run: run.attainment)
    prompts = _ascending(bucket.prompt_bound for bucket in worst.buckets)
    outputs = _ascending(bucket.output_bound for bucket in worst.buckets)
    axes, drawn = _axes(f"Within the SLO by length, worst run ({worst.result.source})", 10.0, 1.5 + 0.7 * len(prompts))
    grid = [[math.nan] * len(outputs) for _ in prompts]
    for bucket in worst.buckets:
        row, column = prompts.index(bucket.prompt_bound), outputs.index(bucket.output_bound)
        grid[row][column] = 100 * bucket.attainment
        label = f"{percent(bucket.attainment)} of {bucket.requests}\n{percent(bucket.work_share)} of attention"
        axes.text(column, row, label, ha="center", va="center", fontsize=8)
    axes.imshow(grid, cmap="RdYlGn", vmin=0, vmax=100, aspect="auto", alpha=0.6)
    axes.set_xticks(range(len(outputs)), [summary.length_name(bound) for bound in outputs])
    axes.set_yticks(range(len(prompts)), [summary.length_name(bound) for bound in prompts])
    axes.set_xlabel("tokens of the answer")
    axes.set_ylabel("tokens of the prompt")
    axes.grid(visible=False)
    return drawn() + page.table(summary.BUCKET_HEADERS, summary.bucket_rows(worst))


def _ascending(bounds: Iterable[int | None]) -> list[int | None]:
    """Return bounds in order, each once; that without a bound is last."""
    return sorted(set(bounds), key=lambda bound: math.inf if bound is None else bound)
