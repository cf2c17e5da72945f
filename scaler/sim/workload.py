"""Traffic: how many requests arrive when, and how long they are. Open loop, seeded."""

import math
import random
from collections.abc import Iterator
from dataclasses import dataclass

from scaler.sim.request import Request


@dataclass(frozen=True, slots=True)
class LoadPhase:
    """A stretch of time in which the rate of arrivals goes evenly from one value to another, in requests per second."""

    name: str
    duration_s: float
    start_rate: float
    end_rate: float

    @property
    def steady(self) -> bool:
        """Whether the rate stays the same."""
        return self.start_rate == self.end_rate


@dataclass(frozen=True, slots=True)
class LoadProfile:
    """Phases, one after the other, from time 0; there are no arrivals after the last."""

    phases: tuple[LoadPhase, ...]

    def __post_init__(self) -> None:
        if not self.phases or any(min(each.duration_s, each.start_rate, each.end_rate) < 0 for each in self.phases):
            raise ValueError("a load profile has at least one phase, and its times and rates are zero or more")

    @property
    def duration_s(self) -> float:
        """Length of all phases together."""
        return sum(phase.duration_s for phase in self.phases)

    @property
    def peak_rate(self) -> float:
        """The highest rate of all, in requests per second."""
        return max(max(phase.start_rate, phase.end_rate) for phase in self.phases)

    def phase_at(self, at: float) -> tuple[LoadPhase, float]:
        """Return the phase at ``at`` and when it began; after the end, the last one."""
        begin = 0.0
        for phase in self.phases:
            if at < begin + phase.duration_s:
                return phase, begin
            begin += phase.duration_s
        return self.phases[-1], begin - self.phases[-1].duration_s

    def rate_at(self, at: float) -> float:
        """Return the rate at ``at`` in requests per second; 0 outside the profile."""
        if not 0 <= at < self.duration_s:
            return 0.0
        phase, begin = self.phase_at(at)
        return phase.start_rate + (phase.end_rate - phase.start_rate) * (at - begin) / phase.duration_s


@dataclass(frozen=True, slots=True)
class TokenLengths:
    """Lengths that scatter log-normally around a median, as those of real traffic do."""

    median: int
    spread: float
    """Standard deviation of the logarithm: 0 = all alike, 0.3 = two thirds within a factor of 1.35."""
    longest: int

    def draw(self, source: random.Random) -> int:
        """Draw one length, from 1 to ``longest`` tokens."""
        return max(1, min(self.longest, round(self.median * math.exp(source.gauss(0.0, self.spread)))))


def poisson_arrivals(
    profile: LoadProfile, *, prompt: TokenLengths, output: TokenLengths, seed: int
) -> Iterator[Request]:
    """Yield requests that arrive independently of each other at the profile's rate (a Poisson process).

    Args:
        profile: The rate over time.
        prompt: Lengths of the prompts, in tokens.
        output: Lengths of the answers, in tokens.
        seed: The same seed gives the same traffic.
    """
    source = random.Random(seed)
    at, peak = 0.0, profile.peak_rate
    while peak > 0:
        at += source.expovariate(peak)
        if at >= profile.duration_s:
            return
        # Thinning: draw at the highest rate, and keep each arrival with the share that the rate has of it now.
        if source.random() * peak < profile.rate_at(at):
            yield Request(at, prompt_tokens=prompt.draw(source), output_tokens=output.draw(source))
