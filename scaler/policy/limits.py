"""What may be published of what is needed: steps, then bounds, then cost. Each limit that bites says so."""

import math
from typing import Final, NamedTuple

from scaler.model import PoolPolicy, Reason, ReasonCode
from scaler.policy import hpa
from scaler.units import format_number

DOWN_SHARE: Final = 5
"""One decrease may always take one replica in so many: a large pool would else shrink for hours, one by one."""


class Limited(NamedTuple):
    """A count after limits, and the limits that changed it."""

    replicas: int
    limits: tuple[Reason, ...] = ()


def highest_step_up(policy: PoolPolicy, requested: int) -> int:
    """Return the most replicas that one increase may ask for: ``maxStepUp`` more, or twice as many."""
    return requested + max(policy.max_step_up, requested)


def lowest_step_down(policy: PoolPolicy, requested: int) -> int:
    """Return the fewest replicas that one decrease may leave: ``maxStepDown`` or a fifth fewer, never less than half.

    A step that the HPA would ignore is as long as the shortest one that it follows, or the pool could never shrink.
    The last replica may go in one step.
    """
    if requested <= 1:
        return 0
    shortest = hpa.nearest_below(requested, tolerance=policy.hpa_tolerance)
    step = max(policy.max_step_down, requested // DOWN_SHARE)
    return max(min(requested - step, shortest), math.ceil(requested / 2))


def step_up(policy: PoolPolicy, requested: int, need: int) -> Limited:
    """Limit an increase to one step. Worked: 2 replicas, need 20, maxStepUp 4: 6."""
    highest = highest_step_up(policy, requested)
    if need <= highest:
        return Limited(need)
    text = f"{need} replicas are needed; one step goes from {requested} to {highest} at most"
    return Limited(highest, (Reason(ReasonCode.STEP_LIMIT, text),))


def step_down(policy: PoolPolicy, requested: int, need: int) -> Limited:
    """Limit a decrease to one step. Worked: 8 replicas, need 3, maxStepDown 1: 7; 40 replicas: 32."""
    lowest = lowest_step_down(policy, requested)
    if need >= lowest:
        return Limited(need)
    text = f"{need} replicas would do; one step goes from {requested} to {lowest} at most"
    return Limited(lowest, (Reason(ReasonCode.STEP_LIMIT, text),))


def bound(policy: PoolPolicy, limited: Limited, *, lowest: int) -> Limited:
    """Keep a count within bounds and cost, which hold whatever else does.

    Args:
        policy: The pool.
        limited: The count, and the limits that bit so far.
        lowest: minReplicas, or 1 where a pool that may go to zero has reason not to.
    """
    wanted = limited.replicas
    if wanted < lowest:
        text = f"{wanted} replicas would do; minReplicas keeps {lowest}"
        if lowest != policy.min_replicas:
            text = f"{wanted} replicas would do; {lowest} stays as long as what wakes the pool is not known to be quiet"
        return Limited(lowest, (*limited.limits, Reason(ReasonCode.MIN_REPLICAS, text)))
    found = limited
    if found.replicas > policy.max_replicas:
        text = f"{wanted} replicas are wanted; maxReplicas allows {policy.max_replicas}"
        found = Limited(policy.max_replicas, (*found.limits, Reason(ReasonCode.MAX_REPLICAS, text)))
    affordable = policy.affordable_replicas
    if affordable is not None and found.replicas > affordable:
        text = (
            f"{wanted} replicas are wanted; maxHourlyCost {format_number(policy.max_hourly_cost or 0)} pays for"
            f" {affordable} at {format_number(policy.replica_hourly_cost or 0)} each"
        )
        found = Limited(affordable, (*found.limits, Reason(ReasonCode.COST_LIMIT, text)))
    return found
