"""What a snapshot lets the service say: a decision, or a refusal that says what is missing.

KEDA writes a refusal's text word for word into an event on the ScaledObject and leaves the replicas alone, while a 0 or
a ``false`` would scale down. So whatever cannot be answered is refused, in words for the reader of that event.
"""

from typing import Final

import grpc

from scaler.adapters.record import clip
from scaler.model import Decision
from scaler.service.registry import PoolEntry
from scaler.units import format_duration

MAX_DETAIL_CHARS: Final = 1000
"""Longest error text: Kubernetes cuts event messages at 1,024 bytes, and gRPC clients refuse trailers above 8 KiB."""


class RefusedError(Exception):
    """A call that is answered with an error on purpose. Not an error of this service: it is not logged.

    Args:
        code: The gRPC status.
        detail: The text; cut to what an event can hold.
    """

    def __init__(self, code: grpc.StatusCode, detail: str) -> None:
        self.code = code
        self.detail = clip(detail, MAX_DETAIL_CHARS)
        super().__init__(self.detail)


def is_usable(decision: Decision, now: float, max_hold_age_s: float) -> bool:
    """Tell whether a decision may be answered: it knows a target, and rests on data that is not too old.

    Args:
        decision: The newest decision.
        now: Unix seconds.
        max_hold_age_s: How long the last answer is held when there is no data, and when no tick is evaluated.
    """
    if decision.target is None or decision.reported_value is None or decision.usable_at is None:
        return False
    return now - decision.usable_at <= max_hold_age_s and now - decision.at <= max_hold_age_s


def answerable(entry: PoolEntry, now: float, max_hold_age_s: float) -> Decision:
    """Return a pool's newest decision if it may be answered.

    Args:
        entry: The pool.
        now: Unix seconds.
        max_hold_age_s: As in ``is_usable``.

    Raises:
        RefusedError: UNAVAILABLE, with what is missing and for how long.
    """
    decision = entry.decision
    if decision is not None and is_usable(decision, now, max_hold_age_s):
        return decision
    raise RefusedError(
        grpc.StatusCode.UNAVAILABLE, f"{_name(entry)}: {_what_is_missing(decision, now, max_hold_age_s)}"
    )


def not_evaluated(entry: PoolEntry, waited_s: float) -> RefusedError:
    """Return the refusal of a pool whose first evaluation took too long."""
    return RefusedError(
        grpc.StatusCode.UNAVAILABLE,
        f"{_name(entry)}: no answer yet: waited {format_duration(waited_s)} for the first evaluation of its metrics,"
        " which goes on; if this does not pass, Prometheus is slow: see vllm_scaler_query_duration_seconds",
    )


def _name(entry: PoolEntry) -> str:
    return f"{entry.key.namespace}/{entry.key.scaled_object} ({entry.policy.locator})"


def _what_is_missing(decision: Decision | None, now: float, max_hold_age_s: float) -> str:
    limit = format_duration(max_hold_age_s)
    if decision is None:
        return "not evaluated yet"
    if now - decision.at > max_hold_age_s:
        return (
            f"the scaler has evaluated no tick for {format_duration(now - decision.at)}, and an answer is held for at"
            f" most {limit}: see its log"
        )
    if decision.target is None:
        return decision.reason.text
    why = "; ".join(decision.observation.notes) or "; ".join(reason.text for reason in decision.reasons)
    if decision.usable_at is None:
        return f"no data to decide on yet: {why}"
    return (
        f"no data to decide on for {format_duration(now - decision.usable_at)}, and the last answer is held for at most"
        f" {limit}: {why}"
    )
