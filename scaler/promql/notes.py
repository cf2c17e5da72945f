"""The sentences that say why readings are missing or were corrected, bounded in number and length."""

from typing import Final

from scaler.errors import PrometheusError

# One pool has ten readings and a few extras; more sentences would hide the first ones in every record.
MAX_NOTES: Final = 10
# Characters of one note: room for the names of a namespace, a model and a pod, but not for a whole HTML page.
MAX_NOTE_CHARS: Final = 300
# Characters of a failed query's cause: a parse error of Prometheus with its place is 160 long.
_MAX_CAUSE_CHARS: Final = 200


class Notes:
    """Collects sentences in the order in which they come, each once."""

    def __init__(self) -> None:
        self._notes: dict[str, None] = {}
        self._dropped = 0
        self._failures: dict[str, list[str]] = {}

    def add_failure(self, consequence: str, error: PrometheusError) -> None:
        """Add what a failed query makes unknown; queries that failed for one cause make one sentence."""
        self._failures.setdefault(str(error), []).append(consequence)

    def add(self, note: str) -> None:
        """Add a sentence; a long one is cut, one too many is counted."""
        short = cut(note, MAX_NOTE_CHARS)
        if len(self._notes) < MAX_NOTES:
            self._notes[short] = None
        elif short not in self._notes:
            self._dropped += 1

    def all(self) -> tuple[str, ...]:
        """Return what was collected."""
        failures = (
            f"{cut(cause, _MAX_CAUSE_CHARS)}: {cut(', '.join(consequences), MAX_NOTE_CHARS - _MAX_CAUSE_CHARS - 2)}"
            for cause, consequences in self._failures.items()
        )
        more = (f"{self._dropped} more notes are left out",) if self._dropped else ()
        return (*tuple(failures)[:MAX_NOTES], *self._notes, *more)


def cut(text: str, limit: int) -> str:
    """Cut a text to at most ``limit`` characters, and show that it was cut."""
    return text if len(text) <= limit else f"{text[: limit - 1]}…"
