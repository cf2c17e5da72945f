"""``vllm-scaler simulate``: try a policy on a workload, in virtual time, before it scales anything."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import click

from scaler.cli.durations import Duration
from scaler.config.scaled_object import WrittenTrigger
from scaler.config.scaled_object_hpa import ScaledObject, read_scaled_object
from scaler.errors import ConfigError, ScalerError
from scaler.model import PoolPolicy, SignalName
from scaler.report.page import figure
from scaler.sim.closed_loop import Run, Setup, reversals, run
from scaler.sim.fleet import FleetSpec, Routing
from scaler.sim.hpa import HpaSpec, undamped
from scaler.sim.observe import SIMULATED_EXTRAS
from scaler.sim.performance import PRESETS, preset, replica_rate, replicas_for
from scaler.sim.request import Slo
from scaler.sim.run_page import reason, run_page
from scaler.sim.traces import Trace, TraceFormat, detect
from scaler.sim.workload import Load
from scaler.sim.workloads import CHAT_OUTPUT, CHAT_PROMPT, WORKLOADS, workload
from scaler.units import format_duration, format_number

TICK_S: Final = 15.0
"""The service's default evaluation interval."""
TRACES_ENV: Final = "VLLM_SCALER_TRACES"
_NAME: Final = "simulated"
# What a policy is tried against if it has no objective of its own for the time to first token.
_TTFT_SLO_S: Final = 2.5
_SHORTEST_SLO_S: Final = 0.001
_SHOWN_CHANGES: Final = 12
_FILE: Final = click.Path(exists=True, dir_okay=False, path_type=Path)


@dataclass(frozen=True, slots=True)
class _Result:
    title: str
    facts: tuple[tuple[str, str], ...]
    run: Run


def _list_workloads(context: click.Context, _: click.Parameter, value: object) -> None:
    if value:
        width = max(map(len, WORKLOADS))
        for name, each in WORKLOADS.items():
            click.echo(f"{name:{width}}  {each.summary}")
        context.exit()


def _pair(_: click.Context, __: click.Parameter, values: tuple[str, ...]) -> dict[str, str]:
    pairs = [value.partition("=") for value in values]
    for key, equals, _value in pairs:
        if not key or not equals:
            raise click.BadParameter(f"{key or '='} is not KEY=VALUE, such as slotsPerReplica=16")
    return {key: value for key, _, value in pairs}


@click.command()
@click.option("--policy", type=_FILE, metavar="FILE", help="A ScaledObject as YAML: its trigger, limits and behaviour.")
@click.option(
    "--set",
    "settings",
    multiple=True,
    callback=_pair,
    metavar="KEY=VALUE",
    help="A key of the trigger's metadata, such as slotsPerReplica=16; goes before the file. May be repeated.",
)
@click.option("--workload", "name", metavar="NAME", help="One of the named workloads; see --list.  [default: step-up]")
@click.option(
    "--list", is_flag=True, expose_value=False, is_eager=True, callback=_list_workloads, help="List workloads."
)
@click.option("--trace", type=_FILE, metavar="FILE", help="A recorded trace, in place of a named workload.")
@click.option(
    "--trace-format",
    type=click.Choice([each.value for each in TraceFormat]),
    help="How the trace is written.  [default: by its columns]",
)
@click.option("--times", type=float, default=1.0, show_default=True, help="Factor on the requests of --trace.")
@click.option(
    "--start", type=Duration(), default="0s", show_default=True, help="Leave out of --trace what comes earlier."
)
@click.option("--stop", type=Duration(), default=None, help="Leave out of --trace what comes from then on.")
@click.option(
    "--traces",
    type=click.Path(file_okay=False, path_type=Path),
    envvar=TRACES_ENV,
    default="traces",
    show_default=True,
    help=f"Folder with the public traces that named workloads play. [{TRACES_ENV}]",
)
@click.option(
    "--engine",
    metavar="NAME",
    default=next(iter(PRESETS)),
    show_default=True,
    help=f"How fast a replica is: {', '.join(PRESETS)}.",
)
@click.option("--max-num-seqs", type=click.IntRange(1, 2048), help="The engine's slots.  [default: the preset's]")
@click.option("--cold-start", type=Duration(), default="120s", show_default=True, help="From a pod's node to serving.")
@click.option("--nodes", type=click.IntRange(0), help="How many pods find a node.  [default: all]")
@click.option(
    "--routing",
    type=click.Choice([each.value for each in Routing]),
    default=Routing.LEAST_OUTSTANDING.value,
    show_default=True,
    help="How the router chooses a replica.",
)
@click.option(
    "--replicas", type=click.IntRange(0), help="Serving at the start.  [default: what the first minutes need]"
)
@click.option(
    "--ttft-slo",
    type=Duration(_SHORTEST_SLO_S),
    help="Objective of each request, for the summary.  [default: ttftP95Seconds, or 2.5 s]",
)
@click.option(
    "--tpot-slo",
    type=Duration(_SHORTEST_SLO_S),
    default="100ms",
    show_default=True,
    help="The same for the mean time of its tokens.",
)
@click.option("--seed", type=int, default=1, show_default=True, help="The same seed gives the same run.")
@click.option("--html", type=click.Path(dir_okay=False, writable=True, path_type=Path), help="Write a page with plots.")
def simulate(
    *,
    policy: Path | None,
    settings: Mapping[str, str],
    name: str | None,
    trace: Path | None,
    trace_format: str | None,
    times: float,
    start: float,
    stop: float | None,
    traces: Path,
    engine: str,
    max_num_seqs: int | None,
    cold_start: float,
    nodes: int | None,
    routing: str,
    replicas: int | None,
    ttft_slo: float | None,
    tpot_slo: float,
    seed: int,
    html: Path | None,
) -> None:
    """Try a policy on a workload or on recorded traffic, in virtual time.

    The law is the one that the service runs; the vLLM fleet, Prometheus, KEDA and the HPA around it are simulated.
    """
    if trace is not None and name is not None:
        raise click.UsageError("--trace and --workload exclude each other")
    if trace is None and (trace_format is not None or times != 1 or start > 0 or stop is not None):
        raise click.UsageError("--trace-format, --times, --start and --stop go with --trace")
    if html is not None:
        # What is missing for it is said now, not after the run.
        figure()
    spec = preset(engine).engine
    if max_num_seqs is not None:
        spec = replace(spec, slots=max_num_seqs, max_batched_tokens=max(spec.max_batched_tokens, 2 * max_num_seqs))
    pool, hpa = _pool(None if policy is None else read_scaled_object(policy), settings)
    if trace is None:
        name = name or "step-up"
        load = workload(name, replica_rate=replica_rate(spec, CHAT_PROMPT, CHAT_OUTPUT), traces=traces)
    else:
        name = trace.name
        load = _trace(trace, trace_format, times, start, stop)
    if load.duration_s < TICK_S:
        raise ScalerError(f"{name} lasts {load.duration_s:g} s: too short for one evaluation, every {TICK_S:g} s")
    fleet = FleetSpec(_NAME, spec, cold_start_s=cold_start, nodes=nodes, routing=Routing(routing))
    if replicas is None:
        replicas = max(hpa.min_replicas, min(hpa.max_replicas, replicas_for(load, spec, seed=seed)))
    played = run(Setup(pool, fleet, hpa), load, replicas=replicas, seed=seed)
    slo = Slo(ttft_s=_ttft_slo(pool) if ttft_slo is None else ttft_slo, tpot_s=tpot_slo)
    title = f"{name} on {engine}, {format_duration(round(load.duration_s))}, seed {seed}"
    result = _Result(title, tuple(_facts(played, slo)), played)
    for line in _lines(result):
        click.echo(line)
    if html is not None:
        _write(html, run_page(result.title, result.facts, played))


def _trace(path: Path, trace_format: str | None, times: float, start: float, stop: float | None) -> Load:
    known = TraceFormat(trace_format) if trace_format else detect(path)
    return Trace(path, known, times, start, math.inf if stop is None else stop)


def _pool(given: ScaledObject | None, settings: Mapping[str, str]) -> tuple[PoolPolicy, HpaSpec]:
    """Return the policy and its HPA; without a file the HPA is set as in the README."""
    anybody = WrittenTrigger(_NAME, "--set", _NAME, _NAME, {"deployment": _NAME, "modelName": _NAME})
    trigger = (anybody if given is None else given.trigger).changed(settings).read(tick_s=TICK_S)
    for warning in trigger.warnings:
        click.echo(f"warning: {warning}", err=True)
    policy = trigger.policy
    if unknown := [name for name in policy.locator.extras if name not in SIMULATED_EXTRAS]:
        names = ", ".join(unknown)
        raise ConfigError((f"{names}: not simulated; leave them out, or switch them off with --set KEY=off",))
    if given is not None:
        return policy, given.hpa
    return policy, HpaSpec(max(1, policy.min_replicas), policy.max_replicas, behavior=undamped(policy.hpa_tolerance))


def _ttft_slo(policy: PoolPolicy) -> float:
    return next((each.scale_up for each in policy.signals if each.name == SignalName.TTFT_P95), _TTFT_SLO_S)


def _facts(played: Run, slo: Slo) -> Iterator[tuple[str, str]]:
    outcomes, moments = played.outcomes, played.moments
    cut_off = sum(not outcome.completed for outcome in outcomes)
    yield "requests", f"{len(outcomes) + played.unserved}, of them {cut_off + played.unserved} not served"
    objectives = f"first token in {format_duration(slo.ttft_s)} and {format_duration(slo.tpot_s)} a token"
    yield "within the SLO", f"{100 * played.joint_attainment(slo):.1f} % ({objectives})"
    counts = [moment.requested for moment in moments]
    yield "replica hours", f"{played.replica_hours:.1f} ({min(counts)} to {max(counts)} replicas)"
    yield "changes", f"{len(played.changes)}, of them {reversals(played.changes)} against the one before"
    worst = max(moments, key=lambda moment: moment.waiting)
    yield (
        "worst queue",
        f"{worst.waiting} requests" + (f" at {format_duration(round(worst.at))}" if worst.waiting else ""),
    )


def _lines(result: _Result) -> Iterator[str]:
    yield result.title
    for name, value in result.facts:
        yield f"  {name:15} {value}"
    changes = result.run.changes
    for change in changes[:_SHOWN_CHANGES]:
        why = reason(result.run, change)
        yield f"  {format_duration(round(change.at)):>16}  {change.before} to {change.after}  {why}".rstrip()
    if len(changes) > _SHOWN_CHANGES:
        yield f"  and {format_number(len(changes) - _SHOWN_CHANGES)} more changes"


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise ScalerError(f"{path} cannot be written: {error.strerror}") from error
    click.echo(f"  page             {path}")
