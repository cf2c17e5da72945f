"""The arithmetic of KEDA and of Kubernetes' HorizontalPodAutoscaler for external metrics of type AverageValue.

Written from what their controllers do, so that the scaler can be tried against them without a cluster: what KEDA makes
of an answer, the tolerance band, the limits on steps, and the stabilisation windows. All numbers are milli-units, as
there: finer differences vanish.
"""

import enum
import math
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

# What the HPA limits replicas to: it counts them in 32 bits.
_MAX_INT32: Final = 2**31 - 1
# How far an HPA looks back before it scales down (--horizontal-pod-autoscaler-downscale-stabilization).
_DEFAULT_DOWN_WINDOW_S: Final = 300.0
# Without a behaviour, one sync at most doubles the replicas, or goes to four.
_DEFAULT_UP_FACTOR: Final = 2
_DEFAULT_UP_REPLICAS: Final = 4
# The controller's own default (--horizontal-pod-autoscaler-tolerance).
DEFAULT_TOLERANCE: Final = 0.1


class ToleranceRule(enum.Enum):
    """How the band is compared; in floating point the two differ at exactly ten per cent above."""

    SINCE_1_33 = "since 1.33"
    """1 - down <= ratio <= 1 + up: at 10 replicas a wish for 11 is within."""
    BEFORE_1_33 = "before 1.33"
    """abs(1 - ratio) <= tolerance: at 10 replicas a wish for 11 is outside."""


class PolicyKind(enum.Enum):
    """What a policy counts in."""

    PODS = "Pods"
    PERCENT = "Percent"


class Select(enum.Enum):
    """Which of several policies counts: the one that allows the most change, the least, or none at all."""

    MAX = "Max"
    MIN = "Min"
    DISABLED = "Disabled"


@dataclass(frozen=True, slots=True)
class ScalingPolicy:
    """At most ``value`` pods, or per cent of the replicas, of change in any ``period_s`` seconds."""

    kind: PolicyKind
    value: int
    period_s: float


@dataclass(frozen=True, slots=True)
class ScalingRules:
    """One direction of an HPA's behaviour."""

    policies: tuple[ScalingPolicy, ...]
    window_s: float
    """Stabilisation window, in seconds."""
    tolerance: float = DEFAULT_TOLERANCE
    select: Select = Select.MAX

    def __post_init__(self) -> None:
        if not self.policies:
            raise ValueError("a direction of scaling has at least one policy, as the API server demands")


@dataclass(frozen=True, slots=True)
class Behavior:
    """An HPA's behaviour; the defaults are those that the API server fills in when a part of it is given."""

    up: ScalingRules = ScalingRules(
        (ScalingPolicy(PolicyKind.PERCENT, 100, 15.0), ScalingPolicy(PolicyKind.PODS, 4, 15.0)), window_s=0.0
    )
    down: ScalingRules = ScalingRules((ScalingPolicy(PolicyKind.PERCENT, 100, 15.0),), window_s=_DEFAULT_DOWN_WINDOW_S)


def undamped(tolerance: float) -> Behavior:
    """Return the default policies without stabilisation windows: the law damps already.

    Args:
        tolerance: Relative change that is ignored, up and down.
    """
    default = Behavior()
    return Behavior(
        ScalingRules(default.up.policies, window_s=0.0, tolerance=tolerance),
        ScalingRules(default.down.policies, window_s=0.0, tolerance=tolerance),
    )


EXACT: Final = undamped(0.0)
"""The behaviour of our manifests: what the metric says is done, since the law has windows and a dead band itself."""


@dataclass(frozen=True, slots=True)
class HpaSpec:
    """What an HPA is told. ``target`` is the AverageValue; ``behavior`` None = not set in the manifest."""

    min_replicas: int
    max_replicas: int
    target: float = 1.0
    behavior: Behavior | None = field(default_factory=Behavior)
    tolerance_rule: ToleranceRule = ToleranceRule.SINCE_1_33

    def __post_init__(self) -> None:
        if not 1 <= self.min_replicas <= self.max_replicas or milli(self.target) < 1:
            raise ValueError(f"an HPA needs 1 <= min <= max replicas and a target of at least 0.001, not {self}")


def answered_value(as_float: float, as_int: int) -> float:
    """Return which field of an external scaler's answer KEDA takes: the float when it is above 0, else the integer."""
    return as_float if as_float > 0 else float(as_int)


def milli(value: float) -> int:
    """Return a metric value as KEDA hands it on: rounded to three decimals; 0 when negative or not finite."""
    if not math.isfinite(value) or value < 0:
        return 0
    return round(float(f"{value:.3f}") * 1000)


def proposed_replicas(value: float, *, status_replicas: int, spec: HpaSpec) -> int:
    """Return what an HPA makes of an AverageValue metric before any limit.

    Within the tolerance it is ``status_replicas``; else value / target, rounded up. At 10 replicas and target 1, with a
    tolerance of 0.1: 11 gives 10, 12 gives 12, and 8.5 gives 9.

    Args:
        value: Sum of the metric's values.
        status_replicas: The workload's status.replicas; ready or not makes no difference.
        spec: Target and tolerances.
    """
    usage, target = milli(value), milli(spec.target)
    if status_replicas > 0 and _within_tolerance(usage / (target * status_replicas), spec):
        return status_replicas
    return min(_MAX_INT32, math.ceil(usage / target))


def _within_tolerance(ratio: float, spec: HpaSpec) -> bool:
    up = spec.behavior.up.tolerance if spec.behavior else DEFAULT_TOLERANCE
    down = spec.behavior.down.tolerance if spec.behavior else DEFAULT_TOLERANCE
    if spec.tolerance_rule is ToleranceRule.SINCE_1_33:
        return 1.0 - down <= ratio <= 1.0 + up
    return abs(1.0 - ratio) <= (up if ratio > 1 else down)


@dataclass(frozen=True, slots=True)
class _Change:
    """An instant, and either a recommendation or the number of replicas added (or removed) then."""

    at: float
    replicas: int


class HpaController:
    """One HPA, with what it remembers between two syncs.

    Args:
        spec: What it is told.
    """

    def __init__(self, spec: HpaSpec) -> None:
        self.spec = spec
        self._recommendations: deque[_Change] = deque()
        self._added: deque[_Change] = deque()
        self._removed: deque[_Change] = deque()

    def sync(
        self,
        now: float,
        *,
        spec_replicas: int,
        status_replicas: int,
        value: float | None,
        further: Sequence[float | None] = (),
    ) -> int:
        """Return the new spec.replicas.

        Of several metrics the one that asks for most counts. While one of them cannot be had, nothing scales down.

        Args:
            now: Time in seconds, not before the last sync's.
            spec_replicas: The workload's spec.replicas; 0 switches the HPA off.
            status_replicas: The workload's status.replicas.
            value: The metric, or None when it could not be had: then nothing changes but the limits.
            further: Further metrics, each in units of the target.
        """
        if not self._recommendations:
            self._recommendations.append(_Change(now, spec_replicas))
        if spec_replicas == 0:
            return 0
        if not self.spec.min_replicas <= spec_replicas <= self.spec.max_replicas:
            return self._carry_out(now, spec_replicas, self._clamp(spec_replicas))
        known = [each for each in (value, *further) if each is not None]
        proposal = max(
            (proposed_replicas(each, status_replicas=status_replicas, spec=self.spec) for each in known), default=None
        )
        if proposal is None or (len(known) <= len(further) and proposal < spec_replicas):
            return spec_replicas
        desired = self._stabilised(now, spec_replicas, proposal)
        if self.spec.behavior is None:
            limit = max(_DEFAULT_UP_FACTOR * spec_replicas, _DEFAULT_UP_REPLICAS)
            desired = self._clamp(min(desired, limit))
        else:
            desired = self._limited(now, spec_replicas, desired, self.spec.behavior)
        return self._carry_out(now, spec_replicas, desired)

    def _stabilised(self, now: float, current: int, proposal: int) -> int:
        """Damp the proposal: up at most to the lowest, down at least to the highest one of the windows."""
        behavior = self.spec.behavior
        up_window_s = behavior.up.window_s if behavior else 0.0
        down_window_s = behavior.down.window_s if behavior else _DEFAULT_DOWN_WINDOW_S
        up = [proposal, *_newer(self._recommendations, now - up_window_s)]
        down = [proposal, *_newer(self._recommendations, now - down_window_s)]
        self._recommendations.append(_Change(now, proposal))
        _forget(self._recommendations, now - max(up_window_s, down_window_s))
        return min(max(current, min(up)), max(down))

    def _limited(self, now: float, current: int, desired: int, behavior: Behavior) -> int:
        """Apply the policies, and the minimum and maximum."""
        if desired > current:
            start = self._period_start(now, current)
            limit = _limit(behavior.up, start, current, grow=True)
            return min(desired, max(limit, current), self.spec.max_replicas)
        if desired < current:
            start = self._period_start(now, current)
            limit = _limit(behavior.down, start, current, grow=False)
            return max(desired, min(limit, current), self.spec.min_replicas)
        return desired

    def _period_start(self, now: float, current: int) -> Callable[[ScalingPolicy], int]:
        """Return how many replicas there were when a policy's period began."""

        def start(policy: ScalingPolicy) -> int:
            since = now - policy.period_s
            return current - sum(_newer(self._added, since)) + sum(_newer(self._removed, since))

        return start

    def _carry_out(self, now: float, current: int, desired: int) -> int:
        """Remember a change for the policies' periods."""
        if desired != current:
            (self._added if desired > current else self._removed).append(_Change(now, abs(desired - current)))
        behavior = self.spec.behavior or Behavior()
        longest_s = max(policy.period_s for policy in (*behavior.up.policies, *behavior.down.policies))
        for changes in (self._added, self._removed):
            _forget(changes, now - longest_s)
        return desired

    def _clamp(self, replicas: int) -> int:
        return max(self.spec.min_replicas, min(self.spec.max_replicas, replicas))


def _limit(rules: ScalingRules, start: Callable[[ScalingPolicy], int], current: int, *, grow: bool) -> int:
    """Return how far the policies let the replicas go."""
    if rules.select is Select.DISABLED:
        return current
    limits = [_policy_limit(policy, start(policy), grow=grow) for policy in rules.policies]
    return max(limits) if grow is (rules.select is Select.MAX) else min(limits)


def _policy_limit(policy: ScalingPolicy, start: int, *, grow: bool) -> int:
    sign = 1 if grow else -1
    if policy.kind is PolicyKind.PODS:
        return start + sign * policy.value
    share = start * (1 + sign * policy.value / 100)
    return math.ceil(share) if grow else int(share)


def _newer(changes: Iterable[_Change], since: float) -> list[int]:
    return [change.replicas for change in changes if change.at > since]


def _forget(changes: deque[_Change], since: float) -> None:
    """Drop what is too old to matter, but keep the newest: an HPA that has recommended once has a memory."""
    while len(changes) > 1 and changes[0].at <= since:
        changes.popleft()
