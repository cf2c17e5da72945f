"""What is wrong with settings, routing or single replicas: said in the record, and never a reason to scale."""

import math
from typing import Final

from scaler.model import PoolPolicy, Reason, ReasonCode, ReplicaLoad, SignalForm, SignalName
from scaler.policy import wedges
from scaler.policy.buckets import LATENCY_BOUNDS_S
from scaler.policy.history import History
from scaler.policy.latencies import LatencyMemory
from scaler.policy.situation import Situation
from scaler.units import format_duration, format_number

IMBALANCE_RATIO: Final = 2.0
"""A replica with more than twice the mean, while another has room, is a matter of routing."""
SCATTER: Final = 3.0
"""Slots are a mean, about which the requests of a replica scatter by their square root: three of these are no chance.
Worked: 16 slots may be 28 requests, 4 may be 10."""
_NAMED_AT_MOST: Final = 3


def diagnose(situation: Situation) -> tuple[Reason, ...]:
    """Return everything that looks wrong, in words."""
    policy, history, replicas = situation.policy, situation.history, situation.observation.replicas
    return (
        *_wedged(history, replicas, situation.now),
        *_imbalance(replicas, policy.slots_per_replica),
        *_slots_too_low(replicas, policy.slots_per_replica),
        *_latencies(policy, history.latencies),
        *_regret(policy, history),
    )


def objectives_off_bounds(policy: PoolPolicy) -> tuple[Reason, ...]:
    """Return the latencies whose objective lies between two bounds of vLLM's histogram."""
    found = []
    for signal in policy.signals:
        bounds = LATENCY_BOUNDS_S.get(SignalName(signal.name)) if signal.form is SignalForm.LATENCY else None
        if bounds is None or signal.scale_up in bounds:
            continue
        below = max((bound for bound in bounds if bound < signal.scale_up), default=0.0)
        above = min((bound for bound in bounds if bound > signal.scale_up), default=signal.scale_up)
        text = (
            f"the objective of {signal.name}, {format_duration(signal.scale_up)}, lies between the bounds"
            f" {format_duration(below)} and {format_duration(above)} of vLLM's histogram, so its P95 is an estimate"
        )
        found.append(Reason(ReasonCode.SLO_OFF_BUCKET, text))
    return tuple(found)


def _wedged(history: History, replicas: tuple[ReplicaLoad, ...], now: float) -> tuple[Reason, ...]:
    stuck = wedges.wedged(history.wedges, now)
    names = [f"{one.name} ({format_number(one.waiting)} waiting)" for one in replicas if one.name in stuck]
    if not names:
        return ()
    text = f"{_list(names)} produce(s) next to nothing for a minute or more: restart; its queue counts for its slots"
    return (Reason(ReasonCode.WEDGED_REPLICA, text),)


def _imbalance(replicas: tuple[ReplicaLoad, ...], slots: int) -> tuple[Reason, ...]:
    if len(replicas) < 2:  # noqa: PLR2004 - one replica cannot be out of balance
        return ()
    loads = [one.in_flight for one in replicas]
    mean = sum(loads) / len(loads)
    fullest = max(replicas, key=lambda one: one.in_flight)
    if fullest.in_flight <= slots or fullest.in_flight <= IMBALANCE_RATIO * mean or min(loads) >= slots:
        return ()
    text = (
        f"{fullest.name} has {format_number(fullest.in_flight)} requests, the mean is {format_number(mean)} and others"
        " have room: look at the routing, more replicas will not help; of its queue as many count as it has slots"
    )
    return (Reason(ReasonCode.IMBALANCE, text),)


def _slots_too_low(replicas: tuple[ReplicaLoad, ...], slots: int) -> tuple[Reason, ...]:
    most = slots + SCATTER * math.sqrt(slots)
    over = [f"{one.name} ({format_number(one.running)})" for one in replicas if one.running > most]
    if not over:
        return ()
    text = f"{_list(over)} run(s) far more requests at once than slotsPerReplica {slots}: the setting is too low"
    return (Reason(ReasonCode.SLOTS_TOO_LOW, text),)


def _latencies(policy: PoolPolicy, memories: tuple[LatencyMemory, ...]) -> tuple[Reason, ...]:
    objectives = {signal.name: signal.scale_up for signal in policy.signals}
    found = list(objectives_off_bounds(policy))
    for memory in memories:
        objective = objectives[memory.name]
        if memory.base_s >= objective:
            text = (
                f"{memory.name} is {format_duration(memory.base_s)} even in a quiet pool, the objective"
                f" {format_duration(objective)}: more replicas cannot mend that; raise the objective or speed up vLLM"
            )
            found.append(Reason(ReasonCode.LATENCY_BASE, text))
        if memory.futile:
            text = (
                f"{memory.failures} increases in a row did not lower {memory.name} by a tenth, so it asks for no more"
                " until it is within its objective or the saturation asks too"
            )
            found.append(Reason(ReasonCode.FUTILE_LATENCY, text))
    return tuple(found)


def _regret(policy: PoolPolicy, history: History) -> tuple[Reason, ...]:
    if history.patience == 1:
        return ()
    window_s = max(signal.windows.scale_down for signal in policy.signals) * policy.tick_s
    text = (
        f"{len(history.regrets)} increase(s) of the last 2 h came within 15 min of a decrease, so scaling down now"
        f" waits {format_duration(window_s * history.patience)} instead of {format_duration(window_s)}"
    )
    return (Reason(ReasonCode.REGRET, text),)


def _list(names: list[str]) -> str:
    more = len(names) - _NAMED_AT_MOST
    return ", ".join(names[:_NAMED_AT_MOST]) + (f" and {more} more" if more > 0 else "")
