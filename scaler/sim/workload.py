"""Traffic: how many requests arrive when, and how long they are. Seeded: the same seed gives the same traffic.

In an open loop nobody waits for an answer before the next request comes. In a closed loop each client does, so a slow
system is asked less.
"""

import math
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Final, NamedTuple, Protocol

from scaler.sim.request import Outcome, Request

# Straight pieces that make a smooth curve of load; a cosine is met within 0.3 % of its height.
_PIECES: Final = 48


class Stream(NamedTuple):
    """Requests as they come."""

    arrivals: Iterator[Request]
    """In the order of their arrival."""
    follow_up: Callable[[Outcome], Request | None] | None = None
    """Takes each outcome and gives the request that its client sends next; None in an open loop."""


class Load(Protocol):
    """What can be put on a fleet."""

    @property
    def duration_s(self) -> float:
        """Seconds from time 0 in which requests arrive."""
        ...

    def open(self, seed: int) -> Stream:
        """Begin."""
        ...


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

    @property
    def mean(self) -> float:
        """The mean, while ``longest`` cuts off little: a median of 100 with a spread of 1 has 165."""
        return self.median * math.exp(self.spread**2 / 2)

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
    at, peak, begin = 0.0, profile.peak_rate, 0.0
    phases = iter(profile.phases)
    phase = next(phases)
    while peak > 0:
        at += source.expovariate(peak)
        while at >= begin + phase.duration_s:
            begin += phase.duration_s
            following = next(phases, None)
            if following is None:
                return
            phase = following
        rate = phase.start_rate + (phase.end_rate - phase.start_rate) * (at - begin) / phase.duration_s
        # Thinning: draw at the highest rate, and keep each arrival with the share that the rate has of it now.
        if source.random() * peak < rate:
            yield Request(at, prompt_tokens=prompt.draw(source), output_tokens=output.draw(source))


def gamma_arrivals(
    profile: LoadProfile, *, variation: float, prompt: TokenLengths, output: TokenLengths, seed: int
) -> Iterator[Request]:
    """Yield requests whose gaps scatter more than those of a Poisson process, or less: bursts and lulls.

    Gaps are gamma-distributed on a clock that runs with the rate, so the profile's rate is kept on average.

    Args:
        profile: The rate over time.
        variation: Standard deviation of the gaps over their mean: 1 is Poisson, 4 comes in bursts, 0.2 is almost even.
        prompt: Lengths of the prompts, in tokens.
        output: Lengths of the answers, in tokens.
        seed: The same seed gives the same traffic.
    """
    source = random.Random(seed)
    shape = variation**-2
    begin, gap = 0.0, source.gammavariate(shape, 1 / shape)
    for phase in profile.phases:
        expected = phase.duration_s * (phase.start_rate + phase.end_rate) / 2
        done = 0.0
        while done + gap <= expected and expected > 0:
            done += gap
            at = begin + _when(phase, done)
            yield Request(at, prompt_tokens=prompt.draw(source), output_tokens=output.draw(source))
            gap = source.gammavariate(shape, 1 / shape)
        gap -= expected - done
        begin += phase.duration_s


def _when(phase: LoadPhase, expected: float) -> float:
    """Return after how many seconds of a phase so many arrivals are expected."""
    slope = (phase.end_rate - phase.start_rate) / phase.duration_s
    root = math.sqrt(max(0.0, phase.start_rate**2 + 2 * slope * expected))
    return min(phase.duration_s, 2 * expected / (phase.start_rate + root))


@dataclass(frozen=True, slots=True)
class Traffic:
    """An open loop: the rate over time, and the lengths of prompts and answers."""

    profile: LoadProfile
    prompt: TokenLengths
    output: TokenLengths
    variation: float = 1.0
    """How gaps scatter, see ``gamma_arrivals``; 1 = independent of each other (Poisson)."""

    def __post_init__(self) -> None:
        if not 0 < self.variation < math.inf:
            raise ValueError(f"the variation of gaps is a number above zero, not {self.variation}")

    @property
    def duration_s(self) -> float:
        """Length of the profile."""
        return self.profile.duration_s

    def open(self, seed: int) -> Stream:
        """Begin."""
        if self.variation == 1:
            return Stream(poisson_arrivals(self.profile, prompt=self.prompt, output=self.output, seed=seed))
        return Stream(
            gamma_arrivals(self.profile, variation=self.variation, prompt=self.prompt, output=self.output, seed=seed)
        )


@dataclass(frozen=True, slots=True)
class InSequence:
    """Open loops, one after the other."""

    parts: tuple[Load, ...]

    @property
    def duration_s(self) -> float:
        """Length of all parts together."""
        return sum(part.duration_s for part in self.parts)

    def open(self, seed: int) -> Stream:
        """Begin.

        Raises:
            ValueError: A part is a closed loop, whose end is not known in advance.
        """
        streams = [part.open(seed + index) for index, part in enumerate(self.parts)]
        if any(stream.follow_up is not None for stream in streams):
            raise ValueError("only open loops can follow one another")
        return Stream(self._arrivals(streams))

    def _arrivals(self, streams: list[Stream]) -> Iterator[Request]:
        begin = 0.0
        for part, stream in zip(self.parts, streams, strict=True):
            for request in stream.arrivals:
                yield replace(request, arrived_at=begin + request.arrived_at)
            begin += part.duration_s


@dataclass(frozen=True, slots=True)
class ClosedLoop:
    """Clients that each send a request, wait for the answer, and send the next: a fixed concurrency."""

    clients: int
    requests: int
    """Requests of all clients together."""
    prompt: TokenLengths
    output: TokenLengths
    duration_s: float
    """No request is sent later."""
    think_s: float = 0.0
    """Pause of a client between an answer and its next request."""

    def __post_init__(self) -> None:
        if self.clients < 1 or self.requests < 1 or self.duration_s <= 0 or self.think_s < 0:
            raise ValueError(f"a closed loop has clients, requests and a length above zero: {self}")

    def open(self, seed: int) -> Stream:
        """Begin: every client sends its first request at time 0."""
        source = random.Random(seed)
        first = min(self.clients, self.requests)
        left = self.requests - first

        def draw(at: float) -> Request:
            return Request(at, prompt_tokens=self.prompt.draw(source), output_tokens=self.output.draw(source))

        def follow_up(outcome: Outcome) -> Request | None:
            nonlocal left
            at = outcome.ended_at + self.think_s
            if not left or at > self.duration_s:
                return None
            left -= 1
            return draw(at)

        return Stream(iter([draw(0.0) for _ in range(first)]), follow_up)


def steps(*phases: tuple[float, float]) -> LoadProfile:
    """Return a rate that stays and jumps: (seconds, requests per second), one after the other."""
    return LoadProfile(tuple(LoadPhase(f"{rate:g}/s", seconds, rate, rate) for seconds, rate in phases))


def ramp(duration_s: float, start_rate: float, end_rate: float) -> LoadProfile:
    """Return a rate that goes evenly from one value to another."""
    return LoadProfile((LoadPhase("ramp", duration_s, start_rate, end_rate),))


def diurnal(duration_s: float, low: float, high: float) -> LoadProfile:
    """Return a day: a cosine that begins and ends at its ``low`` and is at its ``high`` in the middle."""
    rates = [low + (high - low) * (1 - math.cos(2 * math.pi * index / _PIECES)) / 2 for index in range(_PIECES + 1)]
    length_s = duration_s / _PIECES
    return LoadProfile(tuple(LoadPhase("day", length_s, rates[index], rates[index + 1]) for index in range(_PIECES)))


def flash_crowd(base: float, peak: float, *, quiet_s: float, rise_s: float, hold_s: float, ebb_s: float) -> LoadProfile:
    """Return a calm that a crowd breaks into, and that comes back when the crowd has gone."""
    return LoadProfile(
        (
            LoadPhase("quiet", quiet_s, base, base),
            LoadPhase("rise", rise_s, base, peak),
            LoadPhase("crowd", hold_s, peak, peak),
            LoadPhase("ebb", ebb_s, peak, base),
            LoadPhase("quiet", quiet_s, base, base),
        )
    )
