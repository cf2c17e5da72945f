"""Backtests on a terminal, or wherever standard output goes."""

from collections.abc import Sequence
from typing import Final

from rich.box import SIMPLE_HEAD
from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Table as RichTable
from rich.text import Text

from scaler.backtest.replay import Backtest
from scaler.backtest.tables import Table, clock, every_table
from scaler.units import format_duration

SHOWN_PERIODS: Final = 20
"""Differences that are shown of each policy; the page and the JSON have all."""
_NARROWEST: Final = 140
"""Columns where no terminal says how many there are."""


def print_backtest(found: Backtest, rest_on: Sequence[str]) -> None:
    """Write what came of a backtest to standard output.

    Args:
        found: What came of it.
        rest_on: What it takes for granted, a sentence each.
    """
    console = Console(highlight=False)
    if not console.is_terminal:
        console = Console(highlight=False, width=max(console.width, _NARROWEST))
    recorded = next(iter(found.recorded.values()))
    until = found.since + recorded.ticks * recorded.tick_s
    console.print(
        f"{clock(found.since)} to {clock(until)} UTC: {recorded.ticks} ticks of {format_duration(recorded.tick_s)}"
    )
    for sentence in rest_on:
        console.print(Text(f"- {sentence}"))
    for case in found.cases:
        for warning in case.warnings:
            console.print(Text(f"warning: {case.name}: {warning}"))
    for table in every_table(found, SHOWN_PERIODS):
        console.print()
        console.print(Text(table.title, style="bold"))
        console.print(_drawn(table))
        if table.note:
            console.print(Text(table.note))


def _drawn(table: Table) -> RenderableType:
    """Draw a table; sentences stand below their row, since columns beside it would be a word wide."""
    short = len(table.headers) - table.sentences
    drawn = RichTable(box=SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for header in table.headers[:short]:
        drawn.add_column(Text(header), overflow="fold")
    if not table.sentences:
        for row in table.rows:
            drawn.add_row(*map(Text, row))
        return drawn
    widths = [max(map(len, column)) for column in zip(table.headers, *table.rows, strict=True)][:short]
    parts: list[RenderableType] = []
    for row in (table.headers, *table.rows):
        cells = (text.ljust(width) for text, width in zip(row, widths, strict=False))
        parts.append(Text("  ".join(cells), style="bold" if row is table.headers else ""))
        named = zip(table.headers[short:], row[short:], strict=True)
        if row is not table.headers:
            parts += [Padding(Text(f"{header}: {text}"), (0, 0, 0, 4)) for header, text in named if text]
    return Group(*parts)
