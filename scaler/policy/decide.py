"""The decision: one pool, one tick. Pure, total, and the same live, in the simulator and over recorded history.

The steps, in order:

1. read n (requested), m (serving) and each signal's need;
2. combine the needs over their windows: up(t), down(t);
3. up(t) above n: scale up, by one step, not within the cooldown, and not while replicas are stuck; a burst waits for
   neither window nor cooldown;
4. else down(t) below n, and nothing speaks against it: scale down, by one step;
5. else hold n, or an increase that is not carried out yet;
6. keep within bounds and cost, choose the value that takes the HPA there, and say what was done and why.

Spare (warm) replicas are added to every need. Needs are absolute counts: a decision that the HPA has not carried out
yet is therefore the same decision on the next tick, and never a further one.
"""

from dataclasses import replace
from typing import Final, NamedTuple

from scaler.model import Absent, Action, Decision, Observation, PoolPolicy, Reason
from scaler.policy import explain, hpa, limits, needs, wedges
from scaler.policy.clean import clean
from scaler.policy.combine import sustain
from scaler.policy.diagnostics import diagnose
from scaler.policy.growth import growth
from scaler.policy.history import Filling, History, Tick, changed, down_window
from scaler.policy.limits import Limited
from scaler.policy.needs import Assessment, Growth
from scaler.policy.remember import with_decision, with_observation, with_tick
from scaler.policy.signals import assess
from scaler.policy.situation import Situation

LAST_STEP_WINDOWS: Final = 3
"""Scale-down windows without an increase before a single replica too many is given up: noise asks for one more and for
one fewer in turn, while a load that has really fallen leaves more than one replica to spare."""


class _Choice(NamedTuple):
    """What to publish before bounds, with why."""

    action: Action
    limited: Limited
    reasons: tuple[Reason, ...]


def advance(
    policy: PoolPolicy, history: History, observation: Observation, filling: Filling | None = None
) -> tuple[History, Decision]:
    """Decide for one pool at one tick.

    An observation of a tick that is in the history already, or of an earlier one, is no new window: it changes nothing,
    and the answer is that of the newest tick.

    Args:
        policy: The pool's settings.
        history: What ``advance`` returned at the tick before; ``History()`` at first.
        observation: What was seen at this tick.
        filling: How far the past is read, where the history is not yet what it would be in a process that never
            stopped: then the pool is held, but for what needs no past (a burst, the wake-up from zero, bounds above n).

    Returns:
        The history with this tick in it, and the decision. ``Decision.target`` is None while nothing is known of the
        pool (neither requested replicas, nor an earlier target, nor serving ones), and for a pool at zero replicas
        while what would wake it cannot be read.
    """
    if history.decision is not None and history.holds(observation.at, policy.tick_s):
        return history, history.decision
    seen = clean(observation)
    requested = _requested(history, seen)
    past = with_observation(history, policy, seen)
    counted = _without_stuck_queues(policy, past, seen)
    coming = growth(policy, past, seen)
    saturated = bool(history.ticks) and (history.ticks[-1].needs[0].up or 0) > (history.ticks[-1].requested or 0)
    if requested == 0 and seen.serving == 0:
        # Nobody runs, so nobody reports: that is expected and no sign of lost metrics.
        assessments = tuple(Assessment(Absent.NO_TRAFFIC, needs.NO_NEED) for _ in policy.signals)
        memories = past.latencies
    else:
        assessments, memories = assess(policy, past, counted, seen=seen, coming=coming, saturated=saturated)
    past = with_tick(past, policy, seen, _tick(seen, requested, assessments), memories)
    if requested is None:
        unknown = explain.unknown_pool(policy, seen, assessments)
        return changed(past, decision=unknown), unknown
    situation = _situation(
        policy, past, seen, coming=coming, requested=requested, assessments=assessments, filling=filling
    )
    decision = _decide(situation)
    return with_decision(situation, decision), decision


def _requested(history: History, observation: Observation) -> int | None:
    """Return n: spec.replicas; else what was last asked for; else the replicas that serve."""
    if not isinstance(observation.requested, Absent):
        return int(observation.requested)
    if history.target is not None:
        return history.target
    if not isinstance(observation.serving, Absent) and observation.serving > 0:
        return int(observation.serving)
    return None


def _without_stuck_queues(policy: PoolPolicy, history: History, observation: Observation) -> Observation:
    """Return the observation without the waiting requests that no further replica could serve."""
    excess = wedges.excess_queue(history.wedges, observation.replicas, policy.slots_per_replica, observation.at)
    if not excess or isinstance(observation.waiting, Absent):
        return observation
    return replace(observation, waiting=max(0.0, observation.waiting - excess))


def _tick(observation: Observation, requested: int | None, assessments: tuple[Assessment, ...]) -> Tick:
    preemptions = observation.preemptions
    return Tick(
        at=observation.at,
        requested=requested,
        serving=observation.serving,
        waiting=observation.waiting,
        preempted=not isinstance(preemptions, Absent) and preemptions > 0,
        needs=tuple(assessment.need for assessment in assessments),
        running=observation.running,
    )


def _situation(
    policy: PoolPolicy,
    history: History,
    observation: Observation,
    *,
    coming: Growth,
    requested: int,
    assessments: tuple[Assessment, ...],
    filling: Filling | None,
) -> Situation:
    working = max(0, requested - policy.warm_replicas)
    sustained = tuple(
        sustain(
            history.ticks,
            index,
            up_window=signal.windows.scale_up,
            down_window=down_window(signal, history.patience),
            requested=working,
        )
        for index, signal in enumerate(policy.signals)
    )
    downs = [one.down for one in sustained if one.down is not None]
    return Situation(
        policy=policy,
        observation=observation,
        history=history,
        coming=coming,
        requested=requested,
        serving=None if isinstance(observation.serving, Absent) else int(observation.serving),
        assessments=assessments,
        sustained=sustained,
        up=max((one.up for one in sustained if one.up is not None), default=None),
        down=max(downs) if len(downs) == len(sustained) else None,
        filling=filling,
    )


def _decide(situation: Situation) -> Decision:
    policy = situation.policy
    if situation.requested == 0 and policy.activation is not None and situation.activation is Absent.MISSING:
        return explain.not_known_whether_to_wake(situation)
    usable = situation.assessments[0].need.up is not None or (situation.wanted or 0) > situation.requested
    choice = _choose(situation, usable=usable)
    bounded = limits.bound(policy, choice.limited, lowest=situation.lowest)
    if situation.is_filling and bounded.replicas < situation.requested:
        # Not even a bound takes replicas away before it is known what has been asked for.
        bounded = Limited(situation.requested)
    target = bounded.replicas
    is_held_blind = not usable and target == choice.limited.replicas
    action = choice.action if is_held_blind else _direction(situation.requested, target)
    reasons, found = choice.reasons, bounded.limits
    if action is not choice.action and found:
        # A limit, not the law, decides which way it goes.
        reasons = (found[-1], *reasons)
    report = hpa.report(
        target,
        situation.requested,
        # Of a guessed count no fraction can be told that lands where it should.
        tolerance=0.0 if isinstance(situation.observation.requested, Absent) else policy.hpa_tolerance,
        highest=max(policy.highest_replicas, situation.lowest),
    )
    if report.reason is not None:
        found = (*found, report.reason)
    if report.reason is not None and report.lands_on == situation.requested:
        # The HPA would swallow it, so nothing is decided that could be taken for a change.
        target, action, reasons = situation.requested, Action.HOLD, (report.reason, *reasons)
    cost = policy.replica_hourly_cost
    return Decision(
        at=situation.now,
        action=action,
        from_replicas=situation.requested,
        target=target,
        reported_value=report.value,
        active=target > 0,
        reasons=reasons,
        limits=found,
        signals=explain.signal_states(situation),
        up_need=situation.up,
        down_need=situation.down,
        observation=situation.observation,
        pending=situation.pending,
        usable_at=situation.now if usable else situation.history.usable_at,
        lands_on=report.lands_on,
        over_since=situation.history.over_since,
        protection=situation.protection,
        protection_reason=explain.protection(situation),
        queue_wait_s=situation.queue_wait_s,
        hourly_cost=None if cost is None else report.lands_on * cost,
        max_hourly_cost=policy.max_hourly_cost,
        diagnostics=(*explain.past_unknown(situation), *diagnose(situation)),
        preset=policy.preset,
    )


def _choose(situation: Situation, *, usable: bool) -> _Choice:
    if situation.requested == 0 and situation.policy.activation is not None:
        return _at_zero(situation)
    if not usable:
        return _without_data(situation)
    if situation.is_filling and situation.burst_need is None:
        return _hold(situation, explain.filling_history(situation))
    choice = _by_needs(situation)
    if situation.assessments[0].need.up is None and choice.limited.replicas < _last_answer(situation):
        # What asks for more without the load being known must not come to less than nothing asking for more.
        return choice._replace(limited=Limited(_last_answer(situation), choice.limited.limits))
    return choice


def _by_needs(situation: Situation) -> _Choice:
    wanted, releasable = situation.wanted, situation.releasable
    if situation.held < situation.requested:
        return _decrease_on_its_way(situation, max(situation.held, wanted or 0))
    if wanted is not None and wanted > situation.requested:
        return _scale_up(situation, wanted)
    if situation.interrupted is not None:
        return _Choice(Action.SCALE_UP, Limited(situation.interrupted), (explain.interrupted(situation.interrupted),))
    if releasable is not None and releasable < situation.requested:
        blockers = _against_scale_down(situation, releasable)
        return _hold(situation, blockers) if blockers else _scale_down(situation, releasable)
    return _hold(situation, explain.hold_reasons(situation))


def _at_zero(situation: Situation) -> _Choice:
    """Wake the pool, or let it sleep. KEDA starts the first replica; from then on the load is seen."""
    activation = situation.activation
    if not isinstance(activation, Absent) and activation > 0:
        return _Choice(Action.SCALE_UP, Limited(1), (explain.woken(situation, activation),))
    return _Choice(Action.HOLD, Limited(0), (explain.asleep(situation),))


def _without_data(situation: Situation) -> _Choice:
    """Publish the last answer again: missing data never lowers a target."""
    reasons = explain.no_data(situation)
    return _Choice(Action.HOLD, Limited(_last_answer(situation)), (*reasons, *explain.filling_history(situation)))


def _last_answer(situation: Situation) -> int:
    target = situation.history.target
    if situation.change_pending:
        return situation.held
    return situation.requested if target is None else max(target, situation.requested)


def _decrease_on_its_way(situation: Situation, replicas: int) -> _Choice:
    """Publish a decrease again, or what is needed by now if that is more.

    The counts are those of the last scrape: replicas that stop look like replicas that do not serve yet. So nothing is
    held against the decrease until they can be trusted again.
    """
    if replicas >= situation.requested:
        return _scale_up(situation, replicas)
    return _Choice(Action.SCALE_DOWN, Limited(replicas), explain.decrease_pending(situation))


def _scale_up(situation: Situation, wanted: int) -> _Choice:
    policy, requested, held = situation.policy, situation.requested, situation.held
    # What was published last, and is still wanted, is on its way: a load that doubles every tick is not to wait until
    # each step is seen, nor may an answer shrink because an old one is not seen yet.
    stepped = limits.step_up(policy, max(requested, min(situation.history.target or 0, wanted)), wanted)
    spare = explain.warm_replicas(situation, wanted)
    limited = limits.bound(policy, Limited(stepped.replicas, (*spare, *stepped.limits)), lowest=situation.lowest)
    if situation.is_stuck and limited.replicas > held:
        reasons = (explain.replicas_stuck(situation), *explain.scale_up(situation))
        return _Choice(_direction(requested, held), Limited(held), reasons)
    left_s = situation.seconds_left(situation.history.increased_at, policy.scale_up_cooldown_s)
    if left_s and situation.burst_need is None and limited.replicas > held:
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
    stepped = limits.step_down(policy, situation.requested, need)
    limited = Limited(stepped.replicas, (*explain.warm_replicas(situation, need), *stepped.limits))
    target = history.target
    if left_s:
        if target is None or target >= situation.requested:
            return _hold(situation, (explain.cooldown_down(situation, need, left_s),))
        # Published within the cooldown and not carried out yet: the same decision again, not a further one.
        limited = Limited(max(limited.replicas, target), limited.limits)
        reasons = (*explain.decrease_pending(situation), *explain.scale_down(situation, need))
        return _Choice(Action.SCALE_DOWN, limited, reasons)
    return _Choice(Action.SCALE_DOWN, limited, explain.scale_down(situation, need))


def _against_scale_down(situation: Situation, need: int) -> tuple[Reason, ...]:
    """Return all that forbids fewer replicas though the signals would allow it."""
    policy, observation, history = situation.policy, situation.observation, situation.history
    found: list[Reason] = []
    if situation.pending and not situation.is_stuck:
        found.append(explain.replicas_starting(situation))
    ready = observation.ready
    if not isinstance(ready, Absent) and situation.serving is not None and ready > situation.serving:
        found.append(explain.replicas_unreported(int(ready), situation.serving))
    if history.outdated > 0 and situation.seconds_left(history.rollout_at, policy.cold_start_timeout_s):
        found.append(explain.rollout(int(history.outdated)))
    elif left_s := situation.seconds_left(history.rollout_at, policy.rollout_hold_s):
        found.append(explain.after_rollout(left_s))
    if policy.locator.restart_window_s:
        found += explain.restarts(observation, policy.locator.restart_window_s)
    window_s = max(down_window(signal, history.patience) for signal in policy.signals) * policy.tick_s
    if any(tick.preempted for tick in history.within(situation.now, window_s)):
        found.append(explain.preemptions(window_s))
    grown_at = max((at for at in (history.increased_at, history.grown_at) if at is not None), default=None)
    wait_s = window_s
    if situation.requested - need == 1:
        wait_s = max(window_s, LAST_STEP_WINDOWS * window_s / history.patience)
    if left_s := situation.seconds_left(grown_at, wait_s):
        found.append(explain.wait_after_increase(need, wait_s=wait_s, left_s=left_s))
    return tuple(found)


def _hold(situation: Situation, reasons: tuple[Reason, ...]) -> _Choice:
    if situation.held > situation.requested:
        return _Choice(Action.SCALE_UP, Limited(situation.held), (*explain.increase_pending(situation), *reasons))
    return _Choice(Action.HOLD, Limited(situation.requested), reasons)


def _direction(requested: int, target: int) -> Action:
    if target > requested:
        return Action.SCALE_UP
    return Action.SCALE_DOWN if target < requested else Action.HOLD
