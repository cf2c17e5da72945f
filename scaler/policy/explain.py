"""Every reason in words: what the person on call reads. Sentences carry the numbers that were compared."""

import math

from scaler.model import (
    RESTARTS,
    Absent,
    Action,
    Decision,
    Observation,
    PoolPolicy,
    Protection,
    Reason,
    ReasonCode,
    SignalForm,
    SignalPolicy,
    SignalState,
)
from scaler.policy import needs
from scaler.policy.history import down_window
from scaler.policy.latencies import memory_of
from scaler.policy.needs import Assessment, saturation_release_threshold
from scaler.policy.situation import Situation
from scaler.units import format_duration, format_number


def count_of(replicas: int) -> str:
    """Write a replica count: "1 replica", "8 replicas"."""
    return "1 replica" if replicas == 1 else f"{replicas} replicas"


def scale_up(situation: Situation) -> tuple[Reason, ...]:
    """Say which signals ask for more, the one that asks for most first."""
    reasons: list[tuple[int, Reason]] = []
    burst = situation.burst_need
    if burst is not None:
        text = (
            f"{_sentence(situation, 0)}: needs {count_of(burst)}, which no noise explains, so nothing is waited for:"
            f" {_risk(situation, 0)}"
        )
        reasons.append((burst, Reason(ReasonCode.BURST, text)))
    for index, (signal, one) in enumerate(zip(situation.policy.signals, situation.sustained, strict=True)):
        if one.up is None or one.up <= situation.working or (index == 0 and burst is not None):
            continue
        text = (
            f"{_sentence(situation, index)} for {one.up_met} of {signal.windows.scale_up} windows: needs"
            f" {count_of(one.up)}, as {_risk(situation, index)}"
        )
        reasons.append((one.up, Reason(ReasonCode.NEED_ABOVE, text)))
    if not reasons:
        spare = situation.policy.warm_replicas
        text = f"{count_of(situation.requested)} are fewer than the {spare} that are to be spare (warmReplicas)"
        return (Reason(ReasonCode.WARM_REPLICAS, text),)
    return tuple(reason for _, reason in sorted(reasons, key=lambda pair: -pair[0]))


def scale_down(situation: Situation, need: int) -> tuple[Reason, ...]:
    """Say why fewer replicas do."""
    patience = situation.history.patience
    window = max(down_window(signal, patience) for signal in situation.policy.signals)
    text = (
        f"{count_of(need)} would have done all through the last {format_duration(window * situation.policy.tick_s)}"
        f" ({window} windows): {_load(situation)}"
    )
    return (Reason(ReasonCode.NEED_BELOW, text),)


def decrease_pending(situation: Situation) -> tuple[Reason, ...]:
    """Say that an earlier decrease is still to be carried out."""
    text = f"the decrease to {count_of(situation.history.target or 0)} is not carried out yet, so it stays published"
    return (Reason(ReasonCode.DECREASE_PENDING, text),)


def increase_pending(situation: Situation) -> tuple[Reason, ...]:
    """Say that an earlier increase is still to be carried out."""
    text = f"the increase to {count_of(situation.held)} is not carried out yet, so it stays published"
    return (Reason(ReasonCode.INCREASE_PENDING, text),)


def interrupted(replicas: int) -> Reason:
    """Say that an increase is asked for again after data were lost."""
    text = f"the increase to {count_of(replicas)} is asked for again since data are back, so it stays published"
    return Reason(ReasonCode.INCREASE_PENDING, text)


def cooldown_up(situation: Situation, wanted: int, left_s: float) -> Reason:
    """Say that an increase waits for the cooldown."""
    text = f"{count_of(wanted)} are wanted; the cooldown after the last increase lasts {format_duration(left_s)} more"
    return Reason(ReasonCode.COOLDOWN_UP, f"{text} ({_load(situation)})", left_s=left_s)


def cooldown_down(situation: Situation, need: int, left_s: float) -> Reason:
    """Say that a decrease waits for the cooldown."""
    text = f"{count_of(need)} would do; the cooldown after the last decrease lasts {format_duration(left_s)} more"
    return Reason(ReasonCode.COOLDOWN_DOWN, f"{text} ({_load(situation)})", left_s=left_s)


def wait_after_increase(need: int, *, wait_s: float, left_s: float) -> Reason:
    """Say that a decrease waits for some time after the last increase."""
    text = (
        f"{count_of(need)} would do; after an increase that has to hold for {format_duration(wait_s)}:"
        f" {format_duration(left_s)} more"
    )
    return Reason(ReasonCode.COOLDOWN_DOWN, text, left_s=left_s)


def warm_replicas(situation: Situation, wanted: int) -> tuple[Reason, ...]:
    """Say that spare replicas are in a count."""
    spare = situation.policy.warm_replicas
    if not spare:
        return ()
    text = f"{count_of(spare)} of the {wanted} are spare (warmReplicas)"
    return (Reason(ReasonCode.WARM_REPLICAS, text),)


def woken(situation: Situation, activation: float) -> Reason:
    """Say what wakes the pool."""
    text = f"{situation.policy.activation} is {format_number(activation)} > 0 while no replica runs: the pool wakes"
    return Reason(ReasonCode.ACTIVATION, text)


def asleep(situation: Situation) -> Reason:
    """Say that nothing wakes the pool."""
    return Reason(ReasonCode.ACTIVATION, f"no replica runs, and {situation.policy.activation} is 0: nothing waits")


def replicas_stuck(situation: Situation) -> Reason:
    """Say that replicas do not start, so that more are not asked for."""
    text = (
        f"{count_of(situation.pending)} of {situation.requested} have been starting for"
        f" {format_duration(situation.starting_for_s)}, longer than coldStartTimeoutSeconds"
        f" {format_duration(situation.policy.cold_start_timeout_s)}: asking for more of them helps nobody"
    )
    return Reason(ReasonCode.REPLICAS_STUCK, text)


def protection(situation: Situation) -> str:
    """Say why the pool is in protection; "" when it is not."""
    grade = situation.protection
    if grade is Protection.NONE:
        return ""
    if situation.is_stuck:
        cause = replicas_stuck(situation).text
    else:
        cause = f"{situation.wanted} replicas are needed, and limits allow {situation.policy.highest_replicas}"
    wait = situation.queue_wait_s
    if wait is Absent.NO_TRAFFIC:
        return f"{cause}; requests wait and none is served"
    if isinstance(wait, Absent):
        return f"{cause}; how long requests wait is unknown"
    return f"{cause}; a request that comes now waits about {format_duration(round(wait, 1))}"


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


def after_rollout(left_s: float) -> Reason:
    """Say that the load is looked at for a while after a rollout."""
    text = f"a rollout has just ended: no scale-down for {format_duration(left_s)} more"
    return Reason(ReasonCode.ROLLOUT, text, left_s=left_s)


def restarts(observation: Observation, window_s: float) -> tuple[Reason, ...]:
    """Say that engines have restarted, or that it is not known whether they have."""
    extra = observation.extras.get(RESTARTS)
    value = Absent.MISSING if extra is None else extra.value
    if isinstance(value, Absent):
        return (Reason(ReasonCode.SIGNAL_MISSING, "restarts of engines cannot be read, so nothing scales down"),)
    if value == 0:
        return ()
    times = "once" if value == 1 else f"{format_number(value)} times"
    text = f"engines have restarted {times} within the last {format_duration(window_s)}: no scale-down meanwhile"
    return (Reason(ReasonCode.RESTARTS, text),)


def preemptions(window_s: float) -> Reason:
    """Say that requests were preempted."""
    text = f"requests were preempted for want of KV cache within the last {format_duration(window_s)}"
    return Reason(ReasonCode.PREEMPTIONS, text)


def no_data(situation: Situation) -> tuple[Reason, ...]:
    """Say that the last answer is held for want of data, and the cause: the reader's if it knows, else what is missing.

    Two causes at most; the observation's notes have them all.
    """
    missing = [assessment.note for assessment in situation.assessments if assessment.need.up is None]
    causes = list(dict.fromkeys(situation.observation.notes or missing))[:2]
    since = situation.history.usable_at
    age = "" if since is None else f", for {format_duration(situation.now - since)}"
    text = f"no data to decide on{age}: {'; '.join(causes)}; the last answer is held"
    return (Reason(ReasonCode.NO_DATA, text),)


def filling_history(situation: Situation) -> tuple[Reason, ...]:
    """Say that the past is being read, and how far that is."""
    filling = situation.filling
    if filling is None or filling.given_up:
        return ()
    progress = f": {filling.done} of {filling.total} ticks" if filling.total else ""
    problem = f" ({filling.problem})" if filling.problem else ""
    text = (
        f"the pool is new to this process, and its past is being read from Prometheus{progress}{problem};"
        " until that is done only a burst changes the replicas"
    )
    return (Reason(ReasonCode.FILLING_HISTORY, text),)


def past_unknown(situation: Situation) -> tuple[Reason, ...]:
    """Say that the past could not be read."""
    filling = situation.filling
    if filling is None or not filling.given_up:
        return ()
    text = f"the pool's past could not be read from Prometheus, so windows fill by themselves: {filling.problem}"
    return (Reason(ReasonCode.PAST_UNKNOWN, text),)


def hold_reasons(situation: Situation) -> tuple[Reason, ...]:
    """Say why nothing changes: what is being waited for, what is missing, or that all is right."""
    waiting_up = tuple(
        Reason(
            ReasonCode.WINDOW_UP,
            f"{_sentence(situation, index)} asks for {count_of(assessment.need.up)}, for {one.up_met} of"
            f" {signal.windows.scale_up} windows so far",
            windows=(one.up_met, signal.windows.scale_up),
        )
        for index, (signal, assessment, one) in enumerate(
            zip(situation.policy.signals, situation.assessments, situation.sustained, strict=True)
        )
        if assessment.need.up is not None and assessment.need.up > situation.working
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
    if max(now + situation.policy.warm_replicas, situation.lowest) < situation.requested:
        return (_window_down(situation, now),)
    if now < situation.working:
        text = f"{_load(situation)} needs {now}, and minReplicas keeps {situation.lowest}"
        return (Reason(ReasonCode.MIN_REPLICAS, text),)
    up = max(assessment.need.up or 0 for assessment in situation.assessments)
    spare = situation.policy.warm_replicas
    with_spare = f", {spare} of them spare" if spare else ""
    index, assessment = max(enumerate(situation.assessments), key=lambda pair: pair[1].need.down or 0)
    by = f" by {situation.policy.signals[index].name}" if index and assessment.need.down == now else ""
    text = (
        f"{count_of(situation.requested)} fit{with_spare}: {_load(situation)} needs {up}, and {now}{by} before fewer"
        " would do"
    )
    return (Reason(ReasonCode.DEAD_BAND, text),)


def _window_down(situation: Situation, now: int) -> Reason:
    """Say how long fewer replicas have done, by the signal that is the furthest from its window."""
    patience = situation.history.patience
    signal, one = min(
        zip(situation.policy.signals, situation.sustained, strict=True),
        key=lambda pair: pair[1].down_met / down_window(pair[0], patience),
    )
    would_do = max(now + situation.policy.warm_replicas, situation.lowest)
    text = (
        f"{count_of(would_do)} would do now, by {signal.name} for {one.down_met} of {down_window(signal, patience)}"
        f" windows ({_load(situation)})"
    )
    required = down_window(signal, patience)
    left_s = (required - one.down_met) * situation.policy.tick_s
    return Reason(ReasonCode.WINDOW_DOWN, text, left_s=left_s, windows=(one.down_met, required))


def signal_states(situation: Situation) -> tuple[SignalState, ...]:
    """Return each signal with its thresholds, needs and windows."""
    patience = situation.history.patience
    return tuple(
        SignalState(
            name=signal.name,
            value=assessment.value,
            unit=signal.unit,
            scale_up_threshold=thresholds[0],
            scale_down_threshold=thresholds[1],
            up_need=assessment.need.up,
            down_need=assessment.need.down,
            up_sustained=one.up,
            down_sustained=one.down,
            up_windows_met=one.up_met,
            up_windows_required=signal.windows.scale_up,
            down_windows_met=one.down_met,
            down_windows_required=down_window(signal, patience),
            note=assessment.note,
        )
        for signal, assessment, one, thresholds in zip(
            situation.policy.signals,
            situation.assessments,
            situation.sustained,
            (_thresholds(situation, signal) for signal in situation.policy.signals),
            strict=True,
        )
    )


def unknown_pool(policy: PoolPolicy, observation: Observation, assessments: tuple[Assessment, ...]) -> Decision:
    """Return the decision for a pool of which nothing is known yet: no target, and why."""
    causes = [assessment.note for assessment in assessments if assessment.note]
    where = policy.locator
    known = "; ".join(dict.fromkeys((*observation.notes, *causes)))
    text = f"nothing is known yet of {where} in namespace {where.namespace}: {known}"
    return _no_answer(policy, observation, None, Reason(ReasonCode.NO_DATA, text), None)


def not_known_whether_to_wake(situation: Situation) -> Decision:
    """Return the decision for a pool at zero replicas whose activation cannot be read: no target, and why."""
    text = (
        f"no replica runs, and {situation.policy.activation}, which would wake the pool, cannot be read: "
        f"{'; '.join(situation.observation.notes) or 'no such series'}"
    )
    reason = Reason(ReasonCode.ACTIVATION_MISSING, text)
    return _no_answer(situation.policy, situation.observation, situation.requested, reason, situation.history.usable_at)


def _no_answer(
    policy: PoolPolicy, observation: Observation, requested: int | None, reason: Reason, usable_at: float | None
) -> Decision:
    return Decision(
        at=observation.at,
        action=Action.HOLD,
        from_replicas=requested,
        target=None,
        reported_value=None,
        active=False,
        reasons=(reason,),
        limits=(),
        signals=(),
        up_need=None,
        down_need=None,
        observation=observation,
        pending=0,
        usable_at=usable_at,
        preset=policy.preset,
    )


def _thresholds(situation: Situation, signal: SignalPolicy) -> tuple[float, float]:
    """Return the value above which a signal asks for more, and the one up to which it would let one replica go."""
    policy, working = situation.policy, situation.working
    fewer = max(0, working - 1)
    match signal.form:
        case SignalForm.SATURATION:
            slots = signal.scale_up * policy.slots_per_replica * working
            return slots, saturation_release_threshold(policy, signal, working)
        case SignalForm.KV_CACHE:
            # The value is a mean over serving replicas, while needs count requested ones.
            serving = situation.serving or working or 1
            return signal.scale_up * working / serving, signal.scale_down * fewer / serving
        case SignalForm.CAPACITY:
            return signal.scale_up * working, signal.scale_down * fewer
        case SignalForm.LATENCY:
            base = memory_of(situation.history.latencies, signal.name).base_s
            return signal.scale_up, base + signal.scale_down * max(0.0, signal.scale_up - base)
        case SignalForm.INTENSITY:
            return signal.scale_up, signal.scale_down


def _load(situation: Situation) -> str:
    """Name the load in a few words."""
    value = situation.assessments[0].value
    if value is Absent.NO_TRAFFIC:
        return "nothing in flight"
    if isinstance(value, Absent):
        return "requests in flight unknown"
    slots = situation.policy.slots_per_replica
    return f"{_counted(situation, value)} in flight on {count_of(situation.requested)} of {slots} slots"


def _counted(situation: Situation, in_flight: float) -> str:
    """Write how many requests in flight count, and of how many, where a queue is longer than its replica has slots."""
    everything = needs.in_flight(situation.observation)
    if isinstance(everything, Absent) or everything <= in_flight:
        return format_number(in_flight)
    return f"{format_number(in_flight)} of {format_number(everything)} (a queue counts for its replica's slots)"


def _working(situation: Situation) -> str:
    spare = situation.policy.warm_replicas
    return f"{count_of(situation.working)}{f' (and {spare} spare)' if spare else ''}"


def _sentence(situation: Situation, index: int) -> str:
    """Say what a signal's value is compared with."""
    signal, value = situation.policy.signals[index], situation.assessments[index].value
    if isinstance(value, Absent):
        return signal.name
    limit = format_number(signal.scale_up)
    match signal.form:
        case SignalForm.SATURATION:
            slots = situation.policy.slots_per_replica
            further = situation.coming.further
            more = f" and {format_number(math.ceil(further))} on their way" if further > 0 else ""
            return f"in flight {_counted(situation, value)}{more} > {limit} x {slots} slots x {_working(situation)}"
        case SignalForm.KV_CACHE:
            return (
                f"KV-cache usage {format_number(value)}{_kv_spread(situation)} against {limit} x {_working(situation)}"
            )
        case SignalForm.LATENCY:
            return f"{signal.name} {format_duration(value)} > {format_duration(signal.scale_up)}"
        case SignalForm.CAPACITY:
            return f"{signal.name} {format_number(value)} {signal.unit} > {limit} x {_working(situation)}"
        case SignalForm.INTENSITY:
            return f"{signal.name} {format_number(value)} {signal.unit} > {limit}"


def _kv_spread(situation: Situation) -> str:
    ratios, waiting = situation.observation.kv_usage_ratios, situation.observation.waiting
    if isinstance(ratios, Absent) or not ratios:
        return ""
    queue = "" if isinstance(waiting, Absent) or waiting <= 0 else f", {format_number(waiting)} waiting"
    return f" (mean of {count_of(len(ratios))}, fullest {format_number(ratios[-1])}{queue})"


def _risk(situation: Situation, index: int) -> str:
    """Say what happens to users if nothing is done."""
    signal, value = situation.policy.signals[index], situation.assessments[index].value
    match signal.form:
        case SignalForm.SATURATION:
            room = signal.scale_up * situation.policy.slots_per_replica * situation.working
            over = 1 if isinstance(value, Absent) else max(1, math.ceil(value + situation.coming.further - room))
            return f"{over} {'request is' if over == 1 else 'requests are'} more than the objective allows"
        case SignalForm.KV_CACHE:
            return "requests would wait for KV cache or be preempted"
        case SignalForm.LATENCY:
            times = "over" if isinstance(value, Absent) else f"{format_number(value / signal.scale_up)} times"
            return f"it is {times} its objective"
        case SignalForm.CAPACITY:
            return "replicas carry more than they can"
        case SignalForm.INTENSITY:
            return "it is above its limit"
