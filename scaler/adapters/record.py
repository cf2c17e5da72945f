"""The decision record: one flat object with field names that do not change between releases.

The types here are the reference: docs/reference/decision-record.md is made of them by ``reference()``.
"""

import math
import sys
from datetime import UTC, datetime
from typing import Annotated, Any, Final, TypedDict, get_args, get_type_hints

from scaler.model import Absent, Action, Decision, PoolKey, PoolLocator, Reading, Reason, ReasonCode, SignalState
from scaler.policy.narrate import narrate, waits_for

MAX_TEXT_CHARS: Final = 500
"""Longest sentence in a record: twice the longest that the law writes; a query's error text can be far longer."""
MAX_STORY_CHARS: Final = 2000
"""Longest story: four sentences of the longest kind."""
MAX_NOTES: Final = 10
"""Most notes in a record: each reading has at most one, and there are fewer than ten kinds of them."""
_SIGNIFICANT_DIGITS: Final = 6


class ReasonRecord(TypedDict):
    """One reason, limit or diagnostic."""

    code: Annotated[str, "What kind of reason it is; the codes are listed below."]
    text: Annotated[str, "The sentence, with the numbers in it."]
    left_s: Annotated[float | None, "For what ends by itself: how long still, in seconds."]
    windows: Annotated[str | None, 'For what must last: ticks done of ticks required, such as "2/20".']


class SignalRecord(TypedDict):
    """One signal of a decision."""

    value: Annotated[float | None, "What the signal reads, in its unit; null with the reason in `absent`."]
    absent: Annotated[str | None, "`missing` (no data) or `no_traffic` (nothing happened) when there is no value."]
    unit: Annotated[str, "The unit of the value and of both thresholds."]
    up_at: Annotated[float | None, "The value above which it asks for more replicas than are requested."]
    down_at: Annotated[float | None, "The value up to which one replica fewer would do for it."]
    up_need: Annotated[int | None, "Replicas that the newest value asks for; null = no vote."]
    down_need: Annotated[int | None, "Replicas that the newest value can be served with; null = no vote."]
    up_sustained: Annotated[int | None, "Replicas that were asked for all through its scale-up window."]
    down_sustained: Annotated[int | None, "The most replicas that any tick of its scale-down window needed."]
    up_windows: Annotated[str, "Ticks of the scale-up window on which it asked for more, of ticks required."]
    down_windows: Annotated[str, "Ticks of the scale-down window on which fewer would do, of ticks required."]
    note: Annotated[str, "Why it does not vote, where it does not; else empty."]


DecisionRecord = TypedDict(
    "DecisionRecord",
    {
        "time": Annotated[str, "The tick that was decided on, ISO 8601 in UTC."],
        "namespace": Annotated[str, "The ScaledObject's namespace."],
        "scaled_object": Annotated[str, "The ScaledObject's name."],
        "trigger": Annotated[str, "Fingerprint of the trigger's metadata: it changes when the metadata does."],
        "pool": Annotated[str, "Where the pool's series are: its workload, or its model."],
        "prometheus": Annotated[str, "The Prometheus that they are in, by the name that the operator gave it."],
        "preset": Annotated[str, "The preset that the settings started from; empty for none."],
        "action": Annotated[str, "`scale_up`, `scale_down` or `hold`."],
        "from": Annotated[int | None, "Replicas requested when this was decided."],
        "to": Annotated[int | None, "Replicas decided, after limits; null when there is no answer."],
        "reported": Annotated[float | None, "The value that KEDA is told."],
        "lands_on": Annotated[int | None, "Where the HPA goes with that value, its tolerance considered."],
        "active": Annotated[bool, "What IsActive answers."],
        "story": Annotated[str, "The whole decision in words: what, why, since when, limits, cost, protection."],
        "reason": Annotated[str, "The code of the deciding reason."],
        "why": Annotated[str, "The deciding reason in words."],
        "waits_for": Annotated[str, 'What a hold waits for: "2 of 20 windows", "41 s"; empty if for nothing.'],
        "reasons": Annotated[list[ReasonRecord], "All reasons, the deciding one first."],
        "limits": Annotated[list[ReasonRecord], "What changed the need on its way to the target."],
        "over_since": Annotated[str | None, "Since when a signal has asked for more replicas without a break."],
        "up_need": Annotated[int | None, "The greatest sustained up-need of any signal."],
        "down_need": Annotated[int | None, "The greatest down-need of any signal in its window; null if one has none."],
        "signals": Annotated[dict[str, SignalRecord], "Each signal by name."],
        "requested": Annotated[float | None, "The workload's spec.replicas."],
        "serving": Annotated[float | None, "Replicas with fresh metrics."],
        "ready": Annotated[float | None, "The workload's ready replicas."],
        "pending": Annotated[int, "Requested replicas that neither serve nor are ready."],
        "running": Annotated[float | None, "Requests running."],
        "waiting": Annotated[float | None, "Requests waiting that more replicas would help."],
        "queue_wait_s": Annotated[float | None, "How long a request that comes now waits, in seconds."],
        "protection": Annotated[int, "0 none, 1 capped or stalled, 2 also a long wait in the queue."],
        "protection_reason": Annotated[str, "Why the pool is in protection; else empty."],
        "hourly_cost": Annotated[
            float | None, "What `lands_on` replicas cost an hour; null without replicaHourlyCost."
        ],
        "max_hourly_cost": Annotated[float | None, "The budget; null without maxHourlyCost."],
        "within_budget": Annotated[bool | None, "Whether the need, before the cost limit, was within the budget."],
        "data_age_s": Annotated[float | None, "Age of the newest tick with data to decide on, in seconds."],
        "sample_age_s": Annotated[float | None, "Age of the freshest replica's newest sample, in seconds."],
        "diagnostics": Annotated[list[ReasonRecord], "What is wrong with settings, routing or single replicas."],
        "notes": Annotated[list[str], "Why readings are missing or were corrected."],
    },
)


_INTRODUCTION: Final = (
    "One JSON object in the service's log for each change of what is decided or why (`event` is `decision`). Times are"
    " ISO 8601 in UTC, durations seconds, counts replicas. A reading that is not a number is null. Field names do not"
    " change between releases; new ones may come."
)


def iso_time(at: float) -> str:
    """Write an instant as ISO 8601 in UTC with milliseconds: 1700000010.0 -> "2023-11-14T22:13:30.000Z"."""
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def clip(text: str, limit: int = MAX_TEXT_CHARS) -> str:
    """Cut a text to at most ``limit`` characters, and show that it was cut."""
    return text if len(text) <= limit else text[: limit - 1] + "…"


def decision_record(key: PoolKey, locator: PoolLocator, decision: Decision) -> DecisionRecord:
    """Return a decision as one record: what a person asks of "why did it scale, or why didn't it".

    Args:
        key: The pool.
        locator: Where its series are.
        decision: What was decided.

    Returns:
        JSON-compatible fields. A reading that is not a number is null.
    """
    seen = decision.observation
    is_over_budget = any(limit.code is ReasonCode.COST_LIMIT for limit in decision.limits)
    return {
        "time": iso_time(decision.at),
        "namespace": key.namespace,
        "scaled_object": key.scaled_object,
        "trigger": key.trigger,
        "pool": str(locator),
        "prometheus": locator.backend,
        "preset": decision.preset,
        "action": decision.action.value,
        "from": decision.from_replicas,
        "to": decision.target,
        "reported": decision.reported_value,
        "lands_on": decision.lands_on,
        "active": decision.active,
        "story": clip(narrate(decision), MAX_STORY_CHARS),
        "reason": decision.reason.code.value,
        "why": clip(decision.reason.text),
        "waits_for": waits_for(decision) if decision.action is Action.HOLD else "",
        "reasons": [_reason(reason) for reason in decision.reasons],
        "limits": [_reason(limit) for limit in decision.limits],
        "over_since": None if decision.over_since is None else iso_time(decision.over_since),
        "up_need": decision.up_need,
        "down_need": decision.down_need,
        "signals": {str(state.name): _signal(state) for state in decision.signals},
        "requested": _number(seen.requested),
        "serving": _number(seen.serving),
        "ready": _number(seen.ready),
        "pending": decision.pending,
        "running": _number(seen.running),
        "waiting": _number(seen.waiting),
        "queue_wait_s": _number(decision.queue_wait_s),
        "protection": decision.protection.value,
        "protection_reason": clip(decision.protection_reason),
        "hourly_cost": decision.hourly_cost,
        "max_hourly_cost": decision.max_hourly_cost,
        "within_budget": None if decision.max_hourly_cost is None else not is_over_budget,
        "data_age_s": None if decision.usable_at is None else _round(max(0.0, decision.at - decision.usable_at)),
        "sample_age_s": _number(seen.newest_sample_age_s),
        "diagnostics": [_reason(reason) for reason in decision.diagnostics],
        "notes": [clip(note) for note in seen.notes[:MAX_NOTES]],
    }


def reference() -> str:
    """Return the reference page of the record in Markdown."""
    sections = [
        "# The decision record",
        "",
        "<!-- Generated by `make reference` from scaler/adapters/record.py; a test holds the two together. -->",
        "",
        _INTRODUCTION,
        "",
        *_table(DecisionRecord),
        "## A signal",
        "",
        *_table(SignalRecord),
        "## A reason, a limit or a diagnostic",
        "",
        *_table(ReasonRecord),
        "## Codes",
        "",
        "| code | meaning |",
        "| --- | --- |",
        *(f"| `{code.value}` | {code.meaning} |" for code in ReasonCode),
        "",
    ]
    return "\n".join(sections)


def _table(record: Any) -> list[str]:  # noqa: ANN401 - a typed dictionary's class has no type of its own
    rows = ["| field | type | meaning |", "| --- | --- | --- |"]
    for name, hint in get_type_hints(record, include_extras=True).items():
        kind, text = get_args(hint)
        rows.append(f"| `{name}` | {_type_name(kind)} | {text} |")
    return [*rows, ""]


def _type_name(kind: Any) -> str:  # noqa: ANN401 - as above
    names = {"ReasonRecord": "reason", "SignalRecord": "signal", "str": "text", "int": "integer", "float": "number"}
    text = str(kind) if get_args(kind) else kind.__name__
    text = text.replace(f"{__name__}.", "").replace(" | None", " or null").replace("dict[str, ", "object of ")
    text = text.replace("list[", "list of ").replace("]", "")
    return " ".join(names.get(word, word) for word in text.split())


def _reason(reason: Reason) -> ReasonRecord:
    return {
        "code": reason.code.value,
        "text": clip(reason.text),
        "left_s": None if reason.left_s is None else _round(reason.left_s),
        "windows": None if reason.windows is None else f"{reason.windows[0]}/{reason.windows[1]}",
    }


def _signal(state: SignalState) -> SignalRecord:
    return {
        "value": _number(state.value),
        "absent": state.value.value if isinstance(state.value, Absent) else None,
        "unit": state.unit,
        "up_at": _round(state.scale_up_threshold),
        "down_at": _round(state.scale_down_threshold),
        "up_need": state.up_need,
        "down_need": state.down_need,
        "up_sustained": state.up_sustained,
        "down_sustained": state.down_sustained,
        "up_windows": f"{state.up_windows_met}/{state.up_windows_required}",
        "down_windows": f"{state.down_windows_met}/{state.down_windows_required}",
        "note": clip(state.note),
    }


def _number(reading: Reading) -> float | None:
    return None if isinstance(reading, Absent) else _round(reading)


def _round(value: float) -> float | None:
    # NaN and infinity are no JSON.
    return float(f"{value:.{_SIGNIFICANT_DIGITS}g}") if math.isfinite(value) else None


if __name__ == "__main__":
    sys.stdout.write(reference())
