"""Every reason in words: what the person on call reads. Sentences carry the numbers that were compared."""

from collections.abc import Callable
from typing import Final

from scaler.model import (
    Absent,
    Action,
    Decision,
    Observation,
    PoolPolicy,
    Reason,
    ReasonCode,
    SignalName,
    SignalState,
)
from scaler.policy.history import SIGNALS, ttft_base_s
from scaler.policy.needs import Assessment, saturation_release_threshold
from scaler.policy.situation import Situation, signal_windows
from scaler.units import format_duration, format_number

_UNITS: Final = {SignalName.SATURATION: "requests", SignalName.KV_CACHE: "ratio", SignalName.TTFT_P95: "seconds"}


def count_of(replicas: int) -> str:
    """Write a replica count: "1 replica", "8 replicas"."""
    return "1 replica" if replicas == 1 else f"{replicas} replicas"


def scale_up(situation: Situation) -> tuple[Reason, ...]:
    """Say which signals ask for more, the one that asks for most first."""
    reasons: list[tuple[int, Reason]] = []
    if situation.is_burst:
        need = situation.assessments[0].need.up or 0
        text = f"{_saturation(situation)}: needs {count_of(need)}, at least twice as many, so nothing is waited for"
        reasons.append((need, Reason(ReasonCode.BURST, text)))
    for index, one in enumerate(situation.sustained):
        if one.up is None or one.up <= situation.requested or (index == 0 and situation.is_burst):
            continue
        window = signal_windows(situation.policy)[index].scale_up
        text = f"{_SENTENCES[SIGNALS[index]](situation)} for {one.up_met} of {window} windows: needs {count_of(one.up)}"
        reasons.append((one.up, Reason(ReasonCode.NEED_ABOVE, text)))
    return tuple(reason for _, reason in sorted(reasons, key=lambda pair: -pair[0]))


def scale_down(situation: Situation, need: int) -> tuple[Reason, ...]:
    """Say why fewer replicas do."""
    window = max(windows.scale_down for windows in signal_windows(situation.policy))
    text = (
        f"{count_of(need)} would have done all through the last {format_duration(window * situation.policy.tick_s)}"
        f" ({window} windows): {_load(situation)}"
    )
    return (Reason(ReasonCode.NEED_BELOW, text),)


def decrease_pending(situation: Situation, need: int) -> tuple[Reason, ...]:
    """Say that an earlier decrease is still to be carried out."""
    text = f"the decrease to {count_of(situation.history.target or 0)} is not carried out yet"
    return (Reason(ReasonCode.DECREASE_PENDING, text), *scale_down(situation, need))


def increase_pending(situation: Situation) -> tuple[Reason, ...]:
    """Say that an earlier increase is still to be carried out."""
    text = f"the increase to {count_of(situation.held)} is not carried out yet, so it stays published"
    return (Reason(ReasonCode.INCREASE_PENDING, text),)


def cooldown_up(situation: Situation, wanted: int, left_s: float) -> Reason:
    """Say that an increase waits for the cooldown."""
    text = f"{count_of(wanted)} are wanted; the cooldown after the last increase lasts {format_duration(left_s)} more"
    return Reason(ReasonCode.COOLDOWN_UP, f"{text} ({_load(situation)})")


def cooldown_down(situation: Situation, need: int, left_s: float) -> Reason:
    """Say that a decrease waits for the cooldown."""
    text = f"{count_of(need)} would do; the cooldown after the last decrease lasts {format_duration(left_s)} more"
    return Reason(ReasonCode.COOLDOWN_DOWN, f"{text} ({_load(situation)})")


def window_after_increase(situation: Situation, left_s: float) -> Reason:
    """Say that a decrease waits for a full window after the last increase."""
    text = (
        f"{count_of(situation.down or 0)} would do; after an increase a full scale-down window is waited for:"
        f" {format_duration(left_s)} more"
    )
    return Reason(ReasonCode.COOLDOWN_DOWN, text)


def replicas_starting(situation: Situation) -> Reason:
    """Say that replicas which are starting forbid a scale-down."""
    verb = "is" if situation.pending == 1 else "are"
    text = f"{count_of(situation.pending)} of {situation.requested} {verb} still starting"
    return Reason(ReasonCode.REPLICAS_STARTING, f"{text}: no scale-down until all serve")


def replicas_unreported(ready: int, serving: int) -> Reason:
    """Say that ready replicas report no metrics."""
    text = f"{ready} replicas are ready but only {serving} report metrics: the load of the others is unknown"
    return Reason(ReasonCode.REPLICAS_UNREPORTED, text)


def rollout(outdated: int) -> Reason:
    """Say that a rollout is under way."""
    return Reason(ReasonCode.ROLLOUT, f"a rollout is under way: {count_of(outdated)} of the old revision left")


def preemptions(window_s: float) -> Reason:
    """Say that requests were preempted."""
    text = f"requests were preempted for want of KV cache within the last {format_duration(window_s)}"
    return Reason(ReasonCode.PREEMPTIONS, text)


def no_data(situation: Situation) -> tuple[Reason, ...]:
    """Say that the last answer is held for want of data, and what is missing."""
    missing = [assessment.note for assessment in situation.assessments if assessment.need.up is None]
    since = situation.history.usable_at
    age = "" if since is None else f", for {format_duration(situation.now - since)}"
    text = f"no data to decide on{age}: {'; '.join(missing)}; the last answer is held"
    return (Reason(ReasonCode.NO_DATA, text),)


def hold_reasons(situation: Situation) -> tuple[Reason, ...]:
    """Say why nothing changes: what is being waited for, what is missing, or that all is right."""
    waiting_up = tuple(
        Reason(
            ReasonCode.WINDOW_UP,
            f"{_SENTENCES[name](situation)} asks for {count_of(assessment.need.up)}, for {one.up_met} of"
            f" {windows.scale_up} windows so far",
        )
        for name, assessment, one, windows in zip(
            SIGNALS, situation.assessments, situation.sustained, signal_windows(situation.policy), strict=True
        )
        if assessment.need.up is not None and assessment.need.up > situation.requested
    )
    return (*waiting_up, *_why_not_down(situation, asks_for_more=bool(waiting_up)))


def _why_not_down(situation: Situation, *, asks_for_more: bool) -> tuple[Reason, ...]:
    missing = tuple(
        Reason(ReasonCode.SIGNAL_MISSING, f"{assessment.note}, so nothing scales down")
        for assessment in situation.assessments
        if assessment.need.down is None
    )
    if missing or asks_for_more:
        return missing
    now = max(assessment.need.down or 0 for assessment in situation.assessments)
    if now < situation.requested:
        return (_window_down(situation, now),)
    up = max(assessment.need.up or 0 for assessment in situation.assessments)
    text = f"{count_of(situation.requested)} fit: {_load(situation)} needs {up}, and {now} before fewer would do"
    return (Reason(ReasonCode.DEAD_BAND, text),)


def _window_down(situation: Situation, now: int) -> Reason:
    """Say how long fewer replicas have done, by the signal that is the furthest from its window."""
    behind = min(
        zip(SIGNALS, situation.sustained, signal_windows(situation.policy), strict=True),
        key=lambda entry: entry[1].down_met / entry[2].scale_down,
    )
    name, one, windows = behind
    text = (
        f"{count_of(max(now, situation.policy.min_replicas))} would do now, by {name} for {one.down_met} of"
        f" {windows.scale_down} windows ({_load(situation)})"
    )
    return Reason(ReasonCode.WINDOW_DOWN, text)


def signal_states(situation: Situation) -> tuple[SignalState, ...]:
    """Return each signal with its thresholds, needs and windows."""
    policy, requested = situation.policy, situation.requested
    thresholds = _thresholds(situation)
    return tuple(
        SignalState(
            name=name,
            value=assessment.value,
            unit=_UNITS[name],
            scale_up_threshold=thresholds[name][0],
            scale_down_threshold=thresholds[name][1],
            up_need=assessment.need.up,
            down_need=assessment.need.down,
            up_sustained=one.up,
            down_sustained=one.down,
            up_windows_met=one.up_met if requested else 0,
            up_windows_required=windows.scale_up,
            down_windows_met=one.down_met,
            down_windows_required=windows.scale_down,
            note=assessment.note,
        )
        for name, assessment, one, windows in zip(
            SIGNALS, situation.assessments, situation.sustained, signal_windows(policy), strict=True
        )
    )


def unknown_pool(policy: PoolPolicy, observation: Observation, assessments: tuple[Assessment, ...]) -> Decision:
    """Return the decision for a pool of which nothing is known yet: no target, and why."""
    causes = [assessment.note for assessment in assessments if assessment.note]
    where = policy.locator
    text = f"nothing is known yet of {where} in namespace {where.namespace}: {'; '.join((*observation.notes, *causes))}"
    return Decision(
        at=observation.at,
        action=Action.HOLD,
        from_replicas=None,
        target=None,
        reported_value=None,
        active=False,
        reasons=(Reason(ReasonCode.NO_DATA, text),),
        limits=(),
        signals=(),
        up_need=None,
        down_need=None,
        observation=observation,
        pending=0,
        usable_at=None,
    )


def _thresholds(situation: Situation) -> dict[SignalName, tuple[float, float]]:
    """Return for each signal the value above which it asks for more, and the one up to which it lets go."""
    policy, requested = situation.policy, situation.requested
    base = ttft_base_s(situation.history.ttft_minima)
    # The KV signal's value is a mean over serving replicas, while its needs count requested ones.
    per_serving = requested / situation.serving if situation.serving else 1.0
    fewer = max(0, requested - 1) / requested if requested else 0.0
    return {
        SignalName.SATURATION: (
            policy.scale_up_saturation * policy.slots_per_replica * requested,
            saturation_release_threshold(policy, requested),
        ),
        SignalName.KV_CACHE: (
            policy.kv_cache_scale_up * per_serving,
            policy.kv_cache_scale_down * per_serving * fewer,
        ),
        SignalName.TTFT_P95: (
            policy.ttft_p95_s,
            base + policy.latency_scale_down_ratio * max(0.0, policy.ttft_p95_s - base),
        ),
    }


def _load(situation: Situation) -> str:
    """Name the load in a few words."""
    value = situation.assessments[0].value
    if value is Absent.NO_TRAFFIC:
        return "nothing in flight"
    if isinstance(value, Absent):
        return "requests in flight unknown"
    slots = situation.policy.slots_per_replica
    return f"{format_number(value)} in flight on {count_of(situation.requested)} of {slots} slots"


def _saturation(situation: Situation) -> str:
    value, policy = situation.assessments[0].value, situation.policy
    seen = "unknown" if isinstance(value, Absent) else format_number(value)
    factor = format_number(policy.scale_up_saturation)
    return f"in flight {seen} > {factor} x {policy.slots_per_replica} slots x {count_of(situation.requested)}"


def _kv_cache(situation: Situation) -> str:
    value, ratios = situation.assessments[1].value, situation.observation.kv_usage_ratios
    if isinstance(value, Absent) or isinstance(ratios, Absent):
        return "KV-cache usage"
    limit = format_number(situation.policy.kv_cache_scale_up)
    waiting = situation.observation.waiting
    queue = "" if isinstance(waiting, Absent) or waiting <= 0 else f", {format_number(waiting)} waiting"
    spread = f"mean of {count_of(len(ratios))}, fullest {format_number(ratios[-1])}{queue}"
    return f"KV-cache usage {format_number(value)} ({spread}) against {limit} x {count_of(situation.requested)}"


def _ttft(situation: Situation) -> str:
    value, samples = situation.assessments[2].value, situation.observation.ttft_samples
    if isinstance(value, Absent):
        return "P95 TTFT"
    seen = "" if isinstance(samples, Absent) else f" over {format_number(samples)} first tokens"
    return f"P95 TTFT {format_duration(value)}{seen} > {format_duration(situation.policy.ttft_p95_s)}"


_SENTENCES: Final[dict[SignalName, Callable[[Situation], str]]] = {
    SignalName.SATURATION: _saturation,
    SignalName.KV_CACHE: _kv_cache,
    SignalName.TTFT_P95: _ttft,
}
