"""From one history to the next: what an observation adds before the decision, and what the decision adds after it."""

from dataclasses import replace

from scaler.model import Absent, Action, Decision, Observation, PoolPolicy, SignalForm
from scaler.policy import latencies, wedges
from scaler.policy.history import REGRET_AFTER_S, REGRET_SPAN_S, History, Tick, changed, retained_ticks
from scaler.policy.latencies import LatencyMemory, Trial
from scaler.policy.needs import NO_VOTE, LatencyFloor
from scaler.policy.signals import reading_of
from scaler.policy.situation import Situation


def with_observation(history: History, policy: PoolPolicy, observation: Observation) -> History:
    """Return the history after looking at replicas, rollouts and the latencies' bases, before anything is assessed."""
    now, outdated = observation.at, observation.outdated
    window_s = policy.locator.rate_window_s
    recent = [tick.waiting for tick in history.within(now, window_s)]
    was_quiet = (len(recent) + 1) * policy.tick_s >= window_s and not any((observation.waiting, *recent))
    rollout_at, known = history.rollout_at, history.outdated
    if not isinstance(outdated, Absent) and outdated != known:
        rollout_at, known = now, outdated
    return changed(
        history,
        rollout_at=rollout_at,
        outdated=known,
        wedges=wedges.watch(history.wedges, observation.replicas, now),
        latencies=tuple(
            latencies.with_base(
                latencies.memory_of(history.latencies, signal.name),
                policy,
                observation,
                reading_of(policy, signal, observation).value,
                was_quiet=was_quiet,
            )
            for signal in policy.signals
            if signal.form is SignalForm.LATENCY
        ),
        regrets=tuple(at for at in history.regrets if now - at < REGRET_SPAN_S),
    )


def with_tick(
    history: History,
    policy: PoolPolicy,
    observation: Observation,
    tick: Tick,
    memories: tuple[LatencyMemory, ...],
) -> History:
    """Return the history with this tick in it, and with what follows from the requested and serving counts."""
    now, requested, before = observation.at, tick.requested, history.last_requested()
    retained = retained_ticks(policy, history.patience)
    ticks = (*history.ticks, *_blanks(history, policy, tick, retained), tick)[-retained:]
    if requested is None:
        return changed(history, ticks=ticks, latencies=memories)
    rose = before is not None and requested > before
    fell = before is not None and requested < before
    regretted = rose and history.fell_at is not None and now - history.fell_at <= REGRET_AFTER_S
    votes = [need.up for need in tick.needs if need.up is not None]
    is_over = bool(votes) and max(votes) + policy.warm_replicas > requested
    since = now if history.over_since is None else history.over_since
    return changed(
        history,
        ticks=ticks,
        latencies=memories,
        grown_at=now if rose else history.grown_at,
        fell_at=now if fell else history.fell_at,
        regrets=(*history.regrets, now) if regretted else history.regrets,
        decreased_at=now if fell else history.decreased_at,
        over_since=since if is_over else None,
        starting_since=_starting_since(history, observation, requested, rose=rose),
    )


def _blanks(history: History, policy: PoolPolicy, tick: Tick, most: int) -> tuple[Tick, ...]:
    """Return a tick without votes for each that is missing before this one, so that windows keep meaning time."""
    if history.newest_at is None:
        return ()
    missing = min(round((tick.at - history.newest_at) / policy.tick_s) - 1, most)
    if missing < 1:
        return ()
    lost, votes = Absent.MISSING, (NO_VOTE,) * len(policy.signals)
    return tuple(
        Tick(tick.at - back * policy.tick_s, history.last_requested(), lost, lost, preempted=False, needs=votes)
        for back in range(missing, 0, -1)
    )


def _starting_since(history: History, observation: Observation, requested: int, *, rose: bool) -> float | None:
    serving = observation.serving
    if isinstance(serving, Absent):
        return history.starting_since
    ready = observation.ready
    if requested <= max(serving, 0.0 if isinstance(ready, Absent) else ready):
        return None
    before = history.ticks[-1].serving if history.ticks else Absent.MISSING
    progress = rose or (not isinstance(before, Absent) and serving > before)
    return observation.at if progress or history.starting_since is None else history.starting_since


def with_decision(situation: Situation, decision: Decision) -> History:
    """Return the history with what was decided in it.

    Args:
        situation: What was decided on.
        decision: What was decided.
    """
    past, now = situation.history, situation.now
    before, after = past.target, decision.target
    if after is None:
        return changed(past, decision=decision)
    is_new = before is None or after != before
    increased = decision.action is Action.SCALE_UP and is_new and (before is None or after > before)
    decreased = decision.action is Action.SCALE_DOWN and is_new
    for_latency = _latency_asked(situation) if increased else ()
    floor = past.latency_floor
    x = situation.assessments[0].value
    if for_latency and not isinstance(x, Absent):
        floor = LatencyFloor(max(asked for _, asked in for_latency), x)
    return changed(
        past,
        decision=decision,
        target=after,
        # A hold that publishes another count follows n: it is no change of ours that could be on its way.
        changed_at=now if increased or decreased else None if is_new else past.changed_at,
        increased_at=now if increased else past.increased_at,
        decreased_at=now if decreased else past.decreased_at,
        usable_at=decision.usable_at,
        latency_floor=floor,
        latencies=_with_trials(situation, dict(for_latency), after) if for_latency else past.latencies,
    )


def _latency_asked(situation: Situation) -> tuple[tuple[str, int], ...]:
    """Return the latencies that asked for this increase, with what they asked for."""
    return tuple(
        (signal.name, one.up)
        for signal, one in zip(situation.policy.signals, situation.sustained, strict=True)
        if signal.form is SignalForm.LATENCY and one.up is not None and one.up > situation.working
    )


def _with_trials(situation: Situation, asked: dict[str, int], target: int) -> tuple[LatencyMemory, ...]:
    """Return the latencies, those on trial that alone made this increase."""
    others = any(
        one.up is not None and one.up > situation.working and signal.name not in asked
        for signal, one in zip(situation.policy.signals, situation.sustained, strict=True)
    )
    if others or situation.burst_need is not None:
        return situation.history.latencies
    values = {
        signal.name: assessment.value
        for signal, assessment in zip(situation.policy.signals, situation.assessments, strict=True)
    }
    found: list[LatencyMemory] = []
    for memory in situation.history.latencies:
        value = values[memory.name]
        on_trial = memory.name in asked and not isinstance(value, Absent)
        found.append(replace(memory, trial=Trial(value, target)) if on_trial and isinstance(value, float) else memory)
    return tuple(found)
