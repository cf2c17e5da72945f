"""What came of a backtest, as texts in rows and columns, for the terminal and for the page alike."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from scaler.backtest.differences import Durations, Period
from scaler.backtest.replay import Backtest, Recorded, Trial
from scaler.units import format_duration, format_number

_HOUR_S: Final = 3600.0
_NONE: Final = "-"


@dataclass(frozen=True, slots=True)
class Table:
    """Plain texts; the first column is what the others are about.

    Args:
        title: What it shows.
        headers: One for each column.
        rows: As many texts as there are headers.
        note: What is left out, or how to read it; "" for nothing.
        sentences: How many of the last columns hold sentences, which want a line of their own where there is no room.
    """

    title: str
    headers: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    note: str = ""
    sentences: int = 0


def clock(at: float) -> str:
    """Write an instant in UTC: 1700000010.0 -> "2023-11-14 22:13:30"."""
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M:%S")


def hours(replica_s: float) -> str:
    """Write replica-hours: 5400 -> "1.50"."""
    return f"{replica_s / _HOUR_S:.2f}"


def totals(backtest: Backtest) -> Table:
    """Return what each policy comes to beside what was recorded."""
    pools = backtest.pools
    names = ["recorded" if len(pools) == 1 else f"recorded {pool.namespace}/{pool}" for pool in pools]
    rows: list[tuple[str, ...]] = []

    def row(label: str, recorded: Callable[[Recorded], str], ours: Callable[[Trial], str]) -> None:
        texts = [*map(recorded, pools.values()), *map(ours, backtest.trials)]
        if any(text != _NONE for text in texts):
            rows.append((label, *texts))

    row("replica-hours", lambda one: hours(one.counts.replica_s), lambda one: hours(one.counts.replica_s))
    row("against recorded", lambda _: _NONE, _against)
    row("cost", lambda _: _NONE, _cost)
    row("time with a queue", lambda one: span(one.counts.queue_s), _queued)
    row("requests waiting, mean", lambda one: format_number(one.counts.mean_waiting), _mean_waiting)
    row("increases", lambda one: str(one.counts.changes.up), lambda one: str(one.counts.changes.up))
    row("decreases", lambda one: str(one.counts.changes.down), lambda one: str(one.counts.changes.down))
    row("reversals", lambda one: str(one.counts.changes.reversals), lambda one: str(one.counts.changes.reversals))
    row("more replicas than recorded", lambda _: _NONE, lambda one: span(one.differences.more_s))
    row("fewer replicas than recorded", lambda _: _NONE, lambda one: span(one.differences.fewer_s))
    row("in protection", lambda _: _NONE, lambda one: span(sum(one.protection_s.values())))
    row("of it with a long queue", lambda _: _NONE, lambda one: span(one.protection_s.get("2", 0.0)))
    row("replicas not known", lambda one: span(one.unknown_s), lambda one: span(one.unanswered_s))
    row("latencies without a vote", lambda _: _NONE, lambda one: span(one.unjudged_s) if one.own else _NONE)
    return Table("Totals", ("", *names, *(trial.name for trial in backtest.trials)), tuple(rows))


def durations(backtest: Backtest, title: str, of: Callable[[Trial], Mapping[str, float]]) -> Table:
    """Return for how long each of some codes held, a row for each and a column for each policy."""
    total = Durations()
    for trial in backtest.trials:
        for name, seconds in of(trial).items():
            total.add((name,), seconds)
    rows = ((name, *(span(of(trial).get(name, 0.0)) for trial in backtest.trials)) for name, _ in total.longest_first())
    return Table(title, ("", *(trial.name for trial in backtest.trials)), tuple(rows))


def differences(trial: Trial, most: int | None = None) -> Table:
    """Return the periods in which a policy's replicas differ from the recorded ones.

    Args:
        trial: The policy.
        most: How many to show: those of the most replica-hours, in the order of time; None shows all.
    """
    every = trial.differences.periods
    shown = every if most is None else sorted(every, key=lambda one: -abs(one.replica_s))[:most]
    notes = []
    if hidden := len(every) - len(shown):
        notes.append(f"{hidden} smaller differences are in --html FILE and in --json.")
    if trial.differences.left_out:
        notes.append(f"{trial.differences.left_out} later differences are in the totals alone.")
    rows = tuple(_period(one) for one in sorted(shown, key=lambda one: one.start))
    headers = ("from (UTC)", "for", "ours", "recorded", "replica-hours", "why", "decided by")
    return Table(f"{trial.name}: where it differs", headers, rows, " ".join(notes), sentences=2)


def missing(backtest: Backtest) -> Table:
    """Return for how long signals were missing, with what was said of it first."""
    rows = tuple(
        (trial.name, signal, span(seconds), trial.missing_notes.get(signal, ""))
        for trial in backtest.trials
        for signal, seconds in trial.missing_s.longest_first()
    )
    return Table("Missing signals", ("policy", "signal", "for", "the first time"), rows, sentences=1)


def every_table(backtest: Backtest, most_periods: int | None = None) -> Iterable[Table]:
    """Yield the tables that have rows, in the order in which they are read."""
    found = [
        totals(backtest),
        *(differences(trial, most_periods) for trial in backtest.trials),
        durations(backtest, "Limits, and for how long each changed the decision", lambda one: one.limits_s),
        durations(backtest, "Reasons, and for how long each decided", lambda one: one.reasons_s),
        durations(backtest, "Diagnostics, and for how long each held", lambda one: one.diagnostics_s),
        missing(backtest),
    ]
    return (table for table in found if table.rows)


def span(seconds: float) -> str:
    """Write a time: 0 -> "-", 90 -> "1 min 30 s"."""
    return format_duration(seconds) if seconds else _NONE


def _period(period: Period) -> tuple[str, ...]:
    decided = ", ".join(f"{code} {format_duration(seconds)}" for code, seconds in period.reasons_s.longest_first()[:3])
    return (
        clock(period.start),
        format_duration(period.seconds),
        _range(period.ours),
        _range(period.theirs),
        f"{period.replica_s / _HOUR_S:+.3f}",
        period.story,
        decided,
    )


def _range(ends: Sequence[int]) -> str:
    lowest, highest = ends
    return str(lowest) if lowest == highest else f"{lowest} to {highest}"


def _against(trial: Trial) -> str:
    ratio = trial.differences.ratio
    return _NONE if ratio is None else f"{100 * (ratio - 1):+.1f} %"


def _cost(trial: Trial) -> str:
    price = trial.policy.replica_hourly_cost
    return _NONE if price is None else format_number(trial.counts.replica_s / _HOUR_S * price)


def _queued(trial: Trial) -> str:
    """Return for how long requests would have waited: only with replicas of its own is that another time."""
    return span(trial.counts.queue_s) if trial.own is not None else _NONE


def _mean_waiting(trial: Trial) -> str:
    return format_number(trial.counts.mean_waiting) if trial.own is not None else _NONE
