"""What KEDA is told, so that the HPA goes to the target in spite of its tolerance.

The target of the metric is 1, so its value is the replica count. But the HPA leaves a workload alone while the value is
within its tolerance of the count, and only else rounds the value up. Worked, for 20 replicas and a tolerance of 0.1,
so for values from 18 to 22, which are ignored:

- 23 is followed as it is, and so is 17;
- 18 is ignored, but 17.0012 is not, and is rounded up to 18;
- 19 cannot be reached: whatever is rounded up to it is ignored. 20 stay, which costs replicas but no objective;
- 21 and 22 cannot be reached either. 20 would be too few, so 23 are asked for.

What cannot be known here: the HPA compares with ``status.replicas``, which differs from the requested replicas during a
rollout or while a change is carried out, and a value within the tolerance makes it go there. KEDA before 2.17 reads
integers only, so it gets 18 for 17.0012, and 20 replicas stay. Only a tolerance of 0 in the HPA itself mends all this.
"""

from typing import Final, NamedTuple

from scaler.model import Reason, ReasonCode

# Kubernetes counts metrics in thousandths, KEDA makes them so: it rounds, and up to 2.19 cuts off the rest.
_MILLI: Final = 1000
# Kubernetes' quantities, such as a tolerance, have nine decimals at most. Whole numbers make the band's edges exact.
_NANO: Final = 10**9
# Above a whole number, in replicas, for the least value that is rounded up from it: one thousandth, whether KEDA rounds
# or cuts. 0.001 itself does not do: in binary, 1.001 x 1000 is a little less than 1001, and is cut to 1000.
_LEAST_FRACTION: Final = 0.0012


class Report(NamedTuple):
    """What to tell KEDA, and what the HPA makes of it."""

    value: float
    """The metric's value; 0 only if the target is."""
    lands_on: int
    """Replicas that every version of the HPA goes to with it, as far as its policies and limits let it."""
    reason: Reason | None = None
    """Why the value is not the target, where it is not."""


def nearest_below(requested: int, *, tolerance: float) -> int:
    """Return the largest smaller count that the HPA can be made to go to. Worked: 18 from 20 with a tolerance of 0.1.

    Args:
        requested: Replicas now, 1 or more.
        tolerance: The HPA's, 0..0.5.
    """
    below, _ = _outside_band(requested, tolerance)
    return min(requested - 1, (below - 1) // _MILLI + 1)


def nearest_above(requested: int, *, tolerance: float) -> int:
    """Return the smallest larger count that the HPA can be made to go to. Worked: 23 from 20 with a tolerance of 0.1.

    Args:
        requested: Replicas now, 1 or more.
        tolerance: The HPA's, 0..0.5.
    """
    _, above = _outside_band(requested, tolerance)
    return -(-above // _MILLI)


def report(target: int, requested: int, *, tolerance: float, highest: int) -> Report:
    """Choose the value to report for a target; see the module for worked cases.

    Args:
        target: Replicas to go to, already within all limits.
        requested: Replicas that the workload asks for now, as read: with a guess, a fraction can do harm. 0 switches
            the HPA off, and KEDA itself starts the first replica.
        tolerance: The HPA's, 0..0.5; the larger one if those for up and down differ.
        highest: The most replicas that may be asked for.

    Returns:
        A value that lands on the target if there is one. Else, for an increase, the next larger count that can be
        reached, if ``highest`` allows it; and otherwise ``requested``.
    """
    if requested in (0, target):
        return Report(float(target), target)
    below, above = _outside_band(requested, tolerance)
    if not below < target * _MILLI < above:
        return Report(float(target), target)
    ignores = f"the HPA ignores changes within {100 * tolerance:g} % of {requested}"
    if target < requested:
        reachable = nearest_below(requested, tolerance=tolerance)
        if target > reachable:
            text = f"{ignores}: {target} cannot be reached, {requested} stay until {reachable} or fewer are needed"
            return Report(float(requested), requested, Reason(ReasonCode.HPA_TOLERANCE, text))
        value = target - 1 + _LEAST_FRACTION
        text = f"{ignores}: {target} is reported as {value:.4f}, which is outside and is rounded up"
        return Report(value, target, Reason(ReasonCode.HPA_FRACTION, text))
    reachable = nearest_above(requested, tolerance=tolerance)
    if reachable > highest:
        text = f"{ignores}: {target} cannot be reached, {reachable} is above the {highest} allowed: {requested} stay"
        return Report(float(requested), requested, Reason(ReasonCode.HPA_TOLERANCE, text))
    text = f"{ignores}: {target} cannot be reached, so {reachable} are asked for"
    return Report(float(reachable), reachable, Reason(ReasonCode.HPA_OVERSHOOT, text))


def _outside_band(requested: int, tolerance: float) -> tuple[int, int]:
    """Return the nearest values that the HPA does not ignore, below and above the requested replicas, in thousandths.

    The edges themselves count as ignored: Kubernetes before and since 1.33 treats some of them differently.
    """
    width = round(tolerance * _NANO)
    low, high = (requested * _MILLI * (_NANO + sign * width) for sign in (-1, 1))
    return (low - 1) // _NANO, high // _NANO + 1
