"""What a person sees of a running demo: a live panel on a terminal, plain lines anywhere else."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Self

from rich.console import Console, RenderableType
from rich.live import Live
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from scaler.demo.record import Change, clock_time, why
from scaler.model import Absent, Decision, Reading
from scaler.units import format_duration

SHOWN_CHANGES: Final = 5
_BAR_CELLS: Final = 30
# Plain output stays readable in a log: a line at least so often, and one at each change.
_PLAIN_EVERY_S: Final = 2.0
_PACE: Final = "here every 2 s; in a cluster KEDA polls every 30 s and the HPA looks every 15 s"


@dataclass(frozen=True, slots=True)
class Frame:
    """Everything that is shown at one moment."""

    elapsed_s: float
    duration_s: float
    phase: str
    rate: float
    """Requests that arrive a second."""
    running: int
    waiting: int
    slots: int
    """Requests that the serving replicas carry, by the trigger's setting."""
    serving: int
    starting: int
    draining: int
    requested: int
    ttft_slo_s: float
    decision: Decision | None
    polled_value: float | None
    poll_error: str
    prometheus_up: bool
    changes: Sequence[Change]

    @property
    def in_flight(self) -> int:
        """Running and waiting requests."""
        return self.running + self.waiting

    @property
    def target(self) -> str:
        """The replicas decided, in digits."""
        return "?" if self.decision is None or self.decision.target is None else str(self.decision.target)

    @property
    def verdict(self) -> str:
        """The newest decision in words."""
        if self.decision is None:
            return "not evaluated yet"
        return f"{self.decision.action.value.replace('_', ' ')}: {why(self.decision)}"


class View:
    """Shows frames until left.

    Args:
        console: Where to.
    """

    def __init__(self, console: Console) -> None:
        self._console = console
        self._live = Live(console=console, auto_refresh=False, transient=False) if console.is_terminal else None
        self._shown_at = 0.0
        self._shown: tuple[object, ...] = ()

    def __enter__(self) -> Self:
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live is not None:
            self._live.stop()

    def show(self, frame: Frame) -> None:
        """Show a frame; as a plain line only when something changed, or two seconds after the last."""
        if self._live is not None:
            self._live.update(panel(frame), refresh=True)
            return
        seen = (frame.phase, frame.requested, frame.target, frame.prometheus_up, bool(frame.poll_error))
        if seen != self._shown or frame.elapsed_s >= self._shown_at + _PLAIN_EVERY_S:
            self._shown, self._shown_at = seen, frame.elapsed_s
            self._console.out(plain_line(frame), highlight=False)


def plain_line(frame: Frame) -> str:
    """Write a frame as one line."""
    parts = [
        f"t={frame.elapsed_s:.0f}s {frame.phase}",
        f"in flight {frame.in_flight}/{frame.slots} waiting {frame.waiting}",
        f"ttft p95 {_ttft(frame)}",
        f"kv {_kv(frame)}",
        f"replicas {frame.serving} serving, {frame.requested} requested, target {frame.target}",
        frame.verdict,
    ]
    if not frame.prometheus_up:
        parts.insert(1, "PROMETHEUS DOWN")
    if frame.poll_error:
        parts.append(f"KEDA gets {frame.poll_error}")
    return "  ".join(parts)


def panel(frame: Frame) -> RenderableType:
    """Draw a frame."""
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="bold", no_wrap=True)
    grid.add_column(ratio=1)
    grid.add_row("traffic", f"{frame.rate:.1f} requests a second")
    grid.add_row("in flight", _load(frame))
    grid.add_row("P95 TTFT", _latency(frame))
    grid.add_row("KV cache", _kv(frame))
    grid.add_row("replicas", _replicas(frame))
    grid.add_row("decision", Text(frame.verdict, style=_style(frame)))
    grid.add_row("KEDA", _keda(frame))
    if not frame.prometheus_up:
        grid.add_row("", Text("Prometheus is down", style="bold red"))
    for index, change in enumerate(reversed(frame.changes[-SHOWN_CHANGES:])):
        # One line each, so that the panel keeps its height; the summary has them whole.
        text = Text(str(change), style="" if index == 0 else "dim", no_wrap=True, overflow="ellipsis")
        grid.add_row("changes" if index == 0 else "", text)
    title = f"{frame.phase}   {clock_time(frame.elapsed_s)} of {clock_time(frame.duration_s)}"
    return Panel(grid, title=title, title_align="left", subtitle="Ctrl-C stops everything", subtitle_align="left")


def _load(frame: Frame) -> Text:
    share = frame.in_flight / frame.slots if frame.slots else 1.0
    filled = min(_BAR_CELLS, round(share * _BAR_CELLS))
    style = "red" if frame.waiting else "yellow" if share > 1 else "green"
    text = Text("█" * filled, style=style).append("░" * (_BAR_CELLS - filled), style="dim")
    waiting = f", {frame.waiting} waiting" if frame.waiting else ""
    return text.append(f" {frame.in_flight} of {frame.slots} slots{waiting}", style="default")


def _latency(frame: Frame) -> Text:
    seen = None if frame.decision is None else frame.decision.observation.ttft_p95_s
    is_late = isinstance(seen, float) and seen > frame.ttft_slo_s
    objective = f"  objective {format_duration(frame.ttft_slo_s)}"
    return Text(_ttft(frame), style="red" if is_late else "").append(objective, style="dim")


def _replicas(frame: Frame) -> Text:
    text = Text("■" * frame.serving, style="green").append("□" * frame.starting, style="yellow")
    text.append("▫" * frame.draining, style="dim")
    counts = [f"{frame.serving} serving"]
    counts += [f"{frame.starting} starting"] if frame.starting else []
    counts += [f"{frame.draining} draining"] if frame.draining else []
    return text.append(f" {', '.join(counts)}, {frame.requested} requested, target {frame.target}", style="default")


def _keda(frame: Frame) -> Text:
    if frame.poll_error:
        return Text(f"holds: {frame.poll_error}", style="red")
    answer = "asks for the first time" if frame.polled_value is None else f"was told {frame.polled_value:g}"
    return Text(answer).append(f"  ({_PACE})", style="dim")


def _style(frame: Frame) -> str:
    action = "" if frame.decision is None else frame.decision.action.value
    return {"scale_up": "bold yellow", "scale_down": "bold cyan"}.get(action, "")


def _ttft(frame: Frame) -> str:
    seen = Absent.MISSING if frame.decision is None else frame.decision.observation.ttft_p95_s
    return _reading(seen, "{:.2f} s")


def _kv(frame: Frame) -> str:
    ratios = Absent.MISSING if frame.decision is None else frame.decision.observation.kv_usage_ratios
    if isinstance(ratios, Absent):
        return _reading(ratios, "")
    return _reading(sum(ratios) / len(ratios) if ratios else Absent.MISSING, "{:.0%}")


def _reading(reading: Reading, form: str) -> str:
    if reading is Absent.NO_TRAFFIC:
        return "no traffic"
    return "missing" if isinstance(reading, Absent) else form.format(reading)
