import gzip
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from scaler.adapters.recording import Header, Recording, RecordingError, Seen, recording_to
from tests.builders import LOCATOR, TICK_S, observation

HEADER = Header(TICK_S, since=15.0, pools=(LOCATOR,))


def written(path: Path, ticks: int = 3) -> Path:
    with recording_to(path, HEADER) as write:
        for tick in range(ticks):
            seen = observation(tick, 8.0, 2)
            write(Seen(seen.at, (seen,)))
    return path


def lines(path: Path) -> list[str]:
    return path.read_text().splitlines(keepends=True)


def test_a_name_in_gz_is_compressed_and_the_same_ticks_give_the_same_file(tmp_path: Path) -> None:
    one, other = written(tmp_path / "one.jsonl.gz"), written(tmp_path / "other.jsonl.gz")

    assert one.read_bytes() == other.read_bytes()
    assert gzip.decompress(one.read_bytes()).decode() == written(tmp_path / "plain.jsonl").read_text()


def test_a_recording_can_be_gone_through_again(tmp_path: Path) -> None:
    recording = Recording(written(tmp_path / "past.jsonl"))

    assert list(recording.ticks()) == list(recording.ticks())
    assert [seen.at for seen in recording.ticks()] == [0.0, 15.0, 30.0]


def test_what_is_not_finished_leaves_no_file_and_the_old_one_as_it_was(tmp_path: Path) -> None:
    path = written(tmp_path / "past.jsonl", ticks=2)
    before = path.read_bytes()

    with pytest.raises(ZeroDivisionError), recording_to(path, HEADER) as write:
        write(Seen(1 / 0, (observation(0, 8.0, 2),)))

    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_a_folder_that_is_not_there_is_said(tmp_path: Path) -> None:
    with (
        pytest.raises(RecordingError, match=r"past\.jsonl cannot be written: No such file or directory"),
        recording_to(tmp_path / "nowhere" / "past.jsonl", HEADER),
    ):
        pass


def changed(tmp_path: Path, change: Callable[[list[str]], list[str]]) -> Path:
    path = written(tmp_path / "past.jsonl")
    path.write_text("".join(change(lines(path))))
    return path


def with_header(**changes: object) -> Callable[[list[str]], list[str]]:
    return lambda text: [json.dumps(json.loads(text[0]) | changes) + "\n", *text[1:]]


def with_tick(**changes: object) -> Callable[[list[str]], list[str]]:
    """Change the newest tick's only pool."""

    def change(text: list[str]) -> list[str]:
        tick = json.loads(text[3])
        tick["pools"][0] |= changes
        return [*text[:3], json.dumps(tick) + "\n", text[4]]

    return change


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        pytest.param(lambda _: [], "is no history that was saved with --save", id="empty"),
        pytest.param(lambda _: ["hello\n"], "is no history that was saved with --save", id="some other file"),
        pytest.param(lambda _: ["{}\n"], "is no history that was saved with --save", id="some other JSON"),
        pytest.param(with_header(version=2), "has version 2 of the format, and this release reads 1", id="newer"),
        pytest.param(with_header(version="1"), "has version '1' of the format", id="odd version"),
        pytest.param(with_header(tick_s=0), "line 1: tick_s is 0", id="no time between ticks"),
        pytest.param(with_header(tick_s="NaN"), "line 1: tick_s is no finite number", id="not a number"),
        pytest.param(with_header(pools=[]), "line 1: there are 0 pools", id="no pool"),
        pytest.param(with_header(pools=[{}]), "line 1: 'workload'", id="no locator"),
        pytest.param(lambda text: text[:-1], "breaks off after 3 ticks", id="without its end"),
        pytest.param(lambda text: [*text[:2], *text[3:]], "line 4: the file should end here, after 2 ticks", id="gap"),
        pytest.param(lambda text: [*text, text[1]], "line 5: the file should end here", id="beyond its end"),
        pytest.param(lambda text: [*text[:3], text[3][:20]], "line 4: it is not JSON, or is cut off", id="cut"),
        pytest.param(lambda text: [text[0], "[]\n"], "line 2: it is no object", id="a list"),
        pytest.param(lambda text: [*text[:3], text[2], text[4]], "line 4: the tick 15.0 does not come", id="twice"),
        pytest.param(with_tick(running="lots"), "line 4: running is no number: 'lots'", id="a word"),
        pytest.param(with_tick(running=True), "line 4: running is no number: True", id="a truth"),
        pytest.param(with_tick(sleeping=1), "line 4: sleeping is not known", id="a reading of the future"),
        pytest.param(with_tick(notes=[1]), "line 4: notes is no text: 1", id="a note that is none"),
        pytest.param(with_tick(replicas=[["a", 1.0]]), "line 4: not enough values", id="half a replica"),
        pytest.param(with_tick(extras=[]), "line 4: ", id="extras that are none"),
        pytest.param(with_tick(kv_usage_ratios="full"), "line 4: 'full'", id="a usage that is none"),
    ],
)
def test_a_file_that_is_not_what_it_should_be_is_refused_with_the_line(
    tmp_path: Path, change: Callable[[list[str]], list[str]], problem: str
) -> None:
    path = changed(tmp_path, change)

    with pytest.raises(RecordingError) as caught:
        list(Recording(path).ticks())

    assert str(path) in str(caught.value)
    assert problem in str(caught.value)


def test_a_tick_beside_the_grid_is_refused(tmp_path: Path) -> None:
    path = changed(tmp_path, lambda text: [*text[:3], text[3].replace('"at":30.0', '"at":31.0'), text[4]])

    with pytest.raises(RecordingError, match=r"the tick 31\.0 does not come after 15\.0 on the grid"):
        list(Recording(path).ticks())


@pytest.mark.parametrize("length", [5, 60])
def test_a_compressed_file_that_broke_off_is_refused(tmp_path: Path, length: int) -> None:
    path = written(tmp_path / "past.jsonl.gz")
    path.write_bytes(path.read_bytes()[:length])

    with pytest.raises(RecordingError, match="is damaged or breaks off"):
        list(Recording(path).ticks())


def test_a_file_that_is_only_called_compressed_is_refused(tmp_path: Path) -> None:
    path = written(tmp_path / "past.jsonl").rename(tmp_path / "past.jsonl.gz")

    with pytest.raises(RecordingError, match="is damaged or breaks off: Not a gzipped file"):
        Recording(path)


def test_a_file_that_is_not_there_is_said(tmp_path: Path) -> None:
    with pytest.raises(RecordingError, match=r"none\.jsonl cannot be read: No such file or directory"):
        Recording(tmp_path / "none.jsonl")


def test_a_line_without_end_is_not_read_to_its_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("scaler.adapters.recording.LINE_LIMIT_BYTES", 1 << 20)
    path = changed(tmp_path, lambda text: [text[0], " " * (2 << 20)])

    with pytest.raises(RecordingError, match="line 2: it is longer than 1 MiB"):
        list(Recording(path).ticks())
