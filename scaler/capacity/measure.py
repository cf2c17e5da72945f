"""One run against an SLO: what it attained, what it was slow at, and whether its load was what it claims.

With the lists of ``--save-detailed`` every request is judged by itself. Without them only percentiles are known, and
an attainment lies in a range: if the P99 of each of two latencies is within its bound, at most 2 % can have missed.
"""

import enum
import math
import operator
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import compress
from statistics import fmean, median, quantiles
from typing import Final

from scaler.capacity.buckets import Bucket, by_length
from scaler.capacity.inflight import GROWTH, SHORTEST_S, InFlight, in_flight
from scaler.capacity.results import BenchResult, Load, Requests, ResultError
from scaler.capacity.slo import Slo, percent
from scaler.units import format_number

SEND_RATE_TOLERANCE: Final = 0.05
"""The client sent what was asked for if its rate is within this share of it."""
# A trace's own rate scatters by about one over the root of its requests. vLLM's generator fixes when the last request
# goes out but not when the first does, so what is between them scatters by one over the requests.
_DEVIATIONS: Final = 3.0
_PERCENTILES: Final = 100
_LEAST_FOR_A_RATE: Final = 2
# The server is full after about this many times as long as the first tenth of the requests stayed.
_FILLS_UP: Final = 2.0
_FIRST: Final = 10


class Outcome(enum.StrEnum):
    """What a check says."""

    PASSED = "passed"
    FAILED = "failed"
    UNKNOWN = "unknown"
    """The file does not tell."""


@dataclass(frozen=True, slots=True)
class Check:
    """One condition that a rate must meet for a replica to carry it."""

    name: str
    outcome: Outcome
    why: str
    """The numbers behind it."""


@dataclass(frozen=True, slots=True)
class Latency:
    """One latency over a run, in seconds; what is not known is None."""

    mean: float | None = None
    p50: float | None = None
    p95: float | None = None
    p99: float | None = None


@dataclass(frozen=True, slots=True)
class Measured:
    """What one run showed."""

    result: BenchResult
    sent: int
    """Requests that are judged: those after the warm-up."""
    succeeded: int
    attainment: tuple[float, float]
    """The least and the most that the share within the SLO can be; one number with details."""
    goodput: float | None
    """Requests per second within the SLO, of a run with details."""
    ttft: Latency
    tpot: Latency
    e2e: Latency
    client_queue: Latency
    one_token: int | None
    """Answers of one token: they have no time per output token, so that bound does not concern them."""
    send_rate: float | None
    """Requests per second that left the client."""
    load: InFlight | None
    buckets: tuple[Bucket, ...]
    tokens_in_flight: float | None
    """Tokens in the KV cache at the end of a request, averaged over the requests in flight."""
    checks: tuple[Check, ...]

    @property
    def rate(self) -> float | None:
        """The rate that was set from outside; None where nobody set one.

        Of a trace that nobody gave a rate it is what was sent, to three digits, so that repetitions have one.
        """
        if self.result.load not in {Load.OPEN, Load.TIMED}:
            return None
        if self.result.offered_rate is not None:
            return round(self.result.offered_rate, 6)
        return None if self.send_rate is None else float(f"{self.send_rate:.3g}")

    @property
    def outcome(self) -> Outcome:
        """All checks together."""
        outcomes = {check.outcome for check in self.checks}
        return next(each for each in (Outcome.FAILED, Outcome.UNKNOWN, Outcome.PASSED) if each in outcomes)


def measure(result: BenchResult, slo: Slo, *, warmup: int = 0) -> Measured:
    """Judge one run.

    Times count from when the client wanted to send a request, so time that it spent waiting in the client is in them.
    A closed loop has no such moment: there they count from sending.

    Args:
        result: The run.
        slo: What to hold it to.
        warmup: Requests at the start that are load and are not judged.

    Raises:
        ResultError: The warm-up is the whole run.
    """
    if warmup >= result.sent:
        raise ResultError(f"{result.source}: {result.sent} requests, and a warm-up of {warmup} leaves none to judge")
    if result.requests is None:
        return _from_summary(result, slo)
    return _from_requests(result, result.requests, slo, warmup)


def _from_requests(result: BenchResult, requests: Requests, slo: Slo, warmup: int) -> Measured:
    prompts, outputs = requests.prompt_tokens[warmup:], requests.output_tokens[warmup:]
    succeeded, waits = requests.succeeded[warmup:], requests.queue_s[warmup:]
    ttfts, e2es = requests.ttft_s[warmup:], requests.e2e_s[warmup:]
    tpots = [
        (e2e - ttft) / (output - 1) if output > 1 else None
        for ttft, e2e, output in zip(ttfts, e2es, outputs, strict=True)
    ]
    if result.load is not Load.CLOSED:
        ttfts, e2es = list(map(operator.add, ttfts, waits)), list(map(operator.add, e2es, waits))
    ttft_s, tpot_s, e2e_s = (bound or math.inf for bound in (slo.ttft_s, slo.tpot_s, slo.e2e_s))
    met = [
        good and ttft <= ttft_s and e2e <= e2e_s and (tpot is None or tpot <= tpot_s)
        for good, ttft, tpot, e2e in zip(succeeded, ttfts, tpots, e2es, strict=True)
    ]
    attained, share_good = sum(met) / len(met), sum(succeeded) / len(succeeded)
    good_tpots = [tpot for tpot in compress(tpots, succeeded) if tpot is not None]
    held = zip(prompts, outputs, e2es, strict=True)
    send_rate, load = _send_rate(requests, warmup), _load(result, requests, warmup)
    return Measured(
        result=result,
        sent=len(met),
        succeeded=sum(succeeded),
        attainment=(attained, attained),
        # Of a warm-up that is left out the time cannot be taken away, so the share goes with the whole run's rate.
        goodput=result.throughput * attained / share_good if share_good else 0.0,
        ttft=_latency(list(compress(ttfts, succeeded))),
        tpot=_latency(good_tpots),
        e2e=_latency(list(compress(e2es, succeeded))),
        client_queue=_latency(waits),
        one_token=sum(succeeded) - len(good_tpots),
        send_rate=send_rate,
        load=load,
        buckets=by_length(zip(prompts, outputs, met, strict=True)),
        tokens_in_flight=_tokens_in_flight(compress(held, succeeded)),
        checks=tuple(_checks(result, slo, (attained, attained), share_good=share_good, send_rate=send_rate, load=load)),
    )


def _from_summary(result: BenchResult, slo: Slo) -> Measured:
    share_good = result.completed / result.sent
    attainment = _attainment_range(result, slo, share_good)
    ttft, tpot, e2e, client_queue = (
        _summarised(result, name) for name in ("ttft", "tpot", "e2el", "client_queue_time")
    )
    return Measured(
        result=result,
        sent=result.sent,
        succeeded=result.completed,
        attainment=attainment,
        goodput=None,
        ttft=ttft,
        tpot=tpot,
        e2e=e2e,
        client_queue=client_queue,
        one_token=None,
        send_rate=None,
        load=None,
        buckets=(),
        tokens_in_flight=None,
        checks=tuple(_checks(result, slo, attainment, share_good=share_good)),
    )


def _attainment_range(result: BenchResult, slo: Slo, share_good: float) -> tuple[float, float]:
    """Return the least and the most that the attainment can be, from percentiles alone.

    Worked: of 100 requests all succeed. TTFT: P95 within its bound, P99 not, so 1 to 5 % miss it. E2E: P99 within, so
    at most 1 % miss it. Together at least 94 % keep to both, and at most 99 %.
    """
    least_missed = most_missed = 0.0
    for name, bound in slo.bounds():
        missed = _missed(result, name, bound * 1000)
        least_missed, most_missed = max(least_missed, missed[0]), most_missed + missed[1]
    return share_good * max(0.0, 1 - most_missed), share_good * (1 - least_missed)


def _missed(result: BenchResult, name: str, bound_ms: float) -> tuple[float, float]:
    """Return between which shares of the answers are above a bound."""
    least, most = 0.0, 1.0
    for key, value in result.summary.items():
        quantile = key.removesuffix(f"_{name}_ms").removeprefix("p") if key.startswith("p") else ""
        if key == f"median_{name}_ms":
            quantile = "50"
        try:
            above = 1 - float(quantile) / 100
        except ValueError:
            continue  # a mean, or another latency
        least, most = (least, min(most, above)) if value <= bound_ms else (max(least, above), most)
    return least, most


def _summarised(result: BenchResult, name: str) -> Latency:
    def seconds(kind: str) -> float | None:
        value = result.summary.get(f"{kind}_{name}_ms")
        return None if value is None else value / 1000

    p50 = seconds("p50")
    return Latency(seconds("mean"), seconds("median") if p50 is None else p50, seconds("p95"), seconds("p99"))


def _latency(values: Sequence[float]) -> Latency:
    if not values:
        return Latency()
    if len(values) == 1:
        return Latency(values[0], values[0], values[0], values[0])
    # The inclusive method is what vLLM's own percentiles are (numpy's default).
    cuts = quantiles(values, n=_PERCENTILES, method="inclusive")
    return Latency(fmean(values), cuts[49], cuts[94], cuts[98])


def _send_rate(requests: Requests, warmup: int) -> float | None:
    if requests.arrived_s is None:
        return None
    sent = sorted(at + wait for at, wait in zip(requests.arrived_s, requests.queue_s, strict=True))[warmup:]
    if len(sent) < _LEAST_FOR_A_RATE or sent[-1] - sent[0] < SHORTEST_S:
        return None
    return (len(sent) - 1) / (sent[-1] - sent[0])


def _load(result: BenchResult, requests: Requests, warmup: int) -> InFlight | None:
    if requests.arrived_s is None:
        return None
    came: Sequence[float] = requests.arrived_s
    ends = [at + wait + e2e for at, wait, e2e in zip(requests.arrived_s, requests.queue_s, requests.e2e_s, strict=True)]
    if result.load is Load.CLOSED:
        came = sorted(at + wait for at, wait in zip(requests.arrived_s, requests.queue_s, strict=True))
    # A run begins with an empty server: until requests leave as fast as they come, it fills up.
    first = requests.e2e_s[: max(1, len(requests) // _FIRST)]
    filled = bisect_left(came, came[0] + _FILLS_UP * median(first))
    return in_flight(came, ends, skip=min(max(warmup, filled), len(came) - 1))


def _tokens_in_flight(requests: Iterable[tuple[int, int, float]]) -> float | None:
    """Return the mean tokens of a request in flight: those that stay longer are met more often."""
    tokens = time = 0.0
    for prompt, output, e2e in requests:
        tokens += (prompt + output) * e2e
        time += e2e
    return tokens / time if time > 0 else None


def _checks(
    result: BenchResult,
    slo: Slo,
    attainment: tuple[float, float],
    *,
    share_good: float,
    send_rate: float | None = None,
    load: InFlight | None = None,
) -> Iterator[Check]:
    least, most = attainment
    shown = percent(least) if least == most else f"{percent(least)} to {percent(most)}"
    yield Check(
        "attainment",
        _outcome(least >= slo.attainment, failed=most < slo.attainment),
        f"{shown} within the SLO, {percent(slo.attainment)} wanted",
    )
    failed = 1 - share_good
    yield Check(
        "errors",
        _outcome(failed <= slo.error_rate, failed=failed > slo.error_rate),
        f"{percent(failed)} failed, {percent(slo.error_rate)} allowed",
    )
    yield _send_check(result, send_rate)
    yield _queue_check(result, load)


def _queue_check(result: BenchResult, load: InFlight | None) -> Check:
    if load is not None and load.rising is not None:
        quarters = ", ".join(format_number(quarter) for quarter in load.quarters)
        text = f"requests found {quarters} in flight, by quarters of the run"
        return Check("queue", _outcome(not load.rising, failed=load.rising), text)
    offered = result.offered_rate
    if offered is not None and result.throughput >= offered * (1 - GROWTH):
        # Whatever was left when the last request had been sent was worked off within a fiftieth of the run.
        return Check("queue", Outcome.PASSED, "the last answer came within 2 % of the run after the last request")
    why = "there are no start times" if load is None else "there are too few requests"
    return Check("queue", Outcome.UNKNOWN, f"{why}, so whether the queue kept rising cannot be told")


def _send_check(result: BenchResult, send_rate: float | None) -> Check:
    offered = result.offered_rate
    if offered is None:
        outcome = Outcome.PASSED if result.load is Load.TIMED and send_rate is not None else Outcome.UNKNOWN
        return Check("send rate", outcome, "no rate was asked for")
    scatter = 1 / math.sqrt(result.sent) if result.load is Load.TIMED else 1 / result.sent
    allowed = SEND_RATE_TOLERANCE + _DEVIATIONS * scatter
    if send_rate is None:
        # Answers come no faster than requests are sent, so they prove a send rate, and cannot disprove it.
        proven = result.throughput >= offered * (1 - allowed)
        text = f"{format_number(result.throughput)} answers/s at {format_number(offered)} req/s asked for"
        return Check("send rate", Outcome.PASSED if proven else Outcome.UNKNOWN, text)
    kept = abs(send_rate / offered - 1) <= allowed
    text = f"{format_number(send_rate)} req/s sent, {format_number(offered)} asked for"
    return Check("send rate", _outcome(kept, failed=not kept), text)


def _outcome(passed: bool, *, failed: bool) -> Outcome:  # noqa: FBT001 - the two read as a pair
    return Outcome.PASSED if passed else Outcome.FAILED if failed else Outcome.UNKNOWN
