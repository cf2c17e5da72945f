"""The sentences that say why readings are missing or were corrected, bounded in number and length."""

from typing import Final

# One pool has ten readings; more sentences would hide the first ones in every record.
MAX_NOTES: Final = 10
# Characters of one note: room for the names of a namespace, a model and a pod, but not for a whole HTML page.
MAX_NOTE_CHARS: Final = 300


class Notes:
    """Collects sentences in the order in which they come, each once."""

    def __init__(self) -> None:
        self._notes: dict[str, None] = {}
        self._dropped = 0

    def add(self, note: str) -> None:
        """Add a sentence; a long one is cut, one too many is counted."""
        short = note if len(note) <= MAX_NOTE_CHARS else f"{note[: MAX_NOTE_CHARS - 1]}…"
        if len(self._notes) < MAX_NOTES:
            self._notes[short] = None
        elif short not in self._notes:
            self._dropped += 1

    def all(self) -> tuple[str, ...]:
        """Return what was collected."""
        more = (f"{self._dropped} more notes are left out",) if self._dropped else ()
        return (*self._notes, *more)
