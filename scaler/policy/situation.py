"""All that one decision rests on, derived once, so that deciding and explaining look at the same thing."""

from dataclasses import dataclass
from typing import Final

from scaler.model import Observation, PoolPolicy, SignalWindows
from scaler.policy.combine import Sustained
from scaler.policy.history import History
from scaler.policy.needs import Assessment

INCREASE_HELD_TICKS: Final = 4
"""An increase stays published for so many ticks at least: the HPA looks only every 15 s and must not miss it."""
BURST_FACTOR: Final = 2
"""A load that needs so many times the replicas is no noise."""
# Ticks and cooldowns are floats: 30 s after must count as 30 s after.
_ROUNDING_S: Final = 1e-6


@dataclass(frozen=True, slots=True)
class Situation:
    """All that a decision rests on, derived once."""

    policy: PoolPolicy
    observation: Observation
    history: History
    """The past before this tick, with this tick appended to ``ticks``."""
    requested: int
    serving: int | None
    assessments: tuple[Assessment, ...]
    """Each signal now, in the order of ``SIGNALS``."""
    sustained: tuple[Sustained, ...]
    """Each signal over its windows, in the same order."""
    up: int | None
    """up(t): the greatest sustained up-need, None when no signal has a vote."""
    down: int | None
    """down(t): the greatest down-need, None unless every signal has a vote."""

    @property
    def now(self) -> float:
        """This tick's time."""
        return self.observation.at

    @property
    def pending(self) -> int:
        """Requested replicas that do not serve yet."""
        return max(0, self.requested - (self.serving or 0))

    @property
    def is_burst(self) -> bool:
        """Whether the load needs at least twice the replicas right now."""
        need = self.assessments[0].need.up
        return need is not None and self.requested >= 1 and need >= BURST_FACTOR * self.requested

    @property
    def increase_pending(self) -> bool:
        """Whether the last increase is neither carried out nor old enough to be withdrawn."""
        target, since = self.history.target, self.history.increased_at
        if target is None or since is None or target <= self.requested:
            return False
        return self.now - since < INCREASE_HELD_TICKS * self.policy.tick_s - _ROUNDING_S

    @property
    def held(self) -> int:
        """What a hold publishes: n, or the increase that is still on its way."""
        target = self.history.target
        return max(self.requested, target) if target is not None and self.increase_pending else self.requested

    def seconds_left(self, since: float | None, span_s: float) -> float:
        """Return how much of ``span_s`` after ``since`` is still to go; 0 when it is over or never began."""
        if since is None:
            return 0.0
        left = since + span_s - self.now
        return left if left > _ROUNDING_S else 0.0


def signal_windows(policy: PoolPolicy) -> tuple[SignalWindows, ...]:
    """Return each signal's windows, in the order of ``SIGNALS``."""
    return policy.saturation_windows, policy.kv_cache_windows, policy.ttft_p95_windows
