"""One HTML file without scripts, fonts or addresses of others: what is written here opens years later, offline."""

import html
import io
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from scaler.errors import ScalerError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; max-width: 72rem; margin: 2rem auto; padding: 0 1rem; color: #1c1e21; }
table { border-collapse: collapse; margin: 1rem 0; font-variant-numeric: tabular-nums; }
th, td { border-bottom: 1px solid #d5d8dc; padding: .25rem .75rem; text-align: right; }
th:first-child, td:first-child { text-align: left; }
th { border-bottom-width: 2px; }
svg { max-width: 100%; height: auto; }
pre { background: #f4f5f7; padding: .75rem; overflow-x: auto; }
"""


class ReportError(ScalerError):
    """A report that cannot be drawn; its text says what to do."""


def figure(width: float = 10.0, height: float = 4.0) -> "Figure":
    """Return an empty matplotlib figure.

    Args:
        width: Inches.
        height: Inches.

    Raises:
        ReportError: matplotlib is not installed.
    """
    try:
        from matplotlib.figure import Figure  # noqa: PLC0415 - slow to import, and an extra that only reports need
    except ImportError as error:
        raise ReportError("plots need matplotlib: pip install 'vllm-keda-scaler[report]'") from error
    return Figure(figsize=(width, height), layout="constrained")


def svg(drawn: "Figure") -> str:
    """Return a figure as an ``<svg>`` element whose text stays text; the same figure gives the same element."""
    from matplotlib import rc_context  # noqa: PLC0415 - as in figure()

    buffer = io.StringIO()
    with rc_context({"svg.hashsalt": "", "svg.fonttype": "none"}):
        drawn.savefig(buffer, format="svg", metadata={"Date": None})
    text = buffer.getvalue()
    return text[text.index("<svg") :]


def paragraph(text: str) -> str:
    """Return plain text as a paragraph."""
    return f"<p>{html.escape(text)}</p>"


def table(headers: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return plain texts as a table, the first column to the left and the others to the right."""
    head = "".join(f"<th>{html.escape(each)}</th>" for each in headers)
    lines = ("".join(f"<td>{html.escape(each)}</td>" for each in row) for row in rows)
    body = "".join(f"<tr>{line}</tr>\n" for line in lines)
    return f"<table>\n<thead><tr>{head}</tr></thead>\n<tbody>\n{body}</tbody>\n</table>"


def page(title: str, sections: Iterable[tuple[str, str]]) -> str:
    """Return a whole page.

    Args:
        title: Plain text.
        sections: A heading in plain text, and what is below it in HTML, from ``paragraph``, ``table`` and ``svg``.
    """
    body = "\n".join(f"<h2>{html.escape(heading)}</h2>\n{content}" for heading, content in sections)
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f"<title>{html.escape(title)}</title>\n<style>{_STYLE}</style>\n</head>\n"
        f"<body>\n<h1>{html.escape(title)}</h1>\n{body}\n</body>\n</html>\n"
    )
