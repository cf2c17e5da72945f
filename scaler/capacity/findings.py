"""What makes results unable to carry a conclusion, or weakens it; each with its reason and what to do.

A finding that blocks keeps a capacity from being named. The others are said beside it.
"""

import enum
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise
from statistics import median
from typing import Final

from scaler.capacity.measure import Latency, Measured, Outcome
from scaler.capacity.results import BenchResult, Load
from scaler.units import format_duration, format_number

BOUNDARY_REPETITIONS: Final = 10
"""Repetitions at the two ends of the bracket from which its floor is steady."""
FEW_REQUESTS: Final = 400
"""With fewer, chance alone moves an attainment of 95 % by more than one point (one standard deviation)."""
FILLED: Final = 10
"""A run that sends for so many times as long as its requests stay is at most a tenth of filling up."""
_SLOW: Final = 2.0
"""A P95 of more than twice the median at the first rate is no steady state."""
_ABOVE_OTHERS: Final = 1.5
_FASTER: Final = 0.5
_LENGTHS_DIFFER: Final = 0.1
_WARM: Final = 0.7
"""A median TTFT that falls to this share in a repetition did not have to compute its prompts."""
_CLIENT_WAIT_S: Final = 0.05
"""A free client sends within a millisecond; one that needs this long is busy with itself."""
_THIRDS: Final = 3
_LEAST_TO_COMPARE: Final = 20
_COMPARED_GAPS: Final = 200
_SAME_GAPS: Final = 0.9
_GAP_TOLERANCE_S: Final = 0.005
_NAMED: Final = 5


class Code(enum.StrEnum):
    """What was found."""

    CLOSED_LOOP = "closed_loop_only"
    REPETITIONS = "too_few_repetitions"
    MODELS = "different_models"
    SETTINGS = "mixed_settings"
    REPLICAS = "replicas"
    COLD_START = "cold_start"
    CLIENT = "client_saturated"
    CACHE = "prefix_cache_warm"
    ARRIVALS = "same_arrivals"
    DETAILS = "no_details"
    SHORT = "short_runs"
    COPIES = "copies"
    ORDER = "not_monotone"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is wrong, in a sentence that says why and what to do."""

    code: Code
    blocks: bool
    """Whether no capacity can be named because of it."""
    text: str


def check(runs: Sequence[Measured], *, repetitions: int, copies: int = 0) -> tuple[Finding, ...]:
    """Return what speaks against results, the blocking ones first.

    Args:
        runs: The runs, in the order in which they were made.
        repetitions: The fewest runs of a rate that a capacity needs.
        copies: Results that were given twice.
    """
    found = [
        *_models(runs),
        *_closed_loop(runs),
        *_settings(runs),
        *_replicas(runs),
        *_repetitions(runs, repetitions),
        *_order(runs),
        *_cold_start(runs),
        *_became_faster(runs),
        *_client(runs),
        *_cache(runs),
        *_arrivals(runs),
        *_details(runs),
        *_short(runs),
        *_filling(runs),
    ]
    if copies:
        found.append(Finding(Code.COPIES, blocks=False, text=f"{copies} result(s) were given twice and count once"))
    return tuple(sorted(found, key=lambda finding: not finding.blocks))


def _models(runs: Iterable[Measured]) -> Iterator[Finding]:
    models = sorted({run.result.model for run in runs})
    if len(models) > 1:
        text = f"the results are of {len(models)} models ({_some(models)}): give those of one"
        yield Finding(Code.MODELS, blocks=True, text=text)


def _closed_loop(runs: Sequence[Measured]) -> Iterator[Finding]:
    loads = {run.result.load for run in runs}
    if any(run.rate is not None for run in runs):
        return
    text = (
        f"no run has arrivals of its own ({_some(sorted(loads))}): where the client waits for answers or sends all at"
        " once, no queue shows what a rate does; run with --request-rate and without --max-concurrency"
    )
    yield Finding(Code.CLOSED_LOOP, blocks=True, text=text)


def _settings(runs: Sequence[Measured]) -> Iterator[Finding]:
    results = [run.result for run in runs if run.rate is not None]
    names = sorted({name for result in results for name in result.settings})
    differing = [
        f"{name} ({_some(values)})"
        for name in names
        if len(values := sorted({result.settings.get(name, "not given") for result in results})) > 1
    ]
    for name, of in _NUMBERS:
        numbers = {of(result) for result in results}
        if len(numbers) > 1:
            shown = sorted("none" if number is None else format_number(number) for number in numbers)
            differing.append(f"{name} ({_some(shown)})")
    for name, mean in _LENGTHS:
        lengths = [mean(result) for result in results if result.completed]
        if lengths and max(lengths) - min(lengths) > _LENGTHS_DIFFER * max(lengths):
            shown_lengths = f"{format_number(min(lengths))} to {format_number(max(lengths))} tokens"
            differing.append(f"mean {name} ({shown_lengths})")
    if differing:
        text = f"the runs differ in {'; '.join(differing)}: compare only runs that differ in rate and seed"
        yield Finding(Code.SETTINGS, blocks=True, text=text)


_NUMBERS: Final[tuple[tuple[str, Callable[[BenchResult], float | None]], ...]] = (
    ("burstiness", lambda result: result.burstiness if result.load is Load.OPEN else None),
    ("max_concurrency", lambda result: result.max_concurrency),
)
_LENGTHS: Final[tuple[tuple[str, Callable[[BenchResult], float]], ...]] = (
    ("prompt", lambda result: result.prompt_tokens / result.completed),
    ("answer", lambda result: result.output_tokens / result.completed),
)


def _replicas(runs: Iterable[Measured]) -> Iterator[Finding]:
    counts = {run.result.replicas for run in runs}
    if len(counts) > 1:
        shown = sorted("not recorded" if count is None else count for count in counts)
        text = f"the number of replicas changed between runs ({_some(shown)}): measure one replica, with scaling off"
        yield Finding(Code.REPLICAS, blocks=True, text=text)
    elif counts == {None}:
        text = (
            "the results do not say how many replicas answered, so they are taken to be of one"
            " (--metadata replicas=1 records it)"
        )
        yield Finding(Code.REPLICAS, blocks=False, text=text)
    elif counts - {"1"}:
        text = f"the results are of {_some(sorted(str(count) for count in counts))} replicas: measure one by itself"
        yield Finding(Code.REPLICAS, blocks=True, text=text)


def _repetitions(runs: Iterable[Measured], repetitions: int) -> Iterator[Finding]:
    counts: dict[float, int] = defaultdict(int)
    for run in runs:
        if run.rate is not None:
            counts[run.rate] += 1
    if not counts:
        return
    if max(counts.values()) < repetitions:
        most = max(counts.values())
        text = (
            f"no rate has more than {most} of the {repetitions} repetitions that a capacity needs: a run says how it"
            " went, and not how it goes"
        )
        yield Finding(Code.REPETITIONS, blocks=True, text=text)
        return
    few = [f"{count} at {rate:g} req/s" for rate, count in sorted(counts.items()) if count < BOUNDARY_REPETITIONS]
    if few:
        text = (
            f"repetitions are few ({_some(few)}): make it {BOUNDARY_REPETITIONS} to 12 seeds at the two ends of the"
            " bracket, since a floor falls with each that is added"
        )
        yield Finding(Code.REPETITIONS, blocks=False, text=text)


def _order(runs: Iterable[Measured]) -> Iterator[Finding]:
    outcomes: dict[float, set[Outcome]] = defaultdict(set)
    for run in runs:
        if run.rate is not None:
            outcomes[run.rate].add(run.outcome)
    failed = min((rate for rate, seen in outcomes.items() if Outcome.FAILED in seen), default=None)
    passed = max((rate for rate, seen in outcomes.items() if seen == {Outcome.PASSED}), default=None)
    if failed is not None and passed is not None and passed > failed:
        text = (
            f"{passed:g} req/s passed and {failed:g} req/s failed, which load cannot explain: look at what else ran"
            f" during the runs at {failed:g} req/s, and repeat both"
        )
        yield Finding(Code.ORDER, blocks=False, text=text)


def _cold_start(runs: Sequence[Measured]) -> Iterator[Finding]:
    if not runs:
        return
    first, others = runs[0], [run for run in runs[1:] if run.rate == runs[0].rate]
    if any(each.name == "queue" and each.outcome is Outcome.FAILED for each in first.checks):
        return  # its last requests were slow for the queue's sake
    for name, of in _LATENCIES:
        spread = _spread(of(first))
        usual = [each for run in others if (each := _spread(of(run))) is not None]
        if spread is None or spread <= max(_SLOW, _ABOVE_OTHERS * median(usual) if usual else 0):
            continue
        latency = of(first)
        text = (
            f"the first run ({first.result.source}) has a P95 {name} of {format_duration(latency.p95 or 0)} and a"
            f" median of {format_duration(latency.p50 or 0)}: {_where_slow(first, name)}"
        )
        yield Finding(Code.COLD_START, blocks=False, text=text)
        return


_LATENCIES: Final[tuple[tuple[str, Callable[[Measured], Latency]], ...]] = (
    ("TTFT", lambda run: run.ttft),
    ("E2E", lambda run: run.e2e),
)


def _spread(latency: Latency) -> float | None:
    return latency.p95 / latency.p50 if latency.p95 is not None and latency.p50 else None


def _where_slow(run: Measured, name: str) -> str:
    """Say whether the slowest tenth of a run came in its first third."""
    requests = run.result.requests
    if requests is None or requests.arrived_s is None:
        return "the server may have been cold; warm it up (--num-warmups) and repeat"
    times_s = requests.ttft_s if name == "TTFT" else requests.e2e_s
    slowest = sorted(range(len(times_s)), key=times_s.__getitem__)[-max(1, len(times_s) // 10) :]
    early = sum(index < len(times_s) / _THIRDS for index in slowest) / len(slowest)
    if early > 0.5:  # noqa: PLR2004 - the larger part
        return "its slowest requests were its first, so the server was cold; warm it up (--num-warmups) and repeat"
    return "its slowest requests were not its first, so something else disturbed it; warm up, and repeat it"


def _became_faster(runs: Iterable[Measured]) -> Iterator[Finding]:
    for run in runs:
        requests = run.result.requests
        if requests is None or requests.arrived_s is None or len(requests) < _LEAST_TO_COMPARE * _THIRDS:
            continue
        third = len(requests) // _THIRDS
        begin, end = median(requests.e2e_s[:third]), median(requests.e2e_s[-third:])
        if end < _FASTER * begin:
            text = (
                f"answers became faster during {run.result.source}: a median of {format_duration(begin)} in its first"
                f" third and of {format_duration(end)} in its last; a cold start, or replicas that joined"
            )
            yield Finding(Code.REPLICAS, blocks=False, text=text)


def _client(runs: Iterable[Measured]) -> Iterator[Finding]:
    for run in runs:
        if run.rate is None:
            continue
        wait_s = run.client_queue.p95
        short = any(each.name == "send rate" and each.outcome is Outcome.FAILED for each in run.checks)
        if not short and (wait_s is None or wait_s <= _CLIENT_WAIT_S):
            continue
        waited = "" if wait_s is None else f", P95 wait in the client {format_duration(wait_s)}"
        cap = run.result.max_concurrency
        remedy = "send from more processes or another machine" if cap is None else f"drop --max-concurrency {cap}"
        sent = "an unknown rate" if run.send_rate is None else f"{format_number(run.send_rate)} req/s"
        text = f"the client of {run.result.source} could not keep up: it sent {sent}{waited}; {remedy}"
        yield Finding(Code.CLIENT, blocks=False, text=text)


def _cache(runs: Sequence[Measured]) -> Iterator[Finding]:
    if len(runs) < 2 or all(run.result.cache_reset for run in runs[1:]):  # noqa: PLR2004 - a run before another
        return
    for before, after in combinations(runs, 2):
        if before.rate != after.rate or after.result.cache_reset or not before.ttft.p50 or not after.ttft.p50:
            continue
        if _same_arrivals(before, after) and after.ttft.p50 < _WARM * before.ttft.p50:
            text = (
                f"{after.result.source} has the prompts of {before.result.source} and a median TTFT of"
                f" {format_duration(after.ttft.p50)} instead of {format_duration(before.ttft.p50)}: its prompts came"
                " from the prefix cache; reset it between runs"
            )
            yield Finding(Code.CACHE, blocks=False, text=text)
            return
    seeds = [run.result.seed for run in runs]
    if None in seeds:
        text = (
            "the results do not say that the prefix cache was reset between runs, nor their seeds; runs without --seed"
            " all have vLLM's seed 0 and so the same prompts, which a warm cache does not compute again"
        )
        yield Finding(Code.CACHE, blocks=False, text=text)
    elif len(set(seeds)) < len(seeds):
        text = (
            "runs share seeds, so they share prompts, and the results do not say that the prefix cache was reset in"
            " between (--metadata cache_reset=yes records it)"
        )
        yield Finding(Code.CACHE, blocks=False, text=text)


def _arrivals(runs: Iterable[Measured]) -> Iterator[Finding]:
    by_rate: dict[float, list[Measured]] = defaultdict(list)
    for run in runs:
        if run.rate is not None:
            by_rate[run.rate].append(run)
    for rate, repeated in sorted(by_rate.items()):
        if any(_same_arrivals(before, after) for before, after in combinations(repeated, 2)):
            text = f"repetitions at {rate:g} req/s have the same arrivals, so they are one sample: vary their --seed"
            yield Finding(Code.ARRIVALS, blocks=False, text=text)


def _same_arrivals(before: Measured, after: Measured) -> bool:
    """Tell whether two runs at one rate sent at the same times: by their seeds, else by the gaps between requests.

    vLLM draws arrivals and prompts from one seed, so the prompts are then the same too.
    """
    one, other = before.result, after.result
    if one.seed is not None and other.seed is not None:
        return one.seed == other.seed
    gaps = [
        [second - first for first, second in pairwise(result.requests.arrived_s[: _COMPARED_GAPS + 1])]
        for result in (one, other)
        if result.requests is not None and result.requests.arrived_s is not None
    ]
    compared = list(zip(gaps[0], gaps[-1], strict=False)) if len(gaps) == len((one, other)) else []
    # At high rates all gaps are alike within the clock's jitter.
    if len(compared) < _LEAST_TO_COMPARE or median(gap for gap, _ in compared) < 2 * _GAP_TOLERANCE_S:
        return False
    same = sum(abs(gap - again) <= _GAP_TOLERANCE_S for gap, again in compared)
    return same >= _SAME_GAPS * len(compared)


def _details(runs: Iterable[Measured]) -> Iterator[Finding]:
    without = [run.result.source for run in runs if run.result.requests is None]
    if without:
        text = (
            f"{len(without)} result(s) have no lists of requests ({_some(without)}), so attainment is known within a"
            " range only, and neither queue nor lengths are seen: run with --save-detailed"
        )
        yield Finding(Code.DETAILS, blocks=False, text=text)


def _short(runs: Iterable[Measured]) -> Iterator[Finding]:
    sizes = [run.sent for run in runs]
    if sizes and min(sizes) < FEW_REQUESTS:
        deviation = 100 * (0.95 * 0.05 / min(sizes)) ** 0.5
        text = (
            f"runs are as short as {min(sizes)} requests: by chance alone an attainment of 95 % then scatters by"
            f" {format_number(deviation)} points; send {FEW_REQUESTS} or more"
        )
        yield Finding(Code.SHORT, blocks=False, text=text)


def _filling(runs: Iterable[Measured]) -> Iterator[Finding]:
    for run in runs:
        requests, stay_s = run.result.requests, run.e2e.p50
        if run.rate is None or requests is None or requests.arrived_s is None or stay_s is None:
            continue
        sent_s = requests.arrived_s[-1]
        if sent_s < FILLED * stay_s:
            text = (
                f"{run.result.source} sent for {format_duration(sent_s)}, and its requests stay for"
                f" {format_duration(stay_s)}: much of it is the filling of an empty server; send for {FILLED} times as"
                " long as requests stay"
            )
            yield Finding(Code.SHORT, blocks=False, text=text)
            return


def _some(texts: Sequence[str]) -> str:
    more = len(texts) - _NAMED
    return ", ".join(texts[:_NAMED]) + (f" and {more} more" if more > 0 else "")
