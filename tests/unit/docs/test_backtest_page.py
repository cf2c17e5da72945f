"""The page about backtests: its example is run, its bounds and field names are those of the code."""

import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from scaler.adapters.long_read import MOST_FAILURES
from scaler.backtest.differences import PERIOD_LIMIT
from scaler.backtest.track import MOST_SPANS
from scaler.cli.backtest import MOST_TICKS, backtest
from scaler.cli.policies import MOST_POLICIES
from scaler.cli.printing import SHOWN_PERIODS
from tests.histories import SCALED_OBJECT, save_morning

PAGE = (Path(__file__).parents[3] / "docs/operating/backtest.md").read_text(encoding="utf-8")
PROSE = " ".join(PAGE.replace("\n> ", " ").split())


def commands() -> list[list[str]]:
    blocks = re.findall(r"^```sh\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    return [shlex.split(block.replace("\\\n", "")) for block in blocks]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    there = tmp_path_factory.mktemp("example")
    (there / "vllm-llama.yaml").write_text(SCALED_OBJECT)
    save_morning(there / "monday.jsonl.gz")
    return there


def run(folder: Path, arguments: list[str], monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(folder)
    result = CliRunner().invoke(backtest, arguments, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout


def test_the_example_prints_what_the_page_shows(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (example,) = [command for command in commands() if "--history" in command]
    (shown,) = re.findall(r"^```text\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    printed = run(folder, example[2:], monkeypatch)

    assert "\n".join(line.rstrip() for line in shown.splitlines()) in "\n".join(
        line.rstrip() for line in printed.splitlines()
    )
    report = json.loads(run(folder, [*example[2:], "--json"], monkeypatch))
    (quoted,) = re.findall(r"`(Scale up from .*?)`", PROSE)
    assert report["policies"][0]["differences"][0]["story"].startswith(quoted)


def test_every_command_of_the_page_has_only_options_that_there_are() -> None:
    known = {name for parameter in backtest.params for name in parameter.opts}
    assert len(commands()) == 2
    for command in commands():
        assert command[:2] == ["vllm-scaler", "backtest"]
        assert [part for part in command if part.startswith("--") and part not in known] == []
    assert [name for name in re.findall(r"`(--[a-z-]+)", PAGE) if name not in known] == []


def keys(part: Any) -> Iterator[str]:
    """Field names, but for those that are codes or signals."""
    for key, value in part.items() if isinstance(part, dict) else ():
        yield key
        for inner in value if isinstance(value, list) else [value]:
            yield from keys(inner) if not key.endswith("_s") else ()


def test_every_field_of_the_json_is_explained(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    report = json.loads(run(folder, ["vllm-llama.yaml", "--history", "monday.jsonl.gz", "--json"], monkeypatch))
    table = PAGE.partition("## For machines")[2]
    assert len(set(keys(report))) > 35
    assert [key for key in dict.fromkeys(keys(report)) if f"`{key}`" not in table] == []


@pytest.mark.parametrize(
    "text",
    [
        f"| policies side by side | {MOST_POLICIES} |",
        f"| ticks | {MOST_TICKS:,} (12 weeks at 15 s) |",
        f"| {PERIOD_LIMIT:,} of each policy",
        f"| {MOST_SPANS:,}; each shows",
        f"the {SHOWN_PERIODS} largest differences",
    ],
)
def test_a_bound_is_that_of_the_code(text: str) -> None:
    assert text in PROSE


def test_numbers_in_words_are_those_of_the_code() -> None:
    assert ("failed five times in a row" in PROSE, MOST_FAILURES) == (True, 5)
    assert ("Eight can stand side by side" in PROSE, MOST_POLICIES) == (True, 8)
