"""Many runs against one SLO: which rates a replica carries, and between which two its capacity lies.

Repetitions of a rate are no sample to be pooled: requests of one run share its arrivals and its queue. So each run
passes or fails by itself, a rate passes when all of its runs do, and what is shown of it is the worst run: its floor.
The capacity lies between the largest rate that passed and the smallest above it that failed. Both are given, and no
number between them.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Final

from scaler.capacity.findings import Finding, check
from scaler.capacity.measure import Measured, Outcome, measure
from scaler.capacity.results import BenchResult
from scaler.capacity.slo import Slo

DEFAULT_REPETITIONS: Final = 3
"""The fewest runs of a rate from which a capacity is named. One or two of a scattering measure say nothing of it."""


@dataclass(frozen=True, slots=True)
class Level:
    """All runs at one rate."""

    rate: float
    """Requests per second."""
    runs: tuple[Measured, ...]

    @property
    def floor(self) -> float:
        """The least attainment of its runs."""
        return min(run.attainment[0] for run in self.runs)

    @property
    def outcome(self) -> Outcome:
        """Failed when one run did, passed when all did."""
        outcomes = {run.outcome for run in self.runs}
        return next(each for each in (Outcome.FAILED, Outcome.UNKNOWN, Outcome.PASSED) if each in outcomes)

    @property
    def failures(self) -> tuple[str, ...]:
        """What its runs failed at, or what of them is not known: the name of each check, once."""
        names = [check.name for run in self.runs for check in run.checks if check.outcome is self.outcome]
        return () if self.outcome is Outcome.PASSED else tuple(dict.fromkeys(names))

    @property
    def in_flight(self) -> float | None:
        """Requests in flight by Little's law: the rate times the mean time in the system."""
        times = [run.e2e.mean for run in self.runs if run.e2e.mean is not None]
        return self.rate * fmean(times) if times else None


@dataclass(frozen=True, slots=True)
class Capacity:
    """What one replica carries."""

    level: Level
    """The largest rate that all of enough repetitions passed: lambda*."""
    first_failed: float | None
    """The smallest rate above it that failed; None when none did, and the capacity may be larger."""

    @property
    def time_in_system_s(self) -> float | None:
        """Mean time in the system, over the repetitions."""
        in_flight = self.level.in_flight
        return None if in_flight is None else in_flight / self.level.rate

    def per_request(self, tokens: str) -> float:
        """Return the mean tokens of a request, ``prompt`` or ``output``."""
        runs = [run.result for run in self.level.runs]
        total = sum(run.prompt_tokens if tokens == "prompt" else run.output_tokens for run in runs)
        return total / sum(run.completed for run in runs)

    @property
    def tokens_in_flight(self) -> float | None:
        """Tokens that a request in flight holds in the KV cache at its end."""
        known = [run.tokens_in_flight for run in self.level.runs if run.tokens_in_flight is not None]
        return fmean(known) if known else None


@dataclass(frozen=True, slots=True)
class Sweep:
    """All that results say about one replica."""

    slo: Slo
    levels: tuple[Level, ...]
    """By rate."""
    set_aside: tuple[Measured, ...]
    """Runs whose load has no rate of its own: closed loops, bursts and ramps."""
    findings: tuple[Finding, ...]
    repetitions: int
    """The fewest that a capacity needs."""
    capacity: Capacity | None
    """None when the results do not support one; ``findings`` and ``why_not`` say why."""

    @property
    def passed(self) -> Level | None:
        """The largest rate below all failures that passed, in however many repetitions."""
        return _last_passed(self.levels, repetitions=1)

    @property
    def failed(self) -> Level | None:
        """The smallest rate that failed."""
        return next((level for level in self.levels if level.outcome is Outcome.FAILED), None)

    @property
    def most_tokens_per_s(self) -> tuple[float, float]:
        """The highest rates of prompt and of output tokens of any run."""
        runs = [run.result for level in self.levels for run in level.runs] + [run.result for run in self.set_aside]
        prompt = max(run.prompt_tokens / run.duration_s for run in runs)
        return prompt, max(run.output_tokens / run.duration_s for run in runs)

    @property
    def why_not(self) -> tuple[str, ...]:
        """Why no capacity is named, in sentences; empty when one is."""
        if self.capacity is not None:
            return ()
        blocking = tuple(finding.text for finding in self.findings if finding.blocks)
        if blocking:
            return blocking
        if self.passed is None:
            if self.failed is not None:
                return (f"the lowest rate, {self.failed.rate:g} req/s, failed: measure lower ones",)
            return ("no rate could be judged by all checks: run with --save-detailed",)
        runs = len(self.passed.runs)
        times = "once" if runs == 1 else f"{runs} times"
        return (f"{self.passed.rate:g} req/s passed {times}, and {self.repetitions} repetitions are the least",)


def fit(results: Iterable[BenchResult], slo: Slo, *, warmup: int = 0, repetitions: int = DEFAULT_REPETITIONS) -> Sweep:
    """Judge all runs and find the capacity.

    Args:
        results: The runs, in the order in which they were made.
        slo: What each has to keep to.
        warmup: Requests at the start of each run that are not judged.
        repetitions: The fewest runs of a rate that a capacity needs.

    Raises:
        ResultError: A run has nothing to judge.
    """
    given = list(results)
    runs = [measure(result, slo, warmup=warmup) for result in _without_copies(given)]
    findings = check(runs, copies=len(given) - len(runs), repetitions=repetitions)
    by_rate: dict[float, list[Measured]] = {}
    set_aside = []
    for run in runs:
        rate = run.rate
        if rate is None:
            set_aside.append(run)
        else:
            by_rate.setdefault(rate, []).append(run)
    levels = tuple(Level(rate, tuple(by_rate[rate])) for rate in sorted(by_rate))
    passed = None if any(finding.blocks for finding in findings) else _last_passed(levels, repetitions)
    failed = next((level.rate for level in levels if level.outcome is Outcome.FAILED), None)
    capacity = None if passed is None else Capacity(passed, failed)
    return Sweep(slo, levels, tuple(set_aside), findings, repetitions, capacity)


def _without_copies(results: Sequence[BenchResult]) -> list[BenchResult]:
    """Drop a result that was given twice: it is one repetition."""
    return list({(each.date, each.duration_s, each.completed, each.offered_rate): each for each in results}.values())


def _last_passed(levels: Iterable[Level], repetitions: int) -> Level | None:
    """Return the largest rate below all failures that passed in so many repetitions."""
    found = None
    for level in levels:
        if level.outcome is Outcome.FAILED:
            break
        if level.outcome is Outcome.PASSED and len(level.runs) >= repetitions:
            found = level
    return found
