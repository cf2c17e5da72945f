"""What happened during a run: the changes with their reasons, what the requests got, and what it cost."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from scaler.model import Decision
from scaler.sim.fleet import Fleet
from scaler.sim.request import Outcome
from scaler.sim.workload import LoadProfile
from scaler.units import format_duration, format_number


@dataclass(frozen=True, slots=True)
class Change:
    """The HPA set another number of replicas."""

    at: float
    before: int
    after: int
    phase: str
    why: str

    def __str__(self) -> str:
        return f"{clock_time(self.at)} {self.phase:<8} {self.before:>2} -> {self.after:<2}  {self.why}"


def clock_time(seconds: float) -> str:
    """Write a time since the start: 95.2 -> "1:35"."""
    return f"{int(seconds) // 60}:{int(seconds) % 60:02}"


def why(decision: Decision) -> str:
    """Write a decision's deciding reason, and the limits that cut it."""
    return "; ".join([decision.reason.text, *(limit.text for limit in decision.limits if limit != decision.reason)])


def reversals(changes: Sequence[Change], profile: LoadProfile, *, settle_s: float) -> int:
    """Count changes that undid the one before while the load was steady.

    Steady means that the rate of arrivals has been the same for ``settle_s``: until then replicas may still follow the
    change before it, and fewer may be needed again once a queue is gone.
    """
    count = 0
    steady: tuple[float, bool] | None = None
    for change in changes:
        phase, began = profile.phase_at(change.at)
        if not phase.steady or change.at < began + settle_s:
            steady = None
            continue
        is_up = change.after > change.before
        count += steady is not None and steady == (began, not is_up)
        steady = (began, is_up)
    return count


@dataclass(slots=True)
class RunRecord:
    """Kept up during a run; ``replicas`` counts what was requested, and times are seconds since the start."""

    profile: LoadProfile
    ttft_slo_s: float
    settle_s: float
    replicas: int
    changes: list[Change] = field(default_factory=list)
    peak_load: int = 0
    """The most requests in flight at any look."""
    fewest_replicas: int = 0
    most_replicas: int = 0
    served: int = 0
    lost: int = 0
    """Requests that were refused, or cut off with their replica."""
    first_tokens: int = 0
    first_tokens_in_time: int = 0
    _origin: Decision | None = None

    def __post_init__(self) -> None:
        self.fewest_replicas = self.most_replicas = self.replicas

    def add_outcomes(self, outcomes: Iterable[Outcome]) -> None:
        """Take in requests that ended."""
        for outcome in outcomes:
            self.served += outcome.completed
            self.lost += not outcome.completed
            self._count_first_token(outcome.ttft_s)

    def see(self, in_flight: int, decision: Decision | None) -> None:
        """Take in the load, and the newest decision: the first one with a target is the one that explains it."""
        self.peak_load = max(self.peak_load, in_flight)
        if decision is not None and (self._origin is None or self._origin.target != decision.target):
            self._origin = decision

    def add_change(self, at: float, replicas: int) -> None:
        """Take in that the HPA set another number of replicas."""
        phase, _ = self.profile.phase_at(at)
        reason = "" if self._origin is None else why(self._origin)
        self.changes.append(Change(at, self.replicas, replicas, phase.name, reason))
        self.replicas = replicas
        self.fewest_replicas = min(self.fewest_replicas, replicas)
        self.most_replicas = max(self.most_replicas, replicas)

    def summary(self, fleet: Fleet) -> list[str]:
        """Write what to remember of the run, a line each, once it is over."""
        now = fleet.now
        for arrived_at in fleet.awaiting_first_token:
            # A request that has waited longer than the objective has missed it already; the others are still open.
            if now - arrived_at > self.ttft_slo_s:
                self._count_first_token(now - arrived_at)
        fixed = self.most_replicas * now
        saved = f" ({1 - fleet.replica_seconds / fixed:.0%} less)" if fixed else ""
        share = f"{self.first_tokens_in_time / self.first_tokens:.1%}" if self.first_tokens else "none to judge"
        changes = [f"  {change}" for change in self.changes] or ["  none"]
        return [
            f"ran for              {format_duration(round(now))} of {format_duration(round(self.profile.duration_s))}",
            f"peak load            {self.peak_load} requests in flight, {self.profile.peak_rate:g} arriving a second",
            f"replicas             {self.fewest_replicas} to {self.most_replicas}, {len(self.changes)} changes",
            f"steady load          {reversals(self.changes, self.profile, settle_s=self.settle_s)} reversals",
            f"requests             {self.served} served, {fleet.running + fleet.waiting} in flight at the end"
            + (f", {self.lost} lost" if self.lost else ""),
            f"time to first token  {share} within {format_number(self.ttft_slo_s)} s",
            f"replica-seconds      {fleet.replica_seconds:.0f}; {self.most_replicas} all along: {fixed:.0f}{saved}",
            "changes of replicas:",
            *changes,
        ]

    def _count_first_token(self, ttft_s: float | None) -> None:
        if ttft_s is not None:
            self.first_tokens += 1
            self.first_tokens_in_time += ttft_s <= self.ttft_slo_s
