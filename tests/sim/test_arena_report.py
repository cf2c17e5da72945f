"""The arena's runner: runs are kept and used again, tables say what was measured, and what is missing is said."""

import json
import re
from dataclasses import asdict
from pathlib import Path

import pytest

from benchmarks import arena, arena_results
from benchmarks.arena_report import (
    BEGIN,
    COLUMNS,
    END,
    LAW_COLUMNS,
    SUMMARY_COLUMNS,
    html_page,
    markdown,
    verdicts,
    with_section,
)
from benchmarks.arena_results import Point, Result, Results
from scaler.sim.arena import FIXED, ORACLE, OURS
from scaler.sim.arena_workloads import RECORDED, synthetic
from scaler.sim.scoring import Score


def result(law: str, attainment: float, hours: float, *, workload: str = "constant 2", reversals: int = 0) -> Result:
    score = Score(attainment, hours, reversals + 1, reversals, None, 3, 100)
    timeline = tuple(Point(15.0 * tick, 1.0, 10, tick, 2, 2, 2.5) for tick in range(5))
    return Result(workload, law, 1, score, timeline)


FAIR = [result(OURS, 0.99, 3.0), result("knative-kpa", 0.95, 3.5), result(ORACLE, 1.0, 2.5), result(FIXED, 1.0, 2.9)]


def test_all_verdicts_hold_when_nobody_attains_more_for_less_and_nothing_swings() -> None:
    assert [(one.text, one.holds) for one in verdicts(FAIR)] == [
        ("constant 2: no rival attains more for less", True),
        ("constant 2: no reversals", True),
    ]


def test_a_rival_that_attains_more_for_less_is_named() -> None:
    found = verdicts([*FAIR, result("kaito", 0.995, 2.9), result("llm-d", 0.999, 2.0), result("x", 0.99, 1.0)])
    assert (found[0].text, found[0].holds) == (
        "constant 2: no rival attains more for less, but kaito, llm-d do",
        False,
    )


def test_reversals_count_on_constant_loads_only() -> None:
    swinging = [result(OURS, 0.99, 3.0, reversals=2), result(OURS, 0.99, 3.0, workload="ramp", reversals=2)]
    assert [one.text for one in verdicts(swinging) if not one.holds] == ["constant 2: no reversals, but 2"]


def test_the_tables_say_what_it_cost_against_the_oracle_and_who_is_on_the_front() -> None:
    text = markdown(FAIR, ["a trace: get it there"])
    assert f"| {' | '.join(COLUMNS)} |" in text
    assert f"| {' | '.join(SUMMARY_COLUMNS)} |" in text
    assert "| vllm-scaler * | 99.0 % | 3.00 | 1.20 | 1.0 | 0 |  | 3 |" in text
    assert "| knative-kpa | 95.0 % | 3.50 | 1.40 | 1.0 | 0 |  | 3 |" in text
    assert "| constant 2 | 99.0 % | 3.0 | 0 | none |  | 2.5 | none |" in text
    assert "- a trace: get it there" in text


def test_the_page_has_a_front_and_a_timeline_for_each_workload_and_needs_nothing_else() -> None:
    ramp = [result(one.law, 0.9, 9.0, workload="ramp") for one in FAIR]
    text = html_page([*FAIR, *ramp], [], {"ramp": [1.5] * 60})
    assert text.count("<svg") == 4
    assert "requested replicas" in text
    assert "vllm-scaler: target" in text
    assert text.count("needed") == 1
    assert not re.search(r"<script|<link|src=", text)


def test_a_run_that_is_kept_is_read_again_and_one_that_is_broken_is_not(tmp_path: Path) -> None:
    results = Results(tmp_path / "runs", "code")
    path = results.path("workload", "law", "1")
    assert results.read(path) is None
    results.keep(path, FAIR[0])
    assert results.read(path) == FAIR[0]
    path.write_text(path.read_text(encoding="utf-8")[:-20], encoding="utf-8")
    assert results.read(path) is None
    path.write_text(json.dumps({"score": asdict(FAIR[0].score) | {"new": 1}}), encoding="utf-8")
    assert results.read(path) is None


def test_another_code_or_another_setting_is_another_run(tmp_path: Path) -> None:
    before, after = Results(tmp_path, "before"), Results(tmp_path, "after")
    paths = {before.path("a", "b"), before.path("a", "c"), before.path("ab", ""), after.path("a", "b")}
    assert len(paths) == 4


def test_old_runs_are_thrown_away_when_there_are_too_many(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arena_results, "MOST_FILES", 2)
    results = Results(tmp_path, "code")
    for seed in range(4):
        results.keep(results.path(str(seed)), FAIR[0])
    assert results.prune() == 2
    assert len(list(tmp_path.glob("*.json"))) == 2


def test_the_code_of_the_law_and_of_the_simulator_is_in_the_fingerprint(tmp_path: Path) -> None:
    for name in ("scaler/sim/fleet.py", "scaler/policy/needs.py", "scaler/model.py", "scaler/units.py"):
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("x = 1\n", encoding="utf-8")
    before = arena_results.code_fingerprint(tmp_path)
    assert arena_results.code_fingerprint(tmp_path) == before
    (tmp_path / "scaler/policy/needs.py").write_text("x = 2\n", encoding="utf-8")
    assert arena_results.code_fingerprint(tmp_path) != before


def arguments(folder: Path, *more: str) -> list[str]:
    return [
        "arena",
        *("--quick", "--seeds", "1", "--jobs", "1", "--workload", "constant 0.5", "--law", "hpa-in-flight-0.9"),
        *("--results", str(folder / "runs"), "--traces", str(folder / "none"), *more),
    ]


def test_a_second_start_does_no_run_again_and_the_status_says_what_was_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", arguments(tmp_path))
    assert arena.main() == arena.LEFT_OUT
    first = capsys.readouterr().out
    kept = {file: file.stat().st_mtime_ns for file in (tmp_path / "runs").glob("*.json")}
    assert len(kept) == 2
    assert "AzureLLMInferenceTrace_conv.csv is neither in" in first
    assert "| vllm-scaler *" in first
    assert "<svg" in (tmp_path / "runs/arena.html").read_text(encoding="utf-8")

    monkeypatch.setattr(arena, "work", None)
    assert arena.main() == arena.LEFT_OUT
    assert {file: file.stat().st_mtime_ns for file in (tmp_path / "runs").glob("*.json")} == kept


def test_an_unknown_name_is_answered_with_the_known_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", arguments(tmp_path, "--workload", "nix"))
    assert arena.main() == 2
    assert "unknown: nix. Workloads: constant 0.5," in capsys.readouterr().out


def test_the_section_of_a_page_is_written_between_its_marks() -> None:
    page = f"before\n{BEGIN}\nold\n{END}\nafter\n"
    written = with_section(page, FAIR)
    assert written.startswith(f"before\n{BEGIN}\n\n| workload |")
    assert written.endswith(f"|\n\n{END}\nafter\n")
    assert "old" not in written
    assert with_section(written, FAIR) == written
    assert "| knative-kpa | 95.0 % | 95.0 % | 1.40 | 0 | 0 of 1 |" in written
    for broken in ("no marks", END + BEGIN, BEGIN + END + BEGIN):
        with pytest.raises(ValueError, match="needs"):
            with_section(broken, FAIR)


def test_the_documented_tables_have_every_workload_and_every_law() -> None:
    section = arena.DOCS.read_text(encoding="utf-8").partition(BEGIN)[2].partition(END)[0]
    lines = [[cell.strip() for cell in line.strip("|").split("|")] for line in section.splitlines() if line]
    laws_at = lines.index(list(LAW_COLUMNS))
    assert lines[0] == list(SUMMARY_COLUMNS)
    known = [*(workload.name for workload in synthetic(quick=False)), *RECORDED]
    assert [line[0] for line in lines[2:laws_at]] == known
    assert sorted(line[0] for line in lines[laws_at + 2 :]) == sorted(arena.LAWS)
    assert all(re.fullmatch(r"\d+\.\d %", line[1]) for line in (*lines[2:laws_at], *lines[laws_at + 2 :]))


def test_every_law_has_a_row_on_the_page_of_laws() -> None:
    page = (arena.ROOT / "docs/concepts/rivals.md").read_text(encoding="utf-8")
    assert [law for law in arena.LAWS if law != OURS and f"`{law}`" not in page] == []
