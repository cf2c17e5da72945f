"""How a law did on a workload: what the users got, what it cost, and how much it moved.

A law is judged by the least of its attainments over the seeds, so that luck does not count, and by its mean cost. One
law is better than another if it attains no less and costs no more, and one of the two by more than nothing; the laws
that nothing is better than are the front.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from scaler.sim.closed_loop import Run, reversals
from scaler.sim.request import Slo


@dataclass(frozen=True, slots=True)
class Score:
    """One run of one law."""

    attainment: float
    """Share of the requests that met every objective; those that failed, or were never served, did not."""
    replica_hours: float
    changes: int
    reversals: int
    """Changes against the one before."""
    first_change_s: float | None
    """Seconds from the workload's step to the first increase; None when there was none, or there is no step."""
    worst_queue: int
    """The most requests that waited at once."""
    requests: int


def score(run: Run, slo: Slo, *, step_at_s: float | None) -> Score:
    """Score a run.

    Args:
        run: The run.
        slo: What a request has to meet.
        step_at_s: When the load jumps, if it does.
    """
    increases = [change.at for change in run.changes if change.is_up and change.at >= (step_at_s or 0.0)]
    return Score(
        attainment=run.joint_attainment(slo),
        replica_hours=run.replica_hours,
        changes=len(run.changes),
        reversals=reversals(run.changes),
        first_change_s=None if step_at_s is None or not increases else increases[0] - step_at_s,
        worst_queue=max((moment.waiting for moment in run.moments), default=0),
        requests=len(run.outcomes) + run.unserved,
    )


@dataclass(frozen=True, slots=True)
class Standing:
    """One law on one workload, over all seeds."""

    law: str
    attainment: float
    """The least of all seeds."""
    replica_hours: float
    """The mean of all seeds."""
    changes: float
    """The mean of all seeds."""
    reversals: int
    """The most of all seeds."""
    first_change_s: float | None
    """The longest of all seeds; None when a seed had none."""
    worst_queue: int
    """The longest of all seeds."""

    def beats(self, other: "Standing") -> bool:
        """Tell whether it attained more for less: better in both, not just no worse."""
        return self.attainment > other.attainment and self.replica_hours < other.replica_hours

    def is_no_worse_than(self, other: "Standing") -> bool:
        """Tell whether it attained no less and cost no more."""
        return self.attainment >= other.attainment and self.replica_hours <= other.replica_hours


def standing(law: str, scores: Sequence[Score]) -> Standing:
    """Sum up the scores of all seeds, of which there is at least one."""
    firsts = [each.first_change_s for each in scores]
    known = [first for first in firsts if first is not None]
    return Standing(
        law=law,
        attainment=min(each.attainment for each in scores),
        replica_hours=sum(each.replica_hours for each in scores) / len(scores),
        changes=sum(each.changes for each in scores) / len(scores),
        reversals=max(each.reversals for each in scores),
        first_change_s=max(known) if len(known) == len(firsts) else None,
        worst_queue=max(each.worst_queue for each in scores),
    )


def front(standings: Iterable[Standing]) -> tuple[Standing, ...]:
    """Return the standings that none is better than, the cheapest first.

    Worked: (0.90, 10 h), (0.95, 12 h) and (0.94, 13 h): the last is not among them, since the second attains more for
    less.
    """
    by_cost = sorted(standings, key=lambda each: (each.replica_hours, -each.attainment))
    found: list[Standing] = []
    for each in by_cost:
        if not any(other.is_no_worse_than(each) for other in found):
            found.append(each)
    return tuple(found)
