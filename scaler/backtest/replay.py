"""Folds the law over history, and counts what comes of it.

Ticks before the time that was asked for fill the windows and count for nothing. In advice mode each decision is made
on what was really there. In counterfactual mode the policy's replicas are its own from the first tick that counts on;
before that they are the recorded ones.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from scaler.backtest.counterfactual import OwnReplicas, Replica, as_seen, differs
from scaler.backtest.differences import Differences, Durations
from scaler.backtest.track import Track
from scaler.model import Absent, Action, Decision, Observation, PoolLocator, PoolPolicy, Protection, Reading, SignalForm
from scaler.policy.clean import HIGHEST_PLAUSIBLE
from scaler.policy.decide import advance
from scaler.policy.history import History


@dataclass(slots=True)
class Changes:
    """Counts changes of a number of replicas, and how many of them go against the one before."""

    up: int = 0
    down: int = 0
    reversals: int = 0
    _last_up: bool | None = None

    def count(self, *, is_up: bool) -> None:
        """Take the next change."""
        self.up += is_up
        self.down += not is_up
        self.reversals += self._last_up is not None and self._last_up is not is_up
        self._last_up = is_up


@dataclass(slots=True)
class Counts:
    """What a number of replicas over time comes to."""

    seconds: float = 0.0
    """How long it was looked at."""
    replica_s: float = 0.0
    """Replica-seconds, starting replicas included."""
    queue_s: float = 0.0
    """For how long requests waited."""
    waiting_s: float = 0.0
    """Waiting requests times seconds."""
    changes: Changes = field(default_factory=Changes)
    replicas: Track = field(default_factory=Track)
    serving: Track = field(default_factory=Track)
    waiting: Track = field(default_factory=Track)

    @property
    def mean_waiting(self) -> float:
        """How many requests waited on average."""
        return self.waiting_s / self.seconds if self.seconds else 0.0


@dataclass(slots=True)
class Recorded:
    """What was really run."""

    tick_s: float
    since: float
    ticks: int = 0
    unknown_s: float = 0.0
    """For how long it is not known how many replicas there were."""
    counts: Counts = field(default_factory=Counts)
    in_flight: Track = field(default_factory=Track)
    _replicas: int | None = None

    def see(self, observation: Observation) -> None:
        """Take the next tick."""
        replicas, before = replicas_of(observation), self._replicas
        self._replicas = before if replicas is None else replicas
        if observation.at < self.since:
            return
        self.ticks += 1
        if replicas is None:
            self.unknown_s += self.tick_s
        elif before is not None and replicas != before:
            self.counts.changes.count(is_up=replicas > before)
        running, waiting = _number(observation.running), _number(observation.waiting)
        _add(self.counts, replicas, _number(observation.serving), waiting, self.tick_s)
        self.in_flight.add(None if running is None or waiting is None else running + waiting)


@dataclass(slots=True)
class Trial:
    """One policy over one pool's history.

    Args:
        name: What to call it.
        policy: The policy.
        since: The first tick that counts, Unix seconds.
        replica: What one of its own replicas is, for counterfactual mode; None is advice mode.
    """

    name: str
    policy: PoolPolicy
    since: float
    replica: Replica | None = None
    history: History = field(default_factory=History)
    counts: Counts = field(default_factory=Counts)
    differences: Differences = field(init=False)
    up_need: Track = field(default_factory=Track)
    down_need: Track = field(default_factory=Track)
    protection_s: Durations = field(default_factory=Durations)
    """For how long the pool was in protection, by grade."""
    limits_s: Durations = field(default_factory=Durations)
    """For how long each limit changed what was decided."""
    reasons_s: Durations = field(default_factory=Durations)
    """For how long each reason decided."""
    diagnostics_s: Durations = field(default_factory=Durations)
    missing_s: Durations = field(default_factory=Durations)
    """For how long each signal was missing."""
    missing_notes: dict[str, str] = field(default_factory=dict)
    """What was said of it the first time."""
    unanswered_s: float = 0.0
    """For how long there was nothing to answer with."""
    unjudged_s: float = 0.0
    """For how long latencies had no vote, since other replicas served than were recorded."""
    own: OwnReplicas | None = None
    """The replicas that it would have, from the first tick that counts on, in counterfactual mode."""
    _wanted: tuple[int, Decision] | None = None
    """Where it has decided to go, which is done at the next tick."""
    _carried_out: Decision | None = None
    """What has changed its own replicas at this tick."""
    _advice: int | None = None
    """The change that it advised at the tick before."""

    def __post_init__(self) -> None:
        self.differences = Differences(self.policy.tick_s)

    def see(self, observation: Observation) -> None:
        """Take the next tick."""
        counts = observation.at >= self.since
        seen = observation if self.replica is None or not counts else self._seen(self.replica, observation)
        self.history, decision = advance(self.policy, self.history, seen)
        if counts:
            self._count(observation, seen, decision)

    def _seen(self, replica: Replica, recorded: Observation) -> Observation:
        """Return what is seen of the policy's own replicas, which have done by now what it decided last."""
        now = recorded.at
        if self.own is None:
            replicas = replicas_of(recorded)
            if replicas is None:
                return recorded
            serving = _number(recorded.serving)
            serves = replicas if serving is None else min(replicas, int(serving))
            self.own = OwnReplicas(replica, serves)
            self.own.go_to(replicas, now)
        self.own.settle(now)
        self._carried_out = None
        if self._wanted is not None and self._wanted[0] != self.own.requested:
            replicas, self._carried_out = self._wanted
            self.counts.changes.count(is_up=replicas > self.own.requested)
            self.own.go_to(replicas, now)
        if differs(self.own, recorded) and any(one.form is SignalForm.LATENCY for one in self.policy.signals):
            self.unjudged_s += self.policy.tick_s
        return as_seen(self.policy, self.own, recorded)

    def _count(self, recorded: Observation, seen: Observation, decision: Decision) -> None:
        tick_s, ours = self.policy.tick_s, decision.lands_on
        serving: float | None = None
        waiting: float | None = None
        if self.replica is None:
            self._count_advice(decision)
        else:
            ours = None if self.own is None else self.own.requested
            serving, waiting = _number(seen.serving), _waiting(seen, recorded)
            if decision.lands_on is not None:
                self._wanted = decision.lands_on, decision
        cause = self._carried_out or decision
        self.differences.see(recorded.at, ours, replicas_of(recorded), cause=cause, newest=decision)
        _add(self.counts, ours, serving, waiting, tick_s)
        self.up_need.add(decision.up_need)
        self.down_need.add(decision.down_need)
        self._count_reasons(seen, decision)

    def _count_advice(self, decision: Decision) -> None:
        """Count a change that is advised for the first time; while nobody follows, it is the same advice again."""
        advice = None if decision.action is Action.HOLD else decision.lands_on
        if advice is not None and advice != self._advice:
            self.counts.changes.count(is_up=decision.action is Action.SCALE_UP)
        self._advice = advice

    def _count_reasons(self, seen: Observation, decision: Decision) -> None:
        tick_s = self.policy.tick_s
        if decision.target is None:
            self.unanswered_s += tick_s
        self.reasons_s.add((decision.reason.code,), tick_s)
        self.limits_s.add({limit.code for limit in decision.limits}, tick_s)
        self.diagnostics_s.add({one.code for one in decision.diagnostics}, tick_s)
        if decision.protection is not Protection.NONE:
            self.protection_s.add((str(decision.protection.value),), tick_s)
        for state in decision.signals:
            if state.value is Absent.MISSING:
                self.missing_s.add((state.name,), tick_s)
                self.missing_notes.setdefault(state.name, seen.notes[0] if seen.notes else state.note)


@dataclass(frozen=True, slots=True)
class Case:
    """A policy to try.

    Args:
        name: What to call it.
        policy: The policy.
        pool: The place of its pool's observation in each tick.
        replica: As of ``Trial``.
        warnings: What is probably not meant in its settings, a sentence each.
    """

    name: str
    policy: PoolPolicy
    pool: int = 0
    replica: Replica | None = None
    warnings: tuple[str, ...] = ()


class Backtest:
    """Several policies side by side over the same ticks.

    Args:
        cases: The policies.
        since: The first tick that counts, Unix seconds.
    """

    def __init__(self, cases: Sequence[Case], *, since: float) -> None:
        self.since = since
        self.cases = tuple(cases)
        self.trials = tuple(Trial(case.name, case.policy, since, case.replica) for case in cases)
        self.recorded = {case.pool: Recorded(case.policy.tick_s, since) for case in cases}

    @property
    def pools(self) -> dict[PoolLocator, Recorded]:
        """What was run of each pool, once, in however many ways it was read."""
        found: dict[PoolLocator, Recorded] = {}
        for case in self.cases:
            found.setdefault(without_reading(case.policy.locator), self.recorded[case.pool])
        return found

    def see(self, observations: Sequence[Observation]) -> None:
        """Take the next tick of all pools."""
        for pool, recorded in self.recorded.items():
            recorded.see(observations[pool])
        for case, trial in zip(self.cases, self.trials, strict=True):
            trial.see(observations[case.pool])


def without_reading(locator: PoolLocator) -> PoolLocator:
    """Return which pool it is, however it is read: policies with other rate windows have the same replicas."""
    return replace(locator, rate_window_s=0.0, stale_after_s=0.0, extras=())


def replicas_of(observation: Observation) -> int | None:
    """Return how many replicas were asked for; those that served where that is not known, None where none did."""
    requested = _number(observation.requested)
    if requested is None:
        return int(_number(observation.serving) or 0) or None
    return int(requested)


def _number(reading: Reading) -> float | None:
    """Return a number that can be one, else None."""
    return None if isinstance(reading, Absent) or not 0 <= reading <= HIGHEST_PLAUSIBLE else reading


def _waiting(seen: Observation, recorded: Observation) -> float | None:
    """Return how many wait; at zero replicas all that were in flight do."""
    if seen.serving == 0 and recorded.serving != 0:
        running, waiting = _number(recorded.running), _number(recorded.waiting)
        return None if running is None or waiting is None else running + waiting
    return _number(seen.waiting)


def _add(counts: Counts, replicas: int | None, serving: float | None, waiting: float | None, tick_s: float) -> None:
    counts.seconds += tick_s
    counts.replica_s += (replicas or 0) * tick_s
    counts.queue_s += tick_s if waiting else 0.0
    counts.waiting_s += (waiting or 0.0) * tick_s
    counts.replicas.add(replicas)
    counts.serving.add(serving)
    counts.waiting.add(waiting)
