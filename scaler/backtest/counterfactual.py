"""What would have been seen of a pool with other replicas: a fluid model, since no history can tell.

The rules, which the reports print:

- Requests in flight are those that were recorded, tick by tick. More replicas do not end them sooner, fewer do not
  keep them longer.
- As many of them run on each serving replica as it has slots, and the rest waits; at zero replicas all wait where what
  wakes the pool is looked at. How many slots a replica has does not depend on the policy that is tried.
- KV-cache usage goes with the running requests, and all replicas have the same.
- What latencies would have been is not known while other replicas serve: they have no need then, neither for more
  replicas nor for as many.
- Everything else (token rates, preemptions, rollouts, queries of the operator, what is missing) is as recorded.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from scaler.model import Absent, Extra, Observation, PoolPolicy, Reading, SignalForm

_NO_TRAFFIC: Final = Extra(Absent.NO_TRAFFIC, Absent.NO_TRAFFIC)


@dataclass(frozen=True, slots=True)
class Replica:
    """What one replica is taken to be.

    Args:
        slots: Requests that it runs at once.
        cold_start_s: Seconds from being asked for until it serves.
    """

    slots: int
    cold_start_s: float


@dataclass(slots=True)
class OwnReplicas:
    """The replicas that a policy would have had.

    Args:
        kind: What each of them is.
        serving: Replicas that serve.
        ready_at: When each of those that start will serve, ascending, Unix seconds.
    """

    kind: Replica
    serving: int
    ready_at: list[float] = field(default_factory=list)

    @property
    def requested(self) -> int:
        """All replicas, those that start included."""
        return self.serving + len(self.ready_at)

    def settle(self, now: float) -> None:
        """Let those serve whose start is over."""
        starting = [at for at in self.ready_at if at > now]
        self.serving += len(self.ready_at) - len(starting)
        self.ready_at = starting

    def go_to(self, replicas: int, now: float) -> None:
        """Begin to start replicas, or remove some at once, the youngest first."""
        excess = self.requested - replicas
        if excess > 0:
            gone = min(excess, len(self.ready_at))
            self.ready_at = self.ready_at[: len(self.ready_at) - gone]
            self.serving -= excess - gone
        self.ready_at += [now + self.kind.cold_start_s] * -excess


def as_seen(policy: PoolPolicy, own: OwnReplicas, recorded: Observation) -> Observation:
    """Return what would have been seen of the pool with the policy's own replicas.

    Worked: 30 running and 6 waiting on 2 replicas were recorded; of 16 slots, 3 replicas have 36 running and none
    waiting, and one has 16 running and 20 waiting.

    Args:
        policy: The pool, for its signals and what wakes it.
        own: The replicas that there would have been.
        recorded: What was seen.
    """
    serving = float(own.serving)
    counted = replace(
        recorded,
        requested=_instead(recorded.requested, float(own.requested)),
        serving=_instead(recorded.serving, serving),
        ready=_instead(recorded.ready, serving),
    )
    if serving == recorded.serving or isinstance(recorded.serving, Absent):
        return counted
    x = _in_flight(recorded)
    running, waiting = _shared(x, own.kind.slots * serving)
    return replace(
        counted,
        running=Absent.MISSING if not own.serving else running,
        waiting=Absent.MISSING if not own.serving else waiting,
        kv_usage_ratios=_kv_usage(own.serving, running, recorded),
        ttft_p95_s=_unknown(recorded.ttft_p95_s, recorded),
        generation_tokens_per_s=_present(recorded.generation_tokens_per_s, recorded),
        preemptions=0.0 if _is_asleep(recorded) else recorded.preemptions,
        replicas=(),
        extras=_extras(policy, own.serving, x, recorded),
    )


def differs(own: OwnReplicas, recorded: Observation) -> bool:
    """Tell whether other replicas serve than were recorded, so that latencies are not known."""
    return not isinstance(recorded.serving, Absent) and recorded.serving != own.serving


def _is_asleep(recorded: Observation) -> bool:
    """Tell whether the recorded pool was at zero, so that no load is a load of zero."""
    return recorded.requested == 0 and recorded.serving == 0


def _instead(recorded: Reading, own: float) -> Reading:
    """Return our own count, unless counts could not be read."""
    return recorded if isinstance(recorded, Absent) else own


def _in_flight(recorded: Observation) -> Reading:
    if _is_asleep(recorded):
        return 0.0
    running, waiting = recorded.running, recorded.waiting
    if isinstance(running, Absent) or isinstance(waiting, Absent):
        return Absent.MISSING
    return running + waiting


def _shared(x: Reading, slots: float) -> tuple[Reading, Reading]:
    """Return how many of the requests run, and how many wait."""
    if isinstance(x, Absent):
        return x, x
    return min(x, slots), max(0.0, x - slots)


def _kv_usage(serving: int, running: Reading, recorded: Observation) -> tuple[float, ...] | Absent:
    ratios, before = recorded.kv_usage_ratios, recorded.running
    if not serving:
        return Absent.MISSING
    if _is_asleep(recorded):
        return (0.0,) * serving
    if isinstance(ratios, Absent) or isinstance(running, Absent) or isinstance(before, Absent):
        return Absent.MISSING
    used = sum(ratios) * (running / before if before > 0 else 1.0)
    return (min(1.0, used / serving),) * serving


def _unknown(latency: Reading, recorded: Observation) -> Reading:
    """Return a latency that cannot be known: no need, where it could have been read."""
    return latency if latency is Absent.MISSING and not _is_asleep(recorded) else Absent.NO_TRAFFIC


def _present(reading: Reading, recorded: Observation) -> Reading:
    """Return a reading of engines: where none ran, nothing happened in one that had."""
    return Absent.NO_TRAFFIC if _is_asleep(recorded) and reading is Absent.MISSING else reading


def _extras(policy: PoolPolicy, serving: int, x: Reading, recorded: Observation) -> Mapping[str, Extra]:
    extras = dict(recorded.extras)
    for signal in policy.signals:
        extra = extras.get(signal.name)
        if extra is not None and signal.form is SignalForm.LATENCY:
            extras[signal.name] = replace(extra, value=_unknown(extra.value, recorded))
        elif extra is not None and _present(extra.value, recorded) is not extra.value:
            extras[signal.name] = _NO_TRAFFIC
    wakes = None if policy.activation is None else extras.get(policy.activation)
    if policy.activation is not None and wakes is not None and not serving and not isinstance(x, Absent):
        known = 0.0 if isinstance(wakes.value, Absent) else wakes.value
        if x > known:
            extras[policy.activation] = replace(wakes, value=x)
    return extras
