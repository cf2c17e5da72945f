"""The pictures show panels that are there, and what is committed is small and shown."""

import re
from pathlib import Path

import pytest

from grafana import build
from grafana.evaluate import Series, load
from scaler.errors import ScalerError
from tools import pictures

ROOT = Path(__file__).parents[3]
PICTURES = list(pictures._PICTURES.items())


@pytest.mark.parametrize(("name", "picture"), PICTURES)
def test_a_picture_shows_panels_that_its_dashboard_has(name: str, picture: pictures.Picture) -> None:
    board = load(build.FOLDERS[0] / f"{picture.dashboard}.json")
    drawn = {panel["title"] for panel in board["panels"] if panel["type"] in {"stat", "timeseries"}}
    assert set(picture.titles) - drawn == set(), name


@pytest.mark.parametrize(("name", "picture"), PICTURES)
def test_a_picture_is_committed_small_and_shown(name: str, picture: pictures.Picture) -> None:
    assert picture.until_s <= 180
    path = ROOT / "docs" / "pictures" / f"{name}.png"
    assert path.read_bytes().startswith(b"\x89PNG")
    assert path.stat().st_size < 300_000
    page = (ROOT / "docs" / "operating" / "dashboards.md").read_text(encoding="utf-8")
    assert re.findall(rf"!\[[^\]]{{30,}}\]\(\.\./pictures/{name}\.png\)", page)


def test_where_a_series_has_no_value_the_line_has_a_gap() -> None:
    answer = Series({}, ((100.0, 1.0), (102.0, float("nan")), (103.0, 4.0)))
    assert pictures._on_grid(answer, 100.0, 4.0) == [1.0, None, None, 4.0, None]


def test_a_decision_that_is_repeated_until_it_is_carried_out_has_one_mark() -> None:
    assert pictures._beginnings([5, 6, 7, 20]) == [5000, 20000]


def test_a_machine_without_chromium_and_apt_is_told_what_to_do(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CHROMIUM_BIN", raising=False)
    monkeypatch.setattr(pictures, "_CHROMIUM", tmp_path)
    with pytest.raises(ScalerError, match="CHROMIUM_BIN"):
        pictures._chromium()


def test_a_program_that_fails_is_quoted_with_its_last_words(tmp_path: Path) -> None:
    with pytest.raises(ScalerError, match=r"exit code 3:\nno such page"):
        pictures._call(["sh", "-c", "echo no such page >&2; exit 3"], tmp_path)
