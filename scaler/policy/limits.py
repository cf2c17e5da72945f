"""What may be published of what is needed: steps first, then bounds. Each limit that bites says so."""

import math
from dataclasses import dataclass

from scaler.model import PoolPolicy, Reason, ReasonCode


@dataclass(frozen=True, slots=True)
class Limited:
    """A count after limits, and the limits that changed it."""

    replicas: int
    limits: tuple[Reason, ...] = ()


def highest_step_up(policy: PoolPolicy, requested: int) -> int:
    """Return the most replicas that one increase may ask for: ``maxStepUp`` more, or twice as many."""
    return requested + max(policy.max_step_up, requested)


def lowest_step_down(policy: PoolPolicy, requested: int) -> int:
    """Return the fewest replicas that one decrease may leave: ``maxStepDown`` fewer, never less than half."""
    return max(requested - policy.max_step_down, math.ceil(requested / 2))


def step_up(policy: PoolPolicy, requested: int, need: int) -> Limited:
    """Limit an increase to one step. Worked: 2 replicas, need 20, maxStepUp 4: 6."""
    highest = highest_step_up(policy, requested)
    if need <= highest:
        return Limited(need)
    text = f"{need} replicas are needed; one step goes from {requested} to {highest} at most"
    return Limited(highest, (Reason(ReasonCode.STEP_LIMIT, text),))


def step_down(policy: PoolPolicy, requested: int, need: int) -> Limited:
    """Limit a decrease to one step. Worked: 8 replicas, need 3, maxStepDown 1: 7."""
    lowest = lowest_step_down(policy, requested)
    if need >= lowest:
        return Limited(need)
    text = f"{need} replicas would do; one step goes from {requested} to {lowest} at most"
    return Limited(lowest, (Reason(ReasonCode.STEP_LIMIT, text),))


def bound(policy: PoolPolicy, limited: Limited) -> Limited:
    """Keep a count within minReplicas and maxReplicas, which hold whatever else does."""
    if limited.replicas > policy.max_replicas:
        text = f"{limited.replicas} replicas are wanted; maxReplicas allows {policy.max_replicas}"
        return Limited(policy.max_replicas, (*limited.limits, Reason(ReasonCode.MAX_REPLICAS, text)))
    if limited.replicas < policy.min_replicas:
        text = f"{limited.replicas} replicas would do; minReplicas keeps {policy.min_replicas}"
        return Limited(policy.min_replicas, (*limited.limits, Reason(ReasonCode.MIN_REPLICAS, text)))
    return limited
