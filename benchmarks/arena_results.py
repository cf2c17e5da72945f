"""Runs of the arena on disk: one file a run, so that a stopped arena goes on where it was.

A file's name is a fingerprint of all that the run depends on: the code of the law and the simulator, the workload, the
law's name and policy, and the seed. So a file is never wrong, only unused, and old ones are thrown away.
"""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from scaler.sim.closed_loop import Moment, Run
from scaler.sim.scoring import Score

MOST_FILES: Final = 5000
"""About ten whole arenas; a file has some 30 kB."""
_CODE: Final = ("scaler/sim", "scaler/policy", "scaler/model.py", "scaler/units.py")


@dataclass(frozen=True, slots=True)
class Point:
    """A moment of a run, for plots."""

    at: float
    rate: float
    running: int
    waiting: int
    requested: int
    serving: int
    wanted: float | None
    """What the law asked for last, the greatest of its metrics; None = it could not say."""


@dataclass(frozen=True, slots=True)
class Result:
    """One run, as it is kept."""

    workload: str
    law: str
    seed: int
    score: Score
    timeline: Sequence[Point]


def points(run: Run) -> tuple[Point, ...]:
    """Return a run's moments for plots."""
    return tuple(_point(moment) for moment in run.moments)


def _point(moment: Moment) -> Point:
    known = [each for each in moment.answer if each is not None]
    return Point(
        at=moment.at,
        rate=round(moment.rate, 4),
        running=moment.running,
        waiting=moment.waiting,
        requested=moment.requested,
        serving=moment.serving,
        wanted=round(max(known), 3) if known else None,
    )


def code_fingerprint(root: Path) -> str:
    """Return a fingerprint of all code that a run depends on."""
    digest = hashlib.sha256()
    for entry in _CODE:
        path = root / entry
        for file in sorted(path.rglob("*.py")) if path.is_dir() else [path]:
            digest.update(file.relative_to(root).as_posix().encode())
            digest.update(file.read_bytes())
    return digest.hexdigest()


class Results:
    """A folder of runs.

    Args:
        folder: It is made when the first run is kept.
        code: The code's fingerprint.
    """

    def __init__(self, folder: Path, code: str) -> None:
        self._folder = folder
        self._code = code

    def path(self, *settings: str) -> Path:
        """Return where the run with these settings is kept."""
        digest = hashlib.sha256("\0".join((self._code, *settings)).encode()).hexdigest()
        return self._folder / f"{digest[:24]}.json"

    def read(self, path: Path) -> Result | None:
        """Return what is kept there; None when there is nothing, or what was not written to its end."""
        try:
            found = json.loads(path.read_text(encoding="utf-8"))
            return Result(
                found["workload"],
                found["law"],
                found["seed"],
                Score(**found["score"]),
                tuple(Point(*each) for each in found["timeline"]),
            )
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def keep(self, path: Path, result: Result) -> None:
        """Keep a run, all of it or nothing."""
        self._folder.mkdir(parents=True, exist_ok=True)
        text = json.dumps(
            {
                "workload": result.workload,
                "law": result.law,
                "seed": result.seed,
                "score": asdict(result.score),
                "timeline": [list(asdict(point).values()) for point in result.timeline],
            }
        )
        partial = path.with_suffix(".partial")
        partial.write_text(text, encoding="utf-8")
        partial.replace(path)

    def prune(self) -> int:
        """Throw away the oldest runs above ``MOST_FILES``, and return how many."""
        files = sorted(self._folder.glob("*.json"), key=lambda file: file.stat().st_mtime)
        old = files[: max(0, len(files) - MOST_FILES)]
        for file in old:
            file.unlink()
        return len(old)
