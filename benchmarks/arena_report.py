"""The arena's results as Markdown and as a page with plots, and what they say of our law."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import mean
from typing import TYPE_CHECKING, Final

from benchmarks.arena_results import Point, Result
from scaler.report.page import figure, page, paragraph, svg, table
from scaler.sim.arena import BOUNDS, ORACLE, OURS
from scaler.sim.scoring import Standing, front, standing

if TYPE_CHECKING:
    from matplotlib.axes import Axes

COLUMNS: Final = (
    "law",
    "in SLO",
    "replica-hours",
    "of the oracle's",
    "changes",
    "reversals",
    "first change",
    "worst queue",
)
SUMMARY_COLUMNS: Final = (
    "workload",
    "ours: in SLO",
    "replica-hours",
    "reversals",
    "cheapest rival that attains as much",
    "its hours",
    "oracle's hours",
    "attain more for less",
)
LAW_COLUMNS: Final = (
    "law",
    "mean in SLO",
    "least in SLO",
    "hours as a multiple of the oracle's",
    "most reversals in an hour of constant load",
    "on the front",
)
BEGIN: Final = "<!-- make arena ARENA_ARGS=--docs writes from here -->"
END: Final = "<!-- to here -->"
_CONSTANT: Final = "constant"
_MINUTE_S: Final = 60.0
_SHOWN_BESIDES_OURS: Final = 2
_NEED_STEP_S: Final = 15


@dataclass(frozen=True, slots=True)
class Verdict:
    """One thing that should hold of our law."""

    text: str
    holds: bool


def standings(results: Iterable[Result]) -> dict[str, list[Standing]]:
    """Return the standings of each workload, the laws in the order of their results' first appearance."""
    grouped: dict[str, dict[str, list[Result]]] = {}
    for result in results:
        grouped.setdefault(result.workload, {}).setdefault(result.law, []).append(result)
    return {
        workload: [standing(law, [each.score for each in laws[law]]) for law in sorted(laws, key=_order)]
        for workload, laws in grouped.items()
    }


def _order(law: str) -> tuple[bool, bool, str]:
    return law != OURS, law in BOUNDS, law


def _ours(found: Sequence[Standing]) -> Standing | None:
    return next((each for each in found if each.law == OURS), None)


def _rivals(found: Sequence[Standing]) -> list[Standing]:
    return [each for each in found if each.law != OURS and each.law not in BOUNDS]


def better_rivals(found: Sequence[Standing]) -> list[Standing]:
    """Return the rivals that attained more for fewer replica-hours than ours."""
    ours = _ours(found)
    return [] if ours is None else [each for each in _rivals(found) if each.beats(ours)]


def verdicts(results: Sequence[Result]) -> list[Verdict]:
    """Return what should hold of our law, workload by workload."""
    found = []
    for workload, each in standings(results).items():
        ours = _ours(each)
        if ours is None:
            continue
        better = better_rivals(each)
        said = ", ".join(one.law for one in better) + (" does" if len(better) == 1 else " do")
        found.append(
            Verdict(f"{workload}: no rival attains more for less" + f", but {said}" * bool(better), not better)
        )
        if workload.startswith(_CONSTANT):
            count = ours.reversals
            found.append(Verdict(f"{workload}: no reversals" + f", but {count}" * bool(count), count == 0))
    return found


def summary(found: Mapping[str, Sequence[Standing]]) -> list[tuple[str, ...]]:
    """Return one row a workload: ours, the cheapest rival that attains as much, and the oracle."""
    lines: list[tuple[str, ...]] = []
    for workload, each in found.items():
        ours, oracle = _ours(each), next((one for one in each if one.law == ORACLE), None)
        if ours is None:
            continue
        equal = [one for one in _rivals(each) if one.attainment >= ours.attainment]
        rival = min(equal, key=lambda one: one.replica_hours, default=None)
        lines.append(
            (
                workload,
                f"{100 * ours.attainment:.1f} %",
                f"{ours.replica_hours:.1f}",
                str(ours.reversals),
                "none" if rival is None else rival.law,
                "" if rival is None else f"{rival.replica_hours:.1f}",
                "" if oracle is None else f"{oracle.replica_hours:.1f}",
                ", ".join(one.law for one in better_rivals(each)) or "none",
            )
        )
    return lines


def by_law(found: Mapping[str, Sequence[Standing]]) -> list[tuple[str, ...]]:
    """Return one row a law over all workloads."""
    fronts = {
        workload: {one.law for one in front(one for one in each if one.law not in BOUNDS)}
        for workload, each in found.items()
    }
    lines: list[tuple[str, ...]] = []
    for law in dict.fromkeys(one.law for each in found.values() for one in each):
        mine = {workload: one for workload, each in found.items() for one in each if one.law == law}
        oracles = {workload: one for workload, each in found.items() for one in each if one.law == ORACLE}
        multiples = [
            one.replica_hours / oracles[workload].replica_hours for workload, one in mine.items() if workload in oracles
        ]
        swings = [one.reversals for workload, one in mine.items() if workload.startswith(_CONSTANT)]
        attained = [one.attainment for one in mine.values()]
        lines.append(
            (
                law,
                f"{100 * mean(attained):.1f} %",
                f"{100 * min(attained):.1f} %",
                f"{mean(multiples):.2f}" if multiples else "",
                str(max(swings)) if swings else "",
                "" if law in BOUNDS else f"{sum(law in fronts[workload] for workload in mine)} of {len(mine)}",
            )
        )
    return lines


def rows(found: Sequence[Standing]) -> list[tuple[str, ...]]:
    """Return one row a law; a star is on the front of those that no other law is better than."""
    oracle = next((one.replica_hours for one in found if one.law == ORACLE), None)
    best = {one.law for one in front(one for one in found if one.law not in BOUNDS)}
    return [
        (
            f"{one.law} *" if one.law in best else one.law,
            f"{100 * one.attainment:.1f} %",
            f"{one.replica_hours:.2f}",
            "" if not oracle else f"{one.replica_hours / oracle:.2f}",
            f"{one.changes:.1f}",
            str(one.reversals),
            "" if one.first_change_s is None else f"{one.first_change_s:.0f} s",
            str(one.worst_queue),
        )
        for one in found
    ]


def markdown_table(headers: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    """Return a Markdown table."""
    texts = [headers, ["---"] * len(headers), *lines]
    return "\n".join(f"| {' | '.join(line)} |" for line in texts)


def markdown(results: Sequence[Result], left_out: Sequence[str]) -> str:
    """Return everything as Markdown."""
    found = standings(results)
    parts = ["# Arena", markdown_table(SUMMARY_COLUMNS, summary(found)), markdown_table(LAW_COLUMNS, by_law(found))]
    for workload, each in found.items():
        parts += [f"## {workload}", markdown_table(COLUMNS, rows(each))]
    parts.append("## Verdicts\n\n" + "\n".join(_verdict_lines(results)))
    if left_out:
        parts.append("## Left out\n\n" + "\n".join(f"- {name}" for name in left_out))
    return "\n\n".join(parts) + "\n"


def with_section(text: str, results: Sequence[Result]) -> str:
    """Return a page with what is between ``BEGIN`` and ``END`` written anew.

    Raises:
        ValueError: The page does not have both marks, in this order and once each.
    """
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end or BEGIN in after or END in after:
        raise ValueError(f"the page needs {BEGIN} and, after it, {END}, once each")
    found = standings(results)
    tables = (markdown_table(SUMMARY_COLUMNS, summary(found)), markdown_table(LAW_COLUMNS, by_law(found)))
    return "".join((before, BEGIN, "\n\n", "\n\n".join(tables), "\n\n", END, after))


def _verdict_lines(results: Sequence[Result]) -> list[str]:
    return [f"- {'holds' if each.holds else 'DOES NOT HOLD'}: {each.text}" for each in verdicts(results)]


def html_page(
    results: Sequence[Result], left_out: Sequence[str], needs: Mapping[str, Sequence[float]] | None = None
) -> str:
    """Return everything as one HTML page with plots.

    Args:
        results: All runs.
        left_out: Workloads that could not be had, and why.
        needs: Of each workload, the replicas that the traffic of seed 1 needs in each second.
    """
    found = standings(results)
    sections = [("Summary", table(SUMMARY_COLUMNS, summary(found)) + table(LAW_COLUMNS, by_law(found)))]
    for workload, each in found.items():
        runs = {one.law: one for one in results if one.workload == workload and one.seed == 1}
        content = (
            table(COLUMNS, rows(each)) + _front_plot(each) + _timeline(runs, each, (needs or {}).get(workload, ()))
        )
        sections.append((workload, content))
    sections.append(("Verdicts", "".join(paragraph(line) for line in _verdict_lines(results))))
    if left_out:
        sections.append(("Left out", "".join(paragraph(name) for name in left_out)))
    return page("Arena of scaling laws", sections)


def _front_plot(found: Sequence[Standing]) -> str:
    """Plot what was attained against what it cost."""
    drawn = figure(height=4.5)
    axes = drawn.add_subplot()
    best = front(one for one in found if one.law not in BOUNDS)
    axes.step([one.replica_hours for one in best], [one.attainment for one in best], where="post", color="#bbbbbb")
    for one in found:
        colour = "#c0392b" if one.law == OURS else "#7f8c8d" if one.law in BOUNDS else "#2c5f8a"
        axes.plot(one.replica_hours, one.attainment, "o", color=colour)
        axes.annotate(one.law, (one.replica_hours, one.attainment), (4, 3), textcoords="offset points", fontsize=8)
    axes.set_xlabel("replica-hours")
    axes.set_ylabel("share within the SLO, worst seed")
    axes.grid(alpha=0.3)
    return svg(drawn)


def _timeline(runs: Mapping[str, Result], found: Sequence[Standing], needs: Sequence[float]) -> str:
    """Plot load, needs, replicas and queue over time of ours, the oracle and the two best rivals, seed 1."""
    ranked = sorted(_rivals(found), key=lambda one: (-one.attainment, one.replica_hours))
    names = [OURS, ORACLE, *(one.law for one in ranked[:_SHOWN_BESIDES_OURS])]
    shown = [runs[name] for name in names if name in runs]
    if not shown:
        return ""
    drawn = figure(height=7.0)
    load, replicas, queue = drawn.subplots(3, 1, sharex=True)
    first = shown[0].timeline
    load.plot(_minutes(first), [point.rate for point in first], color="#555555", linewidth=0.8)
    load.set_ylabel("requests/s")
    for result in shown:
        _draw(replicas, queue, result)
    if needs:
        smooth = [mean(needs[at : at + _NEED_STEP_S]) for at in range(0, len(needs), _NEED_STEP_S)]
        times = [_NEED_STEP_S * index / _MINUTE_S for index in range(len(smooth))]
        replicas.plot(times, smooth, color="#999999", linewidth=0.7, label="needed", zorder=1)
    replicas.set_ylabel("requested replicas")
    replicas.legend(fontsize=8)
    queue.set_ylabel("waiting requests")
    queue.set_xlabel("minutes")
    for axes in (load, replicas, queue):
        axes.grid(alpha=0.3)
    return svg(drawn)


def _draw(replicas: "Axes", queue: "Axes", result: Result) -> None:
    is_ours = result.law == OURS
    width = 1.8 if is_ours else 0.9
    times = _minutes(result.timeline)
    (line,) = replicas.plot(
        times, [point.requested for point in result.timeline], drawstyle="steps-post", label=result.law, linewidth=width
    )
    queue.plot(times, [point.waiting for point in result.timeline], color=line.get_color(), linewidth=width)
    if is_ours:
        wanted = [float("nan") if point.wanted is None else point.wanted for point in result.timeline]
        replicas.plot(
            times, wanted, ":", drawstyle="steps-post", color=line.get_color(), label=f"{OURS}: target", linewidth=1.0
        )


def _minutes(timeline: Sequence[Point]) -> list[float]:
    return [point.at / _MINUTE_S for point in timeline]
