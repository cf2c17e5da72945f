"""``vllm-scaler capacity``: what one replica carries, measured."""

import json
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any, Final, TypeVar

import click

from scaler.capacity import charts, plan, summary, traces
from scaler.capacity.recommend import Advice, Server, recommend, snippet
from scaler.capacity.results import ResultError, read_results
from scaler.capacity.slo import DEFAULT_ATTAINMENT, DEFAULT_ERROR_RATE, Slo
from scaler.capacity.sweep import DEFAULT_REPETITIONS, Sweep, fit
from scaler.cli.durations import Duration

_PATH: Final = click.Path(path_type=Path)
_DASH: Final = click.Path(path_type=Path, allow_dash=True)
_TERMINAL: Final = Path("-")
_COUNT: Final = click.IntRange(1)
_SHARE: Final = click.FloatRange(0, 1)
_ABOVE_ZERO: Final = click.FloatRange(0, min_open=True)
_Result = TypeVar("_Result")


@click.group()
def capacity() -> None:
    """Measure what one replica carries, and turn it into a pool's settings.

    `plan` prints the benchmark to run, `check` says what its results can support, and `fit` finds the largest arrival
    rate at which every repetition meets the SLO.
    """


class _Range(click.ParamType[tuple[float, float]]):
    """LOW:HIGH, two rates."""

    name = "low:high"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> tuple[float, float]:
        low, colon, high = str(value).partition(":")
        try:
            found = float(low), float(high)
        except ValueError:
            colon = ""
            found = (0.0, 0.0)
        if not colon:
            self.fail(f"{value!r} is not LOW:HIGH in requests per second, such as 1:20", param, ctx)
        return found


def _slo_options(command: Callable[..., _Result]) -> Callable[..., _Result]:
    """Give a command the flags of an SLO, and call it with the SLO that they make."""

    @wraps(command)
    def with_slo(
        *,
        ttft: float | None,
        tpot: float | None,
        e2e: float | None,
        attainment: float,
        max_error_rate: float,
        **others: Any,  # noqa: ANN401 - whatever other options the command has
    ) -> _Result:
        try:
            slo = Slo(ttft, tpot, e2e, attainment, max_error_rate)
        except ValueError as error:
            text = (
                "give at least one of --ttft, --tpot and --e2e, above 0; --attainment above 0, --max-error-rate below 1"
            )
            raise click.UsageError(text) from error
        return command(slo=slo, **others)

    decorated: Callable[..., _Result] = with_slo
    for option in (
        click.option(
            "--max-error-rate",
            type=_SHARE,
            default=DEFAULT_ERROR_RATE,
            show_default=True,
            help="The most requests that may fail.",
        ),
        click.option(
            "--attainment",
            type=_SHARE,
            default=DEFAULT_ATTAINMENT,
            show_default=True,
            help="The least share of requests that keep to all bounds; failed ones do not.",
        ),
        click.option("--e2e", type=Duration(), help="Bound of the whole answer, such as 2s."),
        click.option("--tpot", type=Duration(), help="Bound of the mean time per output token after the first: 50ms."),
        click.option("--ttft", type=Duration(), help="Bound of the time to first token, such as 500ms."),
    ):
        decorated = option(decorated)
    return decorated


_results = click.argument("results", nargs=-1, required=True, type=_PATH)
_warmup = click.option(
    "--warmup-requests",
    "warmup",
    type=click.IntRange(0),
    default=0,
    show_default=True,
    help="Requests at the start of each run that are load and are not judged.",
)
_repetitions = click.option(
    "--min-repetitions",
    "repetitions",
    type=click.IntRange(2),
    default=DEFAULT_REPETITIONS,
    show_default=True,
    help="The fewest runs of a rate from which a capacity is named.",
)


@capacity.command("fit")
@_results
@_slo_options
@_warmup
@_repetitions
@click.option("--max-num-seqs", type=_COUNT, help="vLLM's --max-num-seqs: slots are at most that.")
@click.option("--engines", type=_COUNT, default=1, show_default=True, help="Data-parallel engines in one replica.")
@click.option("--kv-cache-tokens", type=_COUNT, help="Tokens in a replica's KV cache, from vLLM's log at its start.")
@click.option("--replica-hourly-cost", type=_ABOVE_ZERO, help="Price of a replica for an hour, to cost tokens.")
@click.option("--deployment", default="vllm", show_default=True, help="Name of the Deployment, for the trigger.")
@click.option(
    "--scaler-address",
    default="vllm-scaler.keda.svc.cluster.local:50051",
    show_default=True,
    help="Where KEDA finds this scaler, for the trigger.",
)
@click.option("--details", is_flag=True, help="Also show each run by itself.")
@click.option("--json", "json_file", type=_DASH, help="Write it all as JSON; - for the terminal, and nothing else.")
@click.option("--html", "html_file", type=_PATH, help="Write a page with plots (needs matplotlib).")
def fit_results(
    *,
    results: tuple[Path, ...],
    slo: Slo,
    warmup: int,
    repetitions: int,
    max_num_seqs: int | None,
    engines: int,
    kv_cache_tokens: int | None,
    replica_hourly_cost: float | None,
    deployment: str,
    scaler_address: str,
    details: bool,
    json_file: Path | None,
    html_file: Path | None,
) -> None:
    """Find what one replica carries in RESULTS: files of `vllm bench serve --save-result`, or folders of them.

    The capacity is the largest arrival rate at which every repetition meets the SLO, with the next one that failed
    beside it. Without enough repetitions none is named.
    """
    sweep = fit(read_results(results), slo, warmup=warmup, repetitions=repetitions)
    advice = _advice(sweep, Server(max_num_seqs, engines, kv_cache_tokens, replica_hourly_cost))
    model = sweep.capacity.level.runs[0].result.model if sweep.capacity else ""
    trigger = ""
    if advice is not None:
        trigger = snippet(advice, deployment=deployment, model=model, scaler_address=scaler_address)
    if html_file is not None:
        _write(html_file, charts.html(sweep, advice, trigger))
    if json_file is not None:
        _write(json_file, json.dumps(summary.as_json(sweep, advice, trigger), indent=2) + "\n")
    if json_file != _TERMINAL:
        click.echo(summary.text(sweep, advice, trigger, details=details), nl=False)


def _write(file: Path, text: str) -> None:
    try:
        with click.open_file(str(file), "w", encoding="utf-8") as opened:
            opened.write(text)
    except OSError as error:
        raise ResultError(f"{file} cannot be written: {error.strerror}") from error


def _advice(sweep: Sweep, server: Server) -> Advice | None:
    if sweep.capacity is None:
        return None
    return recommend(sweep.capacity, sweep.slo, server=server, most_tokens_per_s=sweep.most_tokens_per_s)


@capacity.command("check")
@_results
@_slo_options
@_warmup
@_repetitions
def check_results(*, results: tuple[Path, ...], slo: Slo, warmup: int, repetitions: int) -> None:
    """Say what RESULTS cannot support, and why. Ends with code 1 when they support no capacity at all."""
    sweep = fit(read_results(results), slo, warmup=warmup, repetitions=repetitions)
    for finding in sweep.findings:
        click.echo(summary.finding_text(finding))
    if any(finding.blocks for finding in sweep.findings):
        raise click.exceptions.Exit(1)
    runs = len(sweep.set_aside) + sum(len(level.runs) for level in sweep.levels)
    click.echo(f"{runs} results: nothing keeps a capacity from being named.")


@capacity.command("plan")
@click.option("--model", required=True, help="The model, as `vllm bench serve --model` takes it.")
@_slo_options
@click.option("--range", "rough", type=_Range(), help="LOW:HIGH req/s, where the capacity may lie: a coarse sweep.")
@click.option("--bracket", type=_Range(), help="LOW:HIGH req/s, what a coarse sweep found: a dense one within it.")
@click.option("--input-tokens", type=_COUNT, default=1024, show_default=True, help="Mean prompt.")
@click.option("--output-tokens", type=_COUNT, default=128, show_default=True, help="Mean answer.")
@click.option(
    "--length-spread",
    type=click.FloatRange(0, 1, max_open=True),
    default=0.0,
    show_default=True,
    help="Share by which lengths differ, either way.",
)
@click.option(
    "--seeds", type=_COUNT, help=f"Runs at each rate. [default: {plan.COARSE_SEEDS}; dense: {plan.DENSE_SEEDS}]"
)
@click.option("--run-time", type=Duration(1.0), default="2m", show_default=True, help="How long a run sends at least.")
@click.option("--base-url", default="http://127.0.0.1:8000", show_default=True, help="Where vLLM answers.")
@click.option("--tokenizer", default="", help="If it is not the model's own.")
@click.option("--deployment", default="", help="Whose replicas kubectl counts before and after each run.")
@click.option("--namespace", default="", help="Where the Deployment is.")
@click.option("--results", "folder", default="results", show_default=True, help="Folder for results.")
@click.option(
    "--traces",
    "trace_folder",
    type=_PATH,
    help="Write a timed trace for each run into this folder: a true Poisson process, or a recording's own timing.",
)
@click.option("--recording", type=_PATH, help="Recorded requests for the traces: Azure's CSV, or vLLM's JSON lines.")
@click.option("--milliseconds", is_flag=True, help="The recording's times are in milliseconds (Mooncake's are).")
@click.option(
    "--chunk-tokens",
    type=_COUNT,
    default=traces.CHUNK_TOKENS,
    show_default=True,
    help="Prompt tokens that a recording's hash stands for (Mooncake: 512).",
)
def plan_command(
    *,
    model: str,
    slo: Slo,
    rough: tuple[float, float] | None,
    bracket: tuple[float, float] | None,
    input_tokens: int,
    output_tokens: int,
    length_spread: float,
    seeds: int | None,
    run_time: float,
    base_url: str,
    tokenizer: str,
    deployment: str,
    namespace: str,
    folder: str,
    trace_folder: Path | None,
    recording: Path | None,
    milliseconds: bool,
    chunk_tokens: int,
) -> None:
    """Print a shell script that measures one replica: coarse over a --range, then dense within the --bracket it found.

    Each run is warmed up, starts with an empty prefix cache, keeps the length of its answers, and sends at its own
    rate whatever the server does. The same seeds run at every rate.
    """
    if (rough is None) is (bracket is None):
        raise click.UsageError("give --range for a coarse sweep, or --bracket for a dense one")
    if recording is not None and trace_folder is None:
        raise click.UsageError("--recording goes into traces: say where to with --traces")
    try:
        rates = plan.dense_rates(*bracket) if bracket else plan.coarse_rates(*(rough or (0.0, 0.0)))
    except ValueError as error:
        raise click.UsageError(str(error)) from error
    sweep = plan.Plan(
        model=model,
        slo=slo,
        lengths=traces.Lengths(input_tokens, output_tokens, length_spread),
        rates=rates,
        seeds=seeds or (plan.DENSE_SEEDS if bracket else plan.COARSE_SEEDS),
        base_url=base_url.rstrip("/"),
        results=folder,
        run_s=run_time,
        tokenizer=tokenizer,
        deployment=deployment,
        namespace=namespace,
        traces="" if trace_folder is None else str(trace_folder),
        chunk_tokens=chunk_tokens,
    )
    if trace_folder is not None:
        _write_traces(sweep, trace_folder, recording, milliseconds=milliseconds)
    click.echo(plan.script(sweep), nl=False)


def _write_traces(sweep: plan.Plan, folder: Path, recording: Path | None, *, milliseconds: bool) -> None:
    recorded = None if recording is None else traces.read_recording(recording, milliseconds=milliseconds)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for rate in sweep.rates:
            for seed in range(1, sweep.seeds + 1):
                requests = sweep.requests(rate)
                found = (
                    traces.poisson(rate, requests, sweep.lengths, seed=seed)
                    if recorded is None
                    else traces.at_rate(recorded, rate, requests, part=seed - 1)
                )
                with (folder / plan.trace_name(rate, seed)).open("w", encoding="utf-8") as file:
                    file.writelines(f"{line}\n" for line in traces.lines(found, chunk_tokens=sweep.chunk_tokens))
    except OSError as error:
        raise ResultError(f"traces cannot be written to {folder}: {error.strerror}") from error
