"""The service's own law as it runs live, behind the interface that all laws in the arena have."""

import math

from scaler.model import Decision, PoolPolicy
from scaler.policy.decide import advance
from scaler.policy.history import History
from scaler.sim.hpa import HpaSpec, answered_value
from scaler.sim.law import NO_ANSWER, Answer, Seen
from scaler.sim.observe import observe


class LiveLaw:
    """Observation, decision and answer exactly as the service has them.

    Args:
        policy: What the trigger's metadata says.
        hpa: What the ScaledObject says.
    """

    def __init__(self, policy: PoolPolicy, hpa: HpaSpec) -> None:
        self.policy = policy
        self.hpa: HpaSpec | None = hpa
        self.decision: Decision | None = None
        """The newest decision."""
        self._history = History()

    @property
    def tick_s(self) -> float | None:
        """The service's evaluation interval."""
        return self.policy.tick_s

    def answer(self, seen: Seen) -> Answer:
        """Decide, and answer KEDA."""
        observation = observe(self.policy.locator, seen.scraped, seen.workload, seen.at)
        self._history, self.decision = advance(self.policy, self._history, observation)
        value = self.decision.reported_value
        return NO_ANSWER if value is None else (answered_value(value, math.ceil(value)),)
