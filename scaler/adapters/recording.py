"""What was seen of pools over time, in a file: one JSON object a line, compressed where the name ends in .gz.

The first line says what is in the file, each further one is a tick, the last one says how many there were, so that a
file that broke off is told from a whole one. Whatever is read back equals what was written, to the last bit: missing,
no traffic, NaN and infinities included.
"""

import gzip
import json
import math
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass, fields
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import IO, Any, Final, TypeVar

from scaler.errors import ScalerError
from scaler.model import (
    Absent,
    Extra,
    LabelMatcher,
    Observation,
    PoolLocator,
    Reading,
    ReplicaLoad,
    Workload,
    WorkloadKind,
)

FORMAT: Final = "vllm-scaler history"
VERSION: Final = 1
LINE_LIMIT_BYTES: Final = 16 << 20
"""The longest line that is read: a tick of a pool of 100 000 replicas."""
POOL_LIMIT: Final = 64
"""Pools in one file: eight times as many as are compared."""
# Level 6 would take three times as long for a tenth less.
_COMPRESSION: Final = 1
_ROUNDING_S: Final = 1e-3
_SHOWN_CHARS: Final = 200

_SPECIAL: Final[Mapping[str, float]] = MappingProxyType({"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf})
_ABSENT: Final[Mapping[str, Absent]] = MappingProxyType({absent.value: absent for absent in Absent})
_READINGS: Final = tuple(one.name for one in fields(Observation) if one.type == Reading)
_T = TypeVar("_T")


class RecordingError(ScalerError):
    """A file of observations that cannot be written or used; its text names the file, and the line."""


@dataclass(frozen=True, slots=True)
class Header:
    """What a file holds.

    Args:
        tick_s: Seconds between two ticks.
        since: The first tick that was asked for, Unix seconds; those before it are there so that windows are full.
        pools: Where the pools' series are, in the order in which each tick has them.
    """

    tick_s: float
    since: float
    pools: tuple[PoolLocator, ...]


@dataclass(frozen=True, slots=True)
class Seen:
    """One tick of all pools, in the order of the header."""

    at: float
    observations: tuple[Observation, ...]


@contextmanager
def recording_to(path: Path, header: Header) -> Iterator[Callable[[Seen], None]]:
    """Write a file tick by tick; it has its name only when it is whole.

    Args:
        path: The file; one that is there is replaced in the end.
        header: What it will hold.

    Yields:
        Writes one tick; ticks come in order.

    Raises:
        RecordingError: The file cannot be written.
    """
    unfinished = path.with_name(f"{path.name}.part")
    count = 0

    def write(seen: Seen) -> None:
        nonlocal count
        count += 1
        put({"at": seen.at, "pools": [encode(one) for one in seen.observations]})

    def put(written: Mapping[str, Any]) -> None:
        with _translated(path):
            file.write(_line(written))

    files = ExitStack()
    with ExitStack() as stack:
        stack.callback(unfinished.unlink, missing_ok=True)
        stack.callback(_abandon, files)
        with _translated(path):
            file = files.enter_context(_opened(unfinished, "w", compressed=_is_compressed(path)))
        put({"format": FORMAT, "version": VERSION, **_header_fields(header)})
        yield write
        put({"ticks": count})
        with _translated(path):
            files.close()
            unfinished.replace(path)


class Recording:
    """A file of observations, to be gone through as often as wanted.

    Args:
        path: The file, as ``recording_to`` writes it.

    Raises:
        RecordingError: It cannot be read, is no such file, or is of another version.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        with self._lines() as lines:
            self.header = self._first(next(lines, b""))

    def ticks(self) -> Iterator[Seen]:
        """Yield the ticks, oldest first.

        Raises:
            RecordingError: The file is damaged; the text names the line.
        """
        with self._lines() as lines:
            next(lines, b"")
            count, newest = 0, -math.inf
            for number, line in enumerate(lines, start=2):
                written = self._parsed(line, number)
                if "ticks" in written:
                    if written["ticks"] != count or next(lines, None) is not None:
                        raise self._problem(number, f"the file should end here, after {count} ticks")
                    return
                seen = self._decoded(partial(_seen, written, len(self.header.pools)), number)
                if not self._follows(newest, seen.at):
                    raise self._problem(number, f"the tick {seen.at} does not come after {newest} on the grid")
                count, newest = count + 1, seen.at
                yield seen
            raise RecordingError(f"{self._path} breaks off after {count} ticks: record it again")

    def _follows(self, newest: float, at: float) -> bool:
        steps = (at - newest) / self.header.tick_s
        return newest == -math.inf or (at > newest and abs(steps - round(steps)) * self.header.tick_s < _ROUNDING_S)

    def _first(self, line: bytes) -> Header:
        written = self._parsed(line, 1) if line.startswith(b"{") else {}
        if written.get("format") != FORMAT:
            raise RecordingError(f"{self._path} is no history that was saved with --save")
        if written.get("version") != VERSION:
            raise RecordingError(
                f"{self._path} has version {written.get('version')!r} of the format, and this release reads {VERSION}:"
                " record it again, or use the release that wrote it"
            )
        return self._decoded(partial(_header, written), 1)

    @contextmanager
    def _lines(self) -> Iterator[Iterator[bytes]]:
        """Open the file, and turn whatever goes wrong on the way into our error."""
        try:
            with _opened(self._path, "r", compressed=_is_compressed(self._path)) as file:
                yield self._bounded(file)
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise RecordingError(f"{self._path} is damaged or breaks off: {error}; record it again") from error
        except OSError as error:
            raise RecordingError(f"{self._path} cannot be read: {error.strerror or error}") from error

    def _bounded(self, file: IO[bytes]) -> Iterator[bytes]:
        number = 0
        while line := file.readline(LINE_LIMIT_BYTES + 1):
            number += 1
            if len(line) > LINE_LIMIT_BYTES:
                raise self._problem(number, f"it is longer than {LINE_LIMIT_BYTES >> 20} MiB")
            yield line

    def _parsed(self, line: bytes, number: int) -> dict[str, Any]:
        try:
            written = json.loads(line, parse_constant=_refuse)
        except (ValueError, RecursionError) as error:
            raise self._problem(number, "it is not JSON, or is cut off") from error
        if not isinstance(written, dict):
            raise self._problem(number, "it is no object")
        return written

    def _decoded(self, decode: Callable[[], _T], number: int) -> _T:
        try:
            return decode()
        except (ValueError, TypeError, LookupError, AttributeError, OverflowError) as error:
            said = f"{error.args[0]!r} is missing or unknown" if isinstance(error, KeyError) else str(error)
            raise self._problem(number, said[:_SHOWN_CHARS]) from error

    def _problem(self, number: int, what: str) -> RecordingError:
        return RecordingError(f"{self._path}, line {number}: {what}")


def _abandon(files: ExitStack) -> None:
    """Close what is open; where that fails too, the first error has been told already."""
    with suppress(OSError):
        files.close()


@contextmanager
def _translated(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise RecordingError(f"{path} cannot be written: {error.strerror or error}") from error


def encode(observation: Observation) -> dict[str, Any]:
    """Return an observation without its time as JSON; what is missing is left out."""
    written: dict[str, Any] = {
        name: _written(reading) for name in _READINGS if (reading := getattr(observation, name)) is not Absent.MISSING
    }
    ratios = observation.kv_usage_ratios
    if ratios is not Absent.MISSING:
        written["kv_usage_ratios"] = ratios.value if isinstance(ratios, Absent) else [_written(one) for one in ratios]
    if observation.replicas:
        written["replicas"] = [
            [one.name, *map(_written, (one.running, one.waiting, one.generation_tokens_per_s))]
            for one in observation.replicas
        ]
    if observation.extras:
        written["extras"] = {
            name: [_written(extra.value), _written(extra.support)] for name, extra in observation.extras.items()
        }
    if observation.notes:
        written["notes"] = list(observation.notes)
    return written


def decode(written: Mapping[str, Any], at: float) -> Observation:
    """Return the observation that ``encode`` has written.

    Raises:
        ValueError: Something else stands there; the text says where.
        TypeError: As ValueError.
    """
    values: dict[str, Any] = {}
    for name, value in written.items():
        match name:
            case "kv_usage_ratios":
                values[name] = _ABSENT[value] if isinstance(value, str) else tuple(_number(name, one) for one in value)
            case "replicas":
                values[name] = tuple(_replica(one) for one in value)
            case "extras":
                values[name] = MappingProxyType({extra: _extra(extra, *pair) for extra, pair in value.items()})
            case "notes":
                values[name] = tuple(_text(name, one) for one in value)
            case _ if name in _READINGS:
                values[name] = _reading(name, value)
            case _:
                raise ValueError(f"{name} is not known")
    return Observation(at=at, **values)


def _extra(name: str, value: object, support: object) -> Extra:
    return Extra(_reading(name, value), _reading(name, support))


def _replica(written: Sequence[Any]) -> ReplicaLoad:
    name, running, waiting, tokens = written
    return ReplicaLoad(
        _text("replica", name), _number("running", running), _number("waiting", waiting), _reading("tokens", tokens)
    )


def _written(reading: Reading) -> float | str:
    if isinstance(reading, Absent):
        return reading.value
    if math.isfinite(reading):
        return reading
    return "NaN" if math.isnan(reading) else "Infinity" if reading > 0 else "-Infinity"


def _reading(name: str, written: object) -> Reading:
    if isinstance(written, str) and written in _ABSENT:
        return _ABSENT[written]
    return _number(name, written)


def _number(name: str, written: object) -> float:
    if isinstance(written, str) and written in _SPECIAL:
        return _SPECIAL[written]
    if isinstance(written, bool) or not isinstance(written, int | float):
        raise TypeError(f"{name} is no number: {written!r}")
    return written


def _text(name: str, written: object) -> str:
    if not isinstance(written, str):
        raise TypeError(f"{name} is no text: {written!r}")
    return written


def _finite(name: str, written: object) -> float:
    value = _number(name, written)
    if not math.isfinite(value):
        raise ValueError(f"{name} is no finite number: {written!r}")
    return value


def _header_fields(header: Header) -> dict[str, Any]:
    return {"tick_s": header.tick_s, "since": header.since, "pools": [asdict(pool) for pool in header.pools]}


def _header(written: Mapping[str, Any]) -> Header:
    tick_s, since = _finite("tick_s", written["tick_s"]), _finite("since", written["since"])
    if tick_s <= 0:
        raise ValueError(f"tick_s is {tick_s}, and ticks are some time apart")
    pools = tuple(_locator(pool) for pool in written["pools"])
    if not 0 < len(pools) <= POOL_LIMIT:
        raise ValueError(f"there are {len(pools)} pools, and 1 to {POOL_LIMIT} can be read")
    return Header(tick_s, since, pools)


def _locator(written: Mapping[str, Any]) -> PoolLocator:
    workload, model = written["workload"], written["model_name"]
    return PoolLocator(
        namespace=_text("namespace", written["namespace"]),
        model_name=None if model is None else _text("model_name", model),
        workload=None if workload is None else _workload(workload),
        matchers=tuple(_matcher(one) for one in written["matchers"]),
        rate_window_s=_finite("rate_window_s", written["rate_window_s"]),
        stale_after_s=_finite("stale_after_s", written["stale_after_s"]),
        extras=tuple(_text("extras", one) for one in written["extras"]),
        backend=_text("backend", written["backend"]),
    )


def _workload(written: Mapping[str, Any]) -> Workload:
    return Workload(WorkloadKind(written["kind"]), _text("workload", written["name"]))


def _matcher(written: Mapping[str, Any]) -> LabelMatcher:
    return LabelMatcher(**{name: _text(name, value) for name, value in written.items()})


def _seen(written: Mapping[str, Any], pools: int) -> Seen:
    at = _finite("at", written["at"])
    if len(written["pools"]) != pools:
        raise ValueError(f"there are {len(written['pools'])} pools, and the first line names {pools}")
    return Seen(at, tuple(decode(one, at) for one in written["pools"]))


def _line(written: Mapping[str, Any]) -> bytes:
    return json.dumps(written, separators=(",", ":"), allow_nan=False).encode("ascii") + b"\n"


def _refuse(constant: str) -> float:
    raise ValueError(f"{constant} is no JSON")


def _is_compressed(path: Path) -> bool:
    return path.suffix == ".gz"


@contextmanager
def _opened(path: Path, mode: str, *, compressed: bool) -> Iterator[IO[bytes]]:
    """Open a file for bytes, through gzip where it is compressed."""
    with path.open(f"{mode}b") as plain:
        if not compressed:
            yield plain
            return
        # Without time and name: the same ticks give the same file.
        with gzip.GzipFile("", f"{mode}b", _COMPRESSION, fileobj=plain, mtime=0) as file:
            yield file  # type: ignore[misc]  # it is read and written as any other
