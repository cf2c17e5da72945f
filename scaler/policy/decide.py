"""The decision: one pool, one tick. Pure, total, and the same live, in the simulator and over recorded history.

The steps, in order:

1. read n (requested), m (serving) and each signal's need;
2. combine the needs over their windows: up(t), down(t);
3. up(t) above n: scale up, by one step, not within the cooldown; a burst waits for neither window nor cooldown;
4. else down(t) below n, and nothing speaks against it: scale down, by one step;
5. else hold n, or an increase that is not carried out yet;
6. keep within the bounds, and say what was done and why.

Needs are absolute counts. A decision that the HPA has not carried out yet is therefore the same decision on the next
tick, and never a further one.
"""

from dataclasses import dataclass, replace

from scaler.model import Absent, Action, Decision, Observation, PoolPolicy, Reason, SignalName
from scaler.policy import explain, limits, needs
from scaler.policy.clean import clean
from scaler.policy.combine import sustain
from scaler.policy.history import SIGNALS, History, Tick, retained_ticks, ttft_base_s, updated_ttft_minima
from scaler.policy.limits import Limited
from scaler.policy.needs import Assessment, LatencyFloor, TtftContext
from scaler.policy.situation import Situation, signal_windows


@dataclass(frozen=True, slots=True)
class _Choice:
    """What to publish before bounds, with why."""

    action: Action
    limited: Limited
    reasons: tuple[Reason, ...]


def advance(policy: PoolPolicy, history: History, observation: Observation) -> tuple[History, Decision]:
    """Decide for one pool at one tick.

    Args:
        policy: The pool's settings.
        history: What ``advance`` returned at the tick before; ``History()`` at first.
        observation: What was seen at this tick, later than all in the history.

    Returns:
        The history with this tick in it, and the decision. ``Decision.target`` is None only while nothing is known of
        the pool: neither requested replicas, nor an earlier target, nor serving ones.
    """
    observation = clean(observation)
    requested = _requested(history, observation)
    tick, assessments = _assess(policy, history, observation, requested)
    past = replace(
        history,
        ticks=(*history.ticks, tick)[-retained_ticks(policy) :],
        ttft_minima=updated_ttft_minima(policy, history, observation),
    )
    if requested is None:
        return past, explain.unknown_pool(policy, observation, assessments)
    before = history.last_requested()
    if before is not None and requested > before:
        past = replace(past, grown_at=observation.at)
    if before is not None and requested < before:
        past = replace(past, decreased_at=observation.at)
    sustained = tuple(
        sustain(past.ticks, index, up_window=windows.scale_up, down_window=windows.scale_down, requested=requested)
        for index, windows in enumerate(signal_windows(policy))
    )
    downs = [one.down for one in sustained if one.down is not None]
    situation = Situation(
        policy=policy,
        observation=observation,
        history=past,
        requested=requested,
        serving=None if isinstance(observation.serving, Absent) else int(observation.serving),
        assessments=assessments,
        sustained=sustained,
        up=max((one.up for one in sustained if one.up is not None), default=None),
        down=max(downs) if len(downs) == len(sustained) else None,
    )
    usable = tick.needs[0].up is not None or (situation.up or 0) > requested
    choice = _choose(situation, usable=usable)
    bounded = limits.bound(policy, choice.limited)
    decision = _decision(situation, choice, bounded, usable=usable)
    return _remember(past, situation, decision), decision


def _requested(history: History, observation: Observation) -> int | None:
    """Return n: spec.replicas; else what was last asked for; else the replicas that serve."""
    if not isinstance(observation.requested, Absent):
        return int(observation.requested)
    if history.target is not None:
        return history.target
    if not isinstance(observation.serving, Absent) and observation.serving > 0:
        return int(observation.serving)
    return None


def _assess(
    policy: PoolPolicy, history: History, observation: Observation, requested: int | None
) -> tuple[Tick, tuple[Assessment, ...]]:
    """Return this tick's entry for the history, and each signal's assessment, in the order of ``SIGNALS``."""
    if requested == 0 and observation.serving == 0:
        # Nobody runs, so nobody reports: that is expected and no sign of lost metrics.
        idle = Assessment(Absent.NO_TRAFFIC, needs.NO_NEED)
        assessments = (idle, idle, idle)
    else:
        assessments = (
            needs.saturation(policy, observation),
            needs.kv_cache(policy, observation),
            needs.ttft_p95(policy, observation, _ttft_context(policy, history, observation)),
        )
    preemptions = observation.preemptions
    tick = Tick(
        at=observation.at,
        requested=requested,
        serving=observation.serving,
        waiting=observation.waiting,
        preempted=not isinstance(preemptions, Absent) and preemptions > 0,
        needs=tuple(assessment.need for assessment in assessments),
    )
    return tick, assessments


def _ttft_context(policy: PoolPolicy, history: History, observation: Observation) -> TtftContext:
    recent = list(history.within(observation.at, policy.locator.rate_window_s))
    serving = [tick.serving for tick in recent if not isinstance(tick.serving, Absent)]
    if not isinstance(observation.serving, Absent):
        serving.append(observation.serving)
    return TtftContext(
        base_s=ttft_base_s(history.ttft_minima),
        fewest_serving=int(min(serving)) if serving else None,
        drain_s=_drain_s(recent, observation),
        floor=history.latency_floor,
    )


def _drain_s(recent: list[Tick], observation: Observation) -> float | None:
    """Return when the queue will be gone at the pace since its peak in the rate window; None = it is not shrinking.

    Worked: 20 waiting 8 s ago, 16 now: 16 x 8 / 4 = 32 s.
    """
    now = observation.waiting
    queues = [(tick.waiting, tick.at) for tick in recent if not isinstance(tick.waiting, Absent)]
    if isinstance(now, Absent) or not queues:
        return None
    peak, peak_at = max(queues)
    if now >= peak or now > queues[0][0]:
        return None
    return now * (observation.at - peak_at) / (peak - now)


def _choose(situation: Situation, *, usable: bool) -> _Choice:
    if not usable:
        return _without_data(situation)
    up, down = situation.up, situation.down
    if situation.is_burst or (up is not None and up > situation.requested):
        return _scale_up(situation)
    if down is not None and down < situation.requested:
        blockers = _against_scale_down(situation)
        if not blockers:
            return _scale_down(situation, down)
        return _hold(situation, blockers)
    return _hold(situation, explain.hold_reasons(situation))


def _without_data(situation: Situation) -> _Choice:
    """Publish the last answer again: missing data never lowers a target."""
    target = situation.history.target
    last = situation.requested if target is None else max(target, situation.requested)
    return _Choice(Action.HOLD, Limited(last), explain.no_data(situation))


def _scale_up(situation: Situation) -> _Choice:
    policy, requested = situation.policy, situation.requested
    wanted = situation.up or 0
    if situation.is_burst:
        wanted = max(wanted, situation.assessments[0].need.up or 0)
    limited = limits.bound(policy, limits.step_up(policy, requested, wanted))
    left_s = situation.seconds_left(situation.history.increased_at, policy.scale_up_cooldown_s)
    held = situation.held
    if left_s and not situation.is_burst and limited.replicas > held:
        reason = explain.cooldown_up(situation, limited.replicas, left_s)
        if held > requested:
            return _Choice(Action.SCALE_UP, Limited(held), (*explain.increase_pending(situation), reason))
        return _Choice(Action.HOLD, Limited(held), (reason,))
    if held > limited.replicas:
        limited = Limited(held, limited.limits)
    return _Choice(Action.SCALE_UP, limited, explain.scale_up(situation))


def _scale_down(situation: Situation, need: int) -> _Choice:
    policy, history = situation.policy, situation.history
    left_s = situation.seconds_left(history.decreased_at, policy.scale_down_cooldown_s)
    limited = limits.step_down(policy, situation.requested, need)
    target = history.target
    if left_s:
        if target is None or target >= situation.requested:
            return _hold(situation, (explain.cooldown_down(situation, need, left_s),))
        # Published within the cooldown and not carried out yet: the same decision again, not a further one.
        limited = Limited(max(limited.replicas, target), limited.limits)
        return _Choice(Action.SCALE_DOWN, limited, explain.decrease_pending(situation, need))
    return _Choice(Action.SCALE_DOWN, limited, explain.scale_down(situation, need))


def _against_scale_down(situation: Situation) -> tuple[Reason, ...]:
    """Return all that forbids fewer replicas though the signals would allow it."""
    policy, observation, history = situation.policy, situation.observation, situation.history
    found: list[Reason] = []
    if situation.pending:
        found.append(explain.replicas_starting(situation))
    if (
        not isinstance(observation.ready, Absent)
        and situation.serving is not None
        and observation.ready > situation.serving
    ):
        found.append(explain.replicas_unreported(int(observation.ready), situation.serving))
    if not isinstance(observation.outdated, Absent) and observation.outdated > 0:
        found.append(explain.rollout(int(observation.outdated)))
    window_s = max(windows.scale_down for windows in signal_windows(policy)) * policy.tick_s
    if any(tick.preempted for tick in history.within(situation.now, window_s)):
        found.append(explain.preemptions(window_s))
    grown_at = max((at for at in (history.increased_at, history.grown_at) if at is not None), default=None)
    left_s = situation.seconds_left(grown_at, window_s)
    if left_s:
        found.append(explain.window_after_increase(situation, left_s))
    return tuple(found)


def _hold(situation: Situation, reasons: tuple[Reason, ...]) -> _Choice:
    if situation.held > situation.requested:
        return _Choice(Action.SCALE_UP, Limited(situation.held), (*explain.increase_pending(situation), *reasons))
    return _Choice(Action.HOLD, Limited(situation.requested), reasons)


def _decision(situation: Situation, choice: _Choice, bounded: Limited, *, usable: bool) -> Decision:
    target = bounded.replicas
    is_held_blind = not usable and target == choice.limited.replicas
    action = choice.action if is_held_blind else _direction(situation.requested, target)
    reasons = choice.reasons
    if action is not choice.action and bounded.limits:
        # A limit, not the law, decides which way it goes.
        reasons = (bounded.limits[-1], *reasons)
    return Decision(
        at=situation.now,
        action=action,
        from_replicas=situation.requested,
        target=target,
        reported_value=float(target),
        active=target > 0,
        reasons=reasons,
        limits=bounded.limits,
        signals=explain.signal_states(situation),
        up_need=situation.up,
        down_need=situation.down,
        observation=situation.observation,
        pending=situation.pending,
        usable_at=situation.now if usable else situation.history.usable_at,
    )


def _direction(requested: int, target: int) -> Action:
    if target > requested:
        return Action.SCALE_UP
    return Action.SCALE_DOWN if target < requested else Action.HOLD


def _remember(past: History, situation: Situation, decision: Decision) -> History:
    before, after = past.target, decision.target
    increased_at, decreased_at = past.increased_at, past.decreased_at
    if after is not None and before is not None and after > before:
        increased_at = decision.at
    if after is not None and before is not None and after < before:
        decreased_at = decision.at
    if before is None and decision.action is Action.SCALE_UP:
        increased_at = decision.at
    return replace(
        past,
        target=after,
        increased_at=increased_at,
        decreased_at=decreased_at,
        usable_at=decision.usable_at,
        latency_floor=_latency_floor(situation, decision),
    )


def _latency_floor(situation: Situation, decision: Decision) -> LatencyFloor | None:
    """Return what latency asks for if it asked for this increase, else what it asked for before."""
    asked = situation.sustained[SIGNALS.index(SignalName.TTFT_P95)].up
    x = needs.in_flight(situation.observation)
    if decision.action is not Action.SCALE_UP or asked is None or asked <= situation.requested or isinstance(x, Absent):
        return situation.history.latency_floor
    return LatencyFloor(asked, x)
