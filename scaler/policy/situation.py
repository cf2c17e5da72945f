"""All that one decision rests on, derived once, so that deciding and explaining look at the same thing."""

from dataclasses import dataclass
from typing import Final

from scaler.model import Absent, Observation, PoolPolicy, Protection, Reading
from scaler.policy import needs, wedges
from scaler.policy.combine import Sustained
from scaler.policy.history import ROUNDING_S, Filling, History
from scaler.policy.needs import Assessment, Growth

CHANGE_HELD_TICKS: Final = 4
"""A change stays published for so many ticks at least: the HPA looks only every 15 s and must not miss it, and what it
did is seen only with the next scrape of kube-state-metrics. Publishing n before would undo it."""
BURST_FACTOR: Final = 2
"""A load that needs so many times the replicas is no noise."""
BURST_STEP: Final = 2
"""Nor is one that needs so many more; twice as many as one replica is one more, which noise asks for every hour."""


@dataclass(frozen=True)
class Situation:
    """All that a decision rests on, derived once."""

    policy: PoolPolicy
    observation: Observation
    history: History
    """The past before this decision, with this tick in it."""
    coming: Growth
    """What is on its way to replicas that are all full."""
    requested: int
    serving: int | None
    assessments: tuple[Assessment, ...]
    """Each signal now, in the order of ``PoolPolicy.signals``."""
    sustained: tuple[Sustained, ...]
    """Each signal over its windows, in the same order."""
    up: int | None
    """up(t): the greatest sustained up-need, None when no signal has a vote."""
    down: int | None
    """down(t): the greatest down-need, None unless every signal has a vote."""
    filling: Filling | None = None
    """How far the past is read; None when it is all there."""

    @property
    def now(self) -> float:
        """This tick's time."""
        return self.observation.at

    @property
    def is_filling(self) -> bool:
        """Whether the past is still being read, so that nothing may be decided by it."""
        return self.filling is not None and not self.filling.given_up

    @property
    def working(self) -> int:
        """The replicas that are there for the load: the requested ones less the spare."""
        return max(0, self.requested - self.policy.warm_replicas)

    @property
    def burst_need(self) -> int | None:
        """What the load needs right now, if that is more than noise explains.

        It is at least twice the replicas, and two more. Or it is more than there are even without the requests that
        noise may have added. Or it grows. Where every replica is full, all that waits tells whether it is noise, though
        each queue counts for its replica's slots only.
        """
        value, need = self.assessments[0].value, self.assessments[0].need
        if isinstance(value, Absent) or need.up is None or self.requested < 1 or need.up <= self.working:
            return None
        policy, saturation = self.policy, self.policy.signals[0]
        everything = needs.in_flight(self.observation)
        # What a wedged replica keeps back tells nothing of the load.
        has_wedged = bool(wedges.wedged(self.history.wedges, self.now))
        is_full = not has_wedged and not wedges.has_room(self.observation, policy.slots_per_replica)
        if is_full and not isinstance(everything, Absent):
            value = everything
        is_certain = (
            self.coming.further > 0
            or needs.certain_saturation_need(policy, saturation, value) > self.working
            or needs.saturation_up_need(policy, saturation, value)
            >= max(BURST_FACTOR * self.requested, self.requested + BURST_STEP)
        )
        return need.up if is_certain else None

    @property
    def wanted(self) -> int | None:
        """What is to be scaled up to, spare replicas included; None when no signal has a vote."""
        asked = [need for need in (self.up, self.burst_need) if need is not None]
        return max(asked) + self.policy.warm_replicas if asked else None

    @property
    def interrupted(self) -> int | None:
        """The increase that was published last, if it is still asked for, and lost ticks alone emptied its window."""
        target = self.history.target
        if target is None or target <= self.requested or self.is_stuck:
            return None
        window = max(signal.windows.scale_up for signal in self.policy.signals)
        has_lost = any(all(need.up is None for need in tick.needs) for tick in self.history.ticks[-window:])
        asked = max((each.need.up for each in self.assessments if each.need.up is not None), default=0)
        return target if has_lost and asked + self.policy.warm_replicas >= target else None

    @property
    def releasable(self) -> int | None:
        """What may be scaled down to, spare replicas included; None unless every signal has a vote."""
        return None if self.down is None else self.down + self.policy.warm_replicas

    @property
    def pending(self) -> int:
        """Requested replicas that are neither serving nor ready; 0 while it is not known who serves."""
        if self.serving is None:
            return 0
        ready = self.observation.ready
        return max(0, self.requested - max(self.serving, 0 if isinstance(ready, Absent) else int(ready)))

    @property
    def starting_for_s(self) -> float:
        """How long replicas have been starting without progress."""
        since = self.history.starting_since
        return 0.0 if since is None else self.now - since

    @property
    def is_stuck(self) -> bool:
        """Whether replicas have been starting for longer than a cold start may take."""
        return self.pending > 0 and self.starting_for_s > self.policy.cold_start_timeout_s

    @property
    def change_pending(self) -> bool:
        """Whether the last change is neither seen to be carried out nor old enough to be withdrawn."""
        target, since = self.history.target, self.history.changed_at
        if target is None or since is None or target == self.requested:
            return False
        grown_at = self.history.grown_at
        if target < self.requested and grown_at is not None and grown_at > since:
            # Somebody has asked for more since the decrease: it is theirs that counts.
            return False
        return self.now - since < CHANGE_HELD_TICKS * self.policy.tick_s - ROUNDING_S

    @property
    def held(self) -> int:
        """What a hold publishes: n, or the change that is still on its way."""
        target = self.history.target
        return target if target is not None and self.change_pending else self.requested

    @property
    def activation(self) -> Reading:
        """What wakes the pool at zero replicas; missing where nothing does."""
        name = self.policy.activation
        extra = None if name is None else self.observation.extras.get(name)
        if extra is None:
            return Absent.MISSING
        return 0.0 if extra.value is Absent.NO_TRAFFIC else extra.value

    @property
    def lowest(self) -> int:
        """minReplicas; 1 instead of 0 unless what wakes the pool is known to be quiet."""
        if self.policy.min_replicas > 0 or self.activation == 0:
            return self.policy.min_replicas
        return 0 if self.requested == 0 else 1

    @property
    def queue_wait_s(self) -> Reading:
        """How long a request that comes now waits: queue by completion rate; no-traffic when nobody is served."""
        waiting, started = self.observation.waiting, self.observation.ttft_samples
        if isinstance(waiting, Absent) or isinstance(started, Absent):
            return Absent.MISSING
        if waiting == 0:
            return 0.0
        return waiting * self.policy.locator.rate_window_s / started if started > 0 else Absent.NO_TRAFFIC

    @property
    def protection(self) -> Protection:
        """How far the pool is beyond what it can be given."""
        wanted = self.wanted
        capped = wanted is not None and wanted > max(self.policy.highest_replicas, self.lowest)
        if not (capped or self.is_stuck):
            return Protection.NONE
        wait = self.queue_wait_s
        long_wait = wait is Absent.NO_TRAFFIC or (
            not isinstance(wait, Absent) and wait > self.policy.protect_queue_wait_s
        )
        return Protection.QUEUEING if long_wait else Protection.CAPPED

    def seconds_left(self, since: float | None, span_s: float) -> float:
        """Return how much of ``span_s`` after ``since`` is still to go; 0 when it is over or never began."""
        if since is None:
            return 0.0
        left = since + span_s - self.now
        return left if left > ROUNDING_S else 0.0
