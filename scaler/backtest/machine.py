"""A backtest as JSON: every figure of the reports under a name that does not change between releases."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final

from scaler.backtest.differences import Period
from scaler.backtest.replay import Backtest, Case, Counts, Recorded, Trial

VERSION: Final = 1
_DECIMALS: Final = 6


def to_json(backtest: Backtest, assumptions: Sequence[str]) -> dict[str, Any]:
    """Return what came of a backtest; counts are replicas, ``*_s`` seconds, instants ISO 8601 in UTC."""
    recorded = next(iter(backtest.recorded.values()))
    return {
        "version": VERSION,
        "mode": "advice" if all(case.replica is None for case in backtest.cases) else "counterfactual",
        "from": _iso(backtest.since),
        "to": _iso(backtest.since + recorded.ticks * recorded.tick_s),
        "tick_s": recorded.tick_s,
        "ticks": recorded.ticks,
        "assumptions": list(assumptions),
        "policies": [
            _policy(case, trial, backtest.recorded[case.pool])
            for case, trial in zip(backtest.cases, backtest.trials, strict=True)
        ],
    }


def _policy(case: Case, trial: Trial, recorded: Recorded) -> dict[str, Any]:
    locator, price = case.policy.locator, case.policy.replica_hourly_cost
    counts = trial.counts
    return {
        "name": case.name,
        "namespace": locator.namespace,
        "pool": str(locator),
        "warnings": list(case.warnings),
        "cold_start_s": None if case.replica is None else _round(case.replica.cold_start_s),
        "replica_slots": None if case.replica is None else case.replica.slots,
        "ours": {
            **_counts(counts),
            "queue_s": None if trial.own is None else _round(counts.queue_s),
            "mean_waiting": None if trial.own is None else _round(counts.mean_waiting),
            "cost": None if price is None else _round(counts.replica_s / 3600 * price),
            "unanswered_s": _round(trial.unanswered_s),
            "latency_unknown_s": _round(trial.unjudged_s),
        },
        "recorded": {
            **_counts(recorded.counts),
            "queue_s": _round(recorded.counts.queue_s),
            "mean_waiting": _round(recorded.counts.mean_waiting),
            "unknown_s": _round(recorded.unknown_s),
        },
        "against_recorded": None if trial.differences.ratio is None else _round(trial.differences.ratio),
        "more_s": _round(trial.differences.more_s),
        "fewer_s": _round(trial.differences.fewer_s),
        "protection_s": _seconds(trial.protection_s),
        "limits_s": _seconds(trial.limits_s),
        "reasons_s": _seconds(trial.reasons_s),
        "diagnostics_s": _seconds(trial.diagnostics_s),
        "missing_s": _seconds(trial.missing_s),
        "differences": [_period(period) for period in trial.differences.periods],
        "differences_left_out": trial.differences.left_out,
    }


def _counts(counts: Counts) -> dict[str, Any]:
    changes = counts.changes
    return {
        "replica_hours": _round(counts.replica_s / 3600),
        "increases": changes.up,
        "decreases": changes.down,
        "reversals": changes.reversals,
    }


def _period(period: Period) -> dict[str, Any]:
    return {
        "from": _iso(period.start),
        "to": _iso(period.end),
        "ours": list(period.ours),
        "recorded": list(period.theirs),
        "replica_hours": _round(period.replica_s / 3600),
        "reason": period.reason,
        "story": period.story,
        "reasons_s": _seconds(period.reasons_s),
    }


def _seconds(durations: Mapping[str, float]) -> dict[str, float]:
    return {str(name): _round(seconds) for name, seconds in durations.items()}


def _round(value: float) -> float:
    return round(value, _DECIMALS)


def _iso(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
