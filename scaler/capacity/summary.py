"""What a fit found, as text for a terminal and as JSON for machines."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict

from scaler.capacity.buckets import LENGTH_BOUNDS
from scaler.capacity.findings import BOUNDARY_REPETITIONS, Finding
from scaler.capacity.measure import Check, Latency, Measured
from scaler.capacity.recommend import Advice
from scaler.capacity.slo import percent
from scaler.capacity.sweep import Level, Sweep
from scaler.units import format_duration, format_number

_WIDE = 1.5
"""A bracket whose upper end is more than half above its lower one leaves much of the capacity unknown."""


def text(sweep: Sweep, advice: Advice | None, trigger: str, *, details: bool = False) -> str:
    """Return everything that matters as text.

    Args:
        sweep: What was found.
        advice: Settings, where a capacity was named.
        trigger: The trigger as YAML, or empty.
        details: Also show each run by itself.
    """
    lines = [*_lines(sweep, advice, trigger), *(_details(sweep) if details else ())]
    return "\n".join(lines) + "\n"


def _lines(sweep: Sweep, advice: Advice | None, trigger: str) -> Iterator[str]:
    yield f"SLO: {sweep.slo}"
    if sweep.levels:
        yield ""
        yield from columns(RATE_HEADERS, [rate_row(level) for level in sweep.levels])
        yield ""
        yield "Latencies are the worst P95 of a rate's runs; a floor is the attainment of its worst run."
        yield from one_token_notes(sweep)
    if sweep.set_aside:
        yield ""
        yield "Runs that say nothing about a rate, since theirs was not set from outside:"
        yield from columns(ASIDE_HEADERS, [aside_row(run) for run in sweep.set_aside])
    yield ""
    yield from conclusion(sweep)
    if advice is not None:
        yield ""
        yield from advised(sweep, advice)
        yield ""
        yield trigger.rstrip("\n")
    # What blocks stands among the reasons above.
    weaknesses = [finding for finding in sweep.findings if not finding.blocks]
    if weaknesses:
        yield ""
        yield "What weakens the results:"
        yield from (finding_text(finding) for finding in weaknesses)


RATE_HEADERS = ("req/s", "runs", "sent/s", "served/s", "goodput/s", "floor", "TTFT", "TPOT", "E2E", "in flight", "")
"""Of the table of rates; the last column says what failed."""


def rate_row(level: Level) -> tuple[str, ...]:
    """Return one rate as texts."""
    runs = level.runs
    sent = [run.send_rate for run in runs if run.send_rate is not None]
    goodput = [run.goodput for run in runs if run.goodput is not None]
    verdict = level.outcome.value
    if level.failures:
        verdict += f": {', '.join(level.failures)}"
    return (
        f"{level.rate:g}",
        str(len(runs)),
        _number(min(sent, default=None)),
        _number(min(run.result.throughput for run in runs)),
        _number(min(goodput, default=None)),
        attained(min(runs, key=lambda run: run.attainment)),
        *(_worst(runs, name) for name in ("ttft", "tpot", "e2e")),
        _number(level.in_flight),
        verdict,
    )


ASIDE_HEADERS = ("run", "load", "served/s", "attainment")


def aside_row(run: Measured) -> tuple[str, ...]:
    """Return one run that has no rate as texts."""
    return run.result.source, run.result.load.value, _number(run.result.throughput), attained(run)


def attained(run: Measured) -> str:
    """Return an attainment, or the range that it lies in."""
    least, most = run.attainment
    return percent(least) if least == most else f"{percent(least)} to {percent(most)}"


def _worst(runs: Sequence[Measured], name: str) -> str:
    latencies: list[Latency] = [getattr(run, name) for run in runs]
    known = [latency.p95 for latency in latencies if latency.p95 is not None]
    return format_duration(max(known)) if known else "-"


def _number(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:.2f}" if value < 1000 else format_number(value)  # noqa: PLR2004 - beyond it decimals are noise


def one_token_notes(sweep: Sweep) -> Iterator[str]:
    """Say how many answers the bound of TPOT does not concern."""
    counts = [run.one_token or 0 for level in sweep.levels for run in level.runs]
    if sweep.slo.tpot_s is not None and (one_token := sum(counts)):
        yield f"{one_token} answers have one token and so no TPOT: that bound does not concern them."


def conclusion(sweep: Sweep) -> Iterator[str]:
    """Say between which rates the capacity lies, and whether it is one."""
    passed, failed = sweep.passed, sweep.failed
    if sweep.capacity is not None:
        level = sweep.capacity.level
        yield (
            f"Capacity of one replica: {level.rate:g} req/s, the largest rate that all of {len(level.runs)} repetitions"
            f" passed (floor {percent(level.floor)})."
        )
        if level.in_flight is None:
            yield "No slots follow from it, since no run has E2E times: add --percentile-metrics ttft,tpot,itl,e2el."
        first_failed = sweep.capacity.first_failed
        if first_failed is None:
            yield "No rate failed, so it may be larger: measure higher rates."
            return
        yield f"The true one lies between {level.rate:g} (passed) and {first_failed:g} req/s (failed)."
        if first_failed > _WIDE * level.rate:
            yield f"That is wide: `capacity plan --bracket {level.rate:g}:{first_failed:g}` measures within it."
        elif len(level.runs) < BOUNDARY_REPETITIONS:
            yield f"Make it {BOUNDARY_REPETITIONS} to 12 repetitions at both ends before you rely on it."
        return
    yield "No capacity is named:"
    yield from (f"- {reason}" for reason in sweep.why_not)
    if passed is not None and failed is not None:
        yield f"The knee lies between {passed.rate:g} and {failed.rate:g} req/s, as far as these runs go."
    elif passed is not None:
        yield f"No rate failed, up to {passed.rate:g} req/s."


def advised(sweep: Sweep, advice: Advice) -> Iterator[str]:
    """Say what follows for the trigger, and why."""
    assert sweep.capacity is not None  # advice is given on a capacity
    rate, time_s = sweep.capacity.level.rate, sweep.capacity.time_in_system_s or 0.0
    yield (
        f"Little's law: {rate:g} req/s x {format_duration(time_s)} in the system = {advice.in_flight:.2f} in flight,"
        f" so slotsPerReplica {advice.slots}."
    )
    if advice.kv_usage_ratio is not None:
        yield f"The KV cache is then used to {percent(advice.kv_usage_ratio)} on average, or less."
    if advice.cost is not None:
        yield (
            f"A million output tokens cost {advice.cost.output:.2f}, a million tokens in all {advice.cost.all:.2f}, at"
            " this rate."
        )
    yield from (f"- {note}" for note in advice.notes)


def finding_text(finding: Finding) -> str:
    """Return a finding as one line."""
    return f"{'!' if finding.blocks else '-'} {finding.text} [{finding.code}]"


def _details(sweep: Sweep) -> Iterator[str]:
    for run in (*(run for level in sweep.levels for run in level.runs), *sweep.set_aside):
        yield ""
        yield f"{run.result.source}: {run.succeeded} of {run.sent} requests succeeded, {attained(run)} within the SLO"
        yield from (f"  {check.outcome.value}: {check.name}, {check.why}" for check in run.checks)
        yield from (f"  {line}" for line in columns(LATENCY_HEADERS, latency_rows(run)))
        if run.buckets:
            yield ""
            yield from (f"  {line}" for line in columns(BUCKET_HEADERS, bucket_rows(run)))


LATENCY_HEADERS = ("", "mean", "P50", "P95", "P99")


def latency_rows(run: Measured) -> list[tuple[str, ...]]:
    """Return the latencies of a run as texts, the wait in the client beside the rate at which it sent."""
    names = (("TTFT", run.ttft), ("TPOT", run.tpot), ("E2E", run.e2e), ("wait in the client", run.client_queue))
    return [
        (name, *("-" if value is None else format_duration(value) for value in (of.mean, of.p50, of.p95, of.p99)))
        for name, of in names
    ]


BUCKET_HEADERS = ("prompt", "answer", "requests", "within the SLO", "attention work")


def bucket_rows(run: Measured) -> list[tuple[str, ...]]:
    """Return the requests of a run by their lengths as texts."""
    return [
        (
            length_name(bucket.prompt_bound),
            length_name(bucket.output_bound),
            str(bucket.requests),
            percent(bucket.attainment),
            percent(bucket.work_share),
        )
        for bucket in run.buckets
    ]


def columns(headers: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Yield a table as text: the first column and a last one without a header to the left, the others to the right."""
    table = [headers, *rows]
    widths = [max(len(row[index]) for row in table) for index in range(len(headers))]
    left = {0} if headers[-1] else {0, len(headers) - 1}
    for row in table:
        cells = [
            cell.ljust(width) if index in left else cell.rjust(width)
            for index, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        yield "  ".join(cells).rstrip()


def length_name(bound: int | None) -> str:
    """Return the lengths of a bucket in words: "<= 64", "> 65536"."""
    return f"> {LENGTH_BOUNDS[-1]}" if bound is None else f"<= {bound}"


def as_json(sweep: Sweep, advice: Advice | None, trigger: str) -> dict[str, object]:
    """Return everything as values that JSON has."""
    capacity = sweep.capacity
    return {
        "slo": asdict(sweep.slo),
        "capacity": None
        if capacity is None
        else {
            "rate": capacity.level.rate,
            "first_failed": capacity.first_failed,
            "repetitions": len(capacity.level.runs),
            "floor": capacity.level.floor,
            "time_in_system_s": capacity.time_in_system_s,
            "in_flight": capacity.level.in_flight,
        },
        "bracket": {
            "passed": sweep.passed.rate if sweep.passed else None,
            "failed": sweep.failed.rate if sweep.failed else None,
        },
        "why_not": list(sweep.why_not),
        "rates": [
            {
                "rate": level.rate,
                "outcome": level.outcome.value,
                "floor": level.floor,
                "in_flight": level.in_flight,
                "runs": [_run(run) for run in level.runs],
            }
            for level in sweep.levels
        ],
        "set_aside": [_run(run) for run in sweep.set_aside],
        "findings": [asdict(finding) for finding in sweep.findings],
        "advice": None if advice is None else {**_plain(asdict(advice)), "trigger": trigger},
    }


def _run(run: Measured) -> dict[str, object]:
    result = run.result
    return {
        "source": result.source,
        "date": result.date,
        "load": result.load.value,
        "judged": run.sent,
        "succeeded": run.succeeded,
        "attainment": {"least": run.attainment[0], "most": run.attainment[1]},
        "served_per_s": result.throughput,
        "goodput_per_s": run.goodput,
        "sent_per_s": run.send_rate,
        "ttft_s": asdict(run.ttft),
        "tpot_s": asdict(run.tpot),
        "e2e_s": asdict(run.e2e),
        "client_queue_s": asdict(run.client_queue),
        "one_token_answers": run.one_token,
        "in_flight": None if run.load is None else asdict(run.load),
        "lengths": [{**asdict(bucket), "attainment": bucket.attainment} for bucket in run.buckets],
        "checks": [_check(check) for check in run.checks],
    }


def _check(check: Check) -> dict[str, str]:
    return {"name": check.name, "outcome": check.outcome.value, "why": check.why}


def _plain(values: Mapping[str, object]) -> dict[str, object]:
    return {name: list(value) if isinstance(value, tuple) else value for name, value in values.items()}
