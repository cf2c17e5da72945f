"""``vllm-scaler backtest``: what a policy would have asked for, over last week's traffic."""

import asyncio
import json
import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from scaler.adapters import logs
from scaler.adapters.long_read import read_ticks
from scaler.adapters.reader import MetricsReader
from scaler.adapters.recording import Header, Recording, Seen, recording_to
from scaler.backtest.assumptions import assumptions
from scaler.backtest.cold_start import ColdStarts
from scaler.backtest.counterfactual import Replica
from scaler.backtest.machine import to_json
from scaler.backtest.replay import Backtest, Case, without_reading
from scaler.backtest.tables import clock
from scaler.backtest.web_page import web_page
from scaler.cli.durations import Duration
from scaler.cli.options import settings_options
from scaler.cli.policies import NamedPolicy, place_of, pools_of, read_policies, written_triggers
from scaler.cli.printing import print_backtest
from scaler.config.backends import Access
from scaler.config.server import FLAGS, Evaluation, ServerSettings
from scaler.config.sources import LoadedSettings
from scaler.errors import ConfigError, ScalerError
from scaler.model import PoolKey, PoolLocator
from scaler.policy.history import memory_ticks
from scaler.promql import LabelNames
from scaler.report.page import figure
from scaler.service.backends import connected
from scaler.units import format_duration, grid_floor

MOST_TICKS: Final = 500_000
"""Twelve weeks at 15 s: three minutes of the law."""
_OWN_REPLICAS: Final = "counterfactual"
_DEFAULT_SPAN_S: Final = 7 * 86400.0
_OLDEST: Final = 1e9
"""In 2001 there was no Prometheus."""
_SETTLE_S: Final = 5.0
"""What is younger may not be there in full yet, where samples go from one store to the next."""
_READING: Final = tuple(
    name
    for section in (Evaluation, Access)
    for name in section.model_fields
    if name in FLAGS and name != "max_hold_age"  # nothing is answered here, so nothing is held
)


@dataclass(frozen=True, slots=True)
class _Ticks:
    """The ticks to read, of which those before ``since`` only fill the windows."""

    since: float
    every: Sequence[float]
    tick_s: float


class _Instant(click.ParamType[float]):
    """A point in time: ISO 8601, in UTC where it names no offset, or Unix seconds."""

    name = "time"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> float:
        text = str(value)
        try:
            at = float(text) if text.replace(".", "", 1).isdigit() else _utc(datetime.fromisoformat(text))
        except (ValueError, OverflowError):
            at = 0.0
        # So that a date without its dashes is no time of 1970.
        if at < _OLDEST:
            self.fail(f"{text!r} is no time such as 2026-01-31, 2026-01-31T08:00:00Z or 1769846400", param, ctx)
        return at


class _Setting(click.ParamType[tuple[str, str]]):
    """KEY=VALUE."""

    name = "key=value"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, str]:
        key, equals, text = str(value).partition("=")
        if not equals or not key.strip():
            self.fail(f"{value!r} is not KEY=VALUE, such as slotsPerReplica=16", param, ctx)
        return key.strip(), text.strip()


class _Variant(click.ParamType[tuple[str, dict[str, str]]]):
    """NAME:KEY=VALUE,KEY=VALUE."""

    name = "name:key=value,..."

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, dict[str, str]]:
        name, colon, settings = str(value).partition(":")
        if not colon or not name.strip():
            self.fail(f"{value!r} is not NAME:KEY=VALUE,..., such as lean:minReplicas=1,warmReplicas=0", param, ctx)
        # A value with a comma in it needs a file of its own: it could not be told from the next key.
        pairs = [_Setting().convert(part, param, ctx) for part in settings.split(",")]
        return name.strip(), dict(pairs)


@click.command()
@click.argument("files", nargs=-1, type=click.Path(path_type=Path))
@click.option(
    "--set",
    "changes",
    type=_Setting(),
    multiple=True,
    metavar="KEY=VALUE",
    help="Set a key of every policy's metadata. Without a file the policy is made of these alone.",
)
@click.option(
    "--variant",
    "variants",
    type=_Variant(),
    multiple=True,
    metavar="NAME:KEY=VALUE,...",
    help="Also try the policy with these keys changed; once for each variant.",
)
@click.option("--namespace", default="default", show_default=True, help="Namespace of a policy whose file names none.")
@click.option("--last", type=Duration(1.0), help="How far back to go, such as 24h.  [default: 7d]")
@click.option("--from", "since", type=_Instant(), help="First tick: ISO 8601 (UTC unless it says otherwise).")
@click.option("--to", "until", type=_Instant(), help="Last tick; the newest by default.")
@click.option(
    "--mode",
    type=click.Choice(("advice", _OWN_REPLICAS)),
    default="advice",
    show_default=True,
    help="advice: decide on what was really there. counterfactual: carry own replicas forward, by a model.",
)
@click.option(
    "--cold-start",
    type=Duration(),
    help="Until a new replica serves, for counterfactual mode.  [default: measured in the history]",
)
@click.option(
    "--replica-slots",
    type=click.IntRange(1),
    help="Slots of a replica, for counterfactual mode.  [default: the first policy's slotsPerReplica]",
)
@click.option("--save", type=click.Path(path_type=Path), help="Keep what was read; compressed if it ends in .gz.")
@click.option(
    "--history", type=click.Path(path_type=Path), help="Use a file of --save; nothing is asked of Prometheus."
)
@click.option("--html", type=click.Path(path_type=Path), help="Write a page with timelines and every difference.")
@click.option("--json", "as_json", is_flag=True, help="Write JSON, with every difference, instead of tables.")
@partial(settings_options, names=_READING)
def backtest(loaded: LoadedSettings, **given: Any) -> None:  # noqa: ANN401 - each option has its type above and below
    """Try policies on past traffic: what they would have asked for, against what was run.

    FILES are ScaledObjects as YAML or JSON; each external trigger in them is a policy. The traffic is read from
    Prometheus, with the settings that `vllm-scaler serve` takes, or from a file that --save has written.
    """
    options, settings = _Options(**given), loaded.settings
    options.check()
    logs.configure(settings.log_level, settings.log_format)
    messages = Console(stderr=True, highlight=False, soft_wrap=True)
    for warning in loaded.warnings:
        messages.print(f"setting ignored: {warning}", markup=False)
    with TemporaryDirectory(prefix="vllm-scaler-") as folder:
        recording, policies = _history(options, settings, Path(folder), messages)
        cases, starts_s = _cases(options, policies, recording)
        found = Backtest(cases, since=_since(options, recording.header))
        _replay(found, recording, math.inf if options.until is None else options.until, messages)
    rest_on = assumptions(found, starts_s)
    if options.html is not None:
        _write(options.html, web_page(found, rest_on))
    if options.as_json:
        click.echo(json.dumps(to_json(found, rest_on), indent=2))
    else:
        print_backtest(found, rest_on)


@dataclass(frozen=True, slots=True)
class _Options:
    """The options, as click has read them; times in Unix seconds, spans in seconds."""

    files: tuple[Path, ...]
    changes: tuple[tuple[str, str], ...]
    variants: tuple[tuple[str, dict[str, str]], ...]
    namespace: str
    last: float | None
    since: float | None
    until: float | None
    mode: str
    cold_start: float | None
    replica_slots: int | None
    save: Path | None
    history: Path | None
    html: Path | None
    as_json: bool

    @property
    def has_own_replicas(self) -> bool:
        """Whether the policies' own replicas are carried forward."""
        return self.mode == _OWN_REPLICAS

    def check(self) -> None:
        """Refuse what does not go together, before anything is read.

        Raises:
            UsageError: With what to leave out.
            ReportError: A page is wanted that cannot be drawn.
        """
        if self.history is not None and (self.save is not None or self.last is not None):
            raise click.UsageError("--history has its own times and is saved already: --from and --to narrow it")
        if self.last is not None and self.since is not None:
            raise click.UsageError("give --last or --from, not both")
        if not self.has_own_replicas and (self.cold_start is not None or self.replica_slots is not None):
            raise click.UsageError(f"--cold-start and --replica-slots are of --mode {_OWN_REPLICAS}")
        if self.html is not None:
            figure()


def _history(
    options: _Options, settings: ServerSettings, folder: Path, messages: Console
) -> tuple[Recording, tuple[NamedPolicy, ...]]:
    """Return what was seen in the past, read now or before, and the policies to try on it."""
    written = written_triggers(options.files, dict(options.changes), options.variants, namespace=options.namespace)
    if options.history is not None:
        recording = Recording(options.history)
        return recording, read_policies(written, settings, tick_s=recording.header.tick_s)
    policies = read_policies(written, settings, tick_s=settings.evaluation_interval)
    ticks = _ticks(options, policies, settings.evaluation_interval)
    path = options.save or folder / "history.jsonl.gz"
    began = time.perf_counter()
    asyncio.run(_read(path, pools_of(policies), ticks, settings, messages))
    messages.print(f"read {len(ticks.every)} ticks in {format_duration(round(time.perf_counter() - began, 1))}")
    return Recording(path), policies


def _since(options: _Options, header: Header) -> float:
    """Return the first tick that counts.

    Raises:
        ConfigError: It lies before those that were asked for when the history was read.
    """
    if options.since is None:
        return header.since
    steps = math.ceil(round((options.since - header.since) / header.tick_s, 6))
    if steps < 0:
        raise ConfigError(
            (f"the history begins at {clock(header.since)} UTC, after the {clock(options.since)} of --from",)
        )
    return header.since + steps * header.tick_s


def _cases(
    options: _Options, policies: Sequence[NamedPolicy], recording: Recording
) -> tuple[tuple[Case, ...], tuple[float, ...]]:
    """Return what to compare, and the cold starts that were measured for it."""
    places = [place_of(policy, recording.header.pools) for policy in policies]
    replicas: dict[PoolLocator, Replica] = {}
    found: list[float] = []
    if options.has_own_replicas:
        measured = _cold_starts(recording) if options.cold_start is None else {}
        for policy, place in zip(policies, places, strict=True):
            pool = without_reading(policy.locator)
            # The first policy of a pool says what its replicas are; others do not change them by wanting it.
            if pool in replicas:
                continue
            cold_start_s = measured[place].typical_s if place in measured else options.cold_start
            if cold_start_s is None:
                raise ScalerError(
                    f"the history does not tell how long a replica of {policy.name} takes to start: give --cold-start,"
                    " such as 2m"
                )
            replicas[pool] = Replica(options.replica_slots or policy.trigger.policy.slots_per_replica, cold_start_s)
            found += measured[place].found if place in measured else ()
    cases = (
        Case(
            policy.name,
            policy.trigger.policy,
            place,
            replicas.get(without_reading(policy.locator)),
            policy.trigger.warnings,
        )
        for policy, place in zip(policies, places, strict=True)
    )
    return tuple(cases), tuple(found)


def _ticks(options: _Options, policies: Sequence[NamedPolicy], tick_s: float) -> _Ticks:
    """Return the ticks to read: those that were asked for, and before them as many as decisions depend on.

    Raises:
        ConfigError: There is none, or there are too many.
    """
    newest = grid_floor(time.time() - _SETTLE_S, tick_s)
    end = newest if options.until is None else min(grid_floor(options.until, tick_s), newest)
    begin = end - (options.last or _DEFAULT_SPAN_S) if options.since is None else options.since
    first = math.ceil(round(begin / tick_s, 6))
    final = round(end / tick_s)
    if first > final:
        raise ConfigError((f"there is no tick from {clock(begin)} to {clock(end)} UTC: give an earlier --from",))
    if final - first >= MOST_TICKS:
        raise ConfigError(
            (f"that time has {final - first + 1} ticks, more than the {MOST_TICKS} that can be tried: narrow it",)
        )
    before = max(memory_ticks(policy.trigger.policy) for policy in policies)
    return _Ticks(first * tick_s, [number * tick_s for number in range(max(0, first - before), final + 1)], tick_s)


async def _read(
    path: Path, pools: Sequence[PoolLocator], ticks: _Ticks, settings: ServerSettings, messages: Console
) -> None:
    """Read the past from Prometheus into a file, part by part."""
    # The reader tells pools apart by key alone, so any will do.
    keys = {PoolKey(pool.namespace, "backtest", f"{number:08x}"): pool for number, pool in enumerate(pools)}
    names = LabelNames(settings.namespace_label, settings.pod_label, settings.instance_label)
    with (
        connected(settings.every_backend()) as backends,
        recording_to(path, Header(ticks.tick_s, ticks.since, tuple(pools))) as write,
        _progress(messages) as progress,
    ):
        reader = MetricsReader(backends, names, queries=settings.queries)
        task = progress.add_task("reading Prometheus", total=len(ticks.every))
        async for at, seen in read_ticks(reader, keys, ticks.every):
            write(Seen(at, tuple(seen[key] for key in keys)))
            progress.advance(task)


def _cold_starts(recording: Recording) -> dict[int, ColdStarts]:
    """Measure how long each pool's replicas took to start."""
    measured = {place: ColdStarts() for place in range(len(recording.header.pools))}
    for seen in recording.ticks():
        for place, starts in measured.items():
            starts.see(seen.observations[place])
    return measured


def _replay(found: Backtest, recording: Recording, until: float, messages: Console) -> None:
    """Take the policies through the history.

    Raises:
        ScalerError: Nothing of it lies in the time that was asked for.
    """
    began, ticks, newest = time.perf_counter(), 0, found.since
    with _progress(messages) as progress:
        task = progress.add_task("replaying", total=None)
        for seen in recording.ticks():
            if seen.at > until:
                break
            found.see(seen.observations)
            ticks, newest = ticks + 1, seen.at
            progress.advance(task)
    if not any(recorded.ticks for recorded in found.recorded.values()):
        raise ScalerError(
            f"there is no tick to look at: the history is read up to {clock(newest)} UTC, and {clock(found.since)} is"
            " where to begin: give other --from and --to"
        )
    took_s = time.perf_counter() - began
    pace = round(ticks * len(found.cases) / took_s) if took_s else 0
    messages.print(f"replayed {ticks} ticks in {format_duration(round(took_s, 1))}: {pace} policy-ticks a second")


def _progress(messages: Console) -> Progress:
    """Return a progress bar; where no person watches there is none."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    return Progress(*columns, console=messages, transient=True, disable=not messages.is_terminal)


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise ScalerError(f"{path} cannot be written: {error.strerror or error}") from error


def _utc(instant: datetime) -> float:
    return (instant if instant.tzinfo is not None else instant.replace(tzinfo=UTC)).timestamp()
