import json
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

from scaler.cli import main
from scaler.cli.capacity import capacity
from scaler.config.trigger import parse_trigger
from tests.bench_results import steady

CAPTURES = str(Path(__file__).parents[2] / "data/vllm-captures")
SLO = ["--ttft", "500ms", "--tpot", "50ms", "--e2e", "6s"]


def invoke(*arguments: str) -> Result:
    return CliRunner().invoke(capacity, list(arguments), catch_exceptions=False)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Three good runs at 4 requests/s and three bad ones at 8."""
    for rate, e2e in ((4.0, 3.0), (8.0, 9.0)):
        for seed in range(3):
            written: dict[str, Any] = steady(rate=rate, e2e=e2e, seed=str(seed))
            written["date"] = f"20261130-12000{seed}"
            (tmp_path / f"rate{rate:g}-seed{seed}.json").write_text(json.dumps(written))
    return tmp_path


def test_the_real_runs_have_a_knee_and_no_capacity() -> None:
    result = invoke("fit", CAPTURES, "--ttft", "500ms", "--tpot", "50ms", "--e2e", "2s", "--attainment", "0.95")
    assert result.exit_code == 0
    rows = [line.split() for line in result.output.splitlines() if line[:1].isdigit()]
    assert [(row[0], row[3], row[4]) for row in rows] == [
        ("1", "0.99", "0.99"),
        ("4", "3.75", "3.75"),
        ("12", "10.75", "8.21"),
        ("30", "10.44", "0.21"),
    ]
    assert "No capacity is named:" in result.output
    assert "no rate has more than 1 of the 3 repetitions that a capacity needs" in result.output
    assert "The knee lies between 4 and 12 req/s, as far as these runs go." in result.output
    assert "slotsPerReplica" not in result.output


def test_a_fit_ends_in_a_trigger_that_can_be_pasted(folder: Path) -> None:
    result = invoke("fit", str(folder), *SLO, "--max-num-seqs", "16", "--deployment", "vllm-llama")
    assert "Capacity of one replica: 4 req/s" in result.output
    text = result.output[result.output.index("- type: external") :].partition("\n\n")[0]
    (trigger,) = yaml.safe_load(text)
    parsed = parse_trigger("serving", "vllm", trigger["metadata"], tick_s=15.0)
    assert parsed.warnings == ()
    assert parsed.policy.slots_per_replica == 12


def test_json_alone_or_beside_a_page(folder: Path, tmp_path: Path) -> None:
    alone = json.loads(invoke("fit", str(folder), *SLO, "--json", "-").output)
    assert alone["capacity"]["rate"] == 4
    page, file = tmp_path / "page.html", tmp_path / "out.txt"
    result = invoke("fit", str(folder), *SLO, "--html", str(page), "--json", str(file), "--replica-hourly-cost", "2.5")
    assert "Capacity of one replica" in result.output
    assert page.read_text().startswith("<!doctype html>")
    assert json.loads(file.read_text())["advice"]["cost"]["output"] > 0


def test_details_show_each_run(folder: Path) -> None:
    output = invoke("fit", str(folder), *SLO, "--details", "--warmup-requests", "100").output
    assert "rate4-seed0.json: 300 of 300 requests succeeded, 100 % within the SLO" in output
    assert "wait in the client" in output


def test_check_ends_with_code_1_when_no_capacity_can_be_named(folder: Path) -> None:
    blocked = invoke("check", CAPTURES, "--ttft", "500ms")
    assert blocked.exit_code == 1
    assert blocked.output.startswith("! no rate has more than 1 of the 3 repetitions")
    fine = invoke("check", str(folder), *SLO)
    assert fine.exit_code == 0
    assert fine.output.endswith("6 results: nothing keeps a capacity from being named.\n")


def test_a_plan_is_a_script() -> None:
    result = invoke("plan", "--model", "llama", *SLO, "--range", "1:4", "--input-tokens", "512", "--run-time", "10m")
    assert result.output.startswith("#!/bin/sh\n# 4 rates x 3 seeds; sends for 2.0 h in all")
    assert "run 2.5 1500 3\n" in result.output
    dense = invoke("plan", "--model", "llama", *SLO, "--bracket", "4:6").output
    assert dense.startswith("#!/bin/sh\n# 5 rates x 12 seeds;")
    assert "run 4.5 540 12\n" in dense


def test_a_plan_with_traces_writes_one_for_each_run(tmp_path: Path) -> None:
    traces = tmp_path / "traces"
    arguments = ["plan", "--model", "llama", *SLO, "--range", "2:3", "--seeds", "2", "--run-time", "1s"]
    assert f"--dataset-path {traces}/rate$1-seed$3.jsonl" in invoke(*arguments, "--traces", str(traces)).output
    names = sorted(file.name for file in traces.iterdir())
    assert names == ["rate2-seed1.jsonl", "rate2-seed2.jsonl", "rate3-seed1.jsonl", "rate3-seed2.jsonl"]
    first, *_, last = map(json.loads, (traces / names[0]).read_text().splitlines())
    assert (first["input_length"], first["output_length"]) == (1024, 128)
    assert 160 < last["timestamp"] < 240  # 400 requests at 2/s


def test_a_plan_can_play_a_recording(tmp_path: Path) -> None:
    recording, traces = tmp_path / "recording.jsonl", tmp_path / "traces"
    lines = [{"timestamp": 1000 * number**2, "input_length": 7, "output_length": 9} for number in range(800)]
    recording.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    arguments = ["plan", "--model", "llama", *SLO, "--range", "2:3", "--run-time", "1s", "--traces", str(traces)]
    result = invoke(*arguments, "--seeds", "2", "--recording", str(recording), "--milliseconds")
    assert result.exit_code == 0
    written = [json.loads(line) for line in (traces / "rate2-seed2.jsonl").read_text().splitlines()]
    assert len(written) == 400
    assert (written[0]["timestamp"], written[-1]["timestamp"]) == (0, pytest.approx(399 / 2))
    assert {line["input_length"] for line in written} == {7}


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["fit", CAPTURES], "give at least one of --ttft, --tpot and --e2e"),
        (["fit", CAPTURES, "--ttft", "0"], "give at least one of --ttft, --tpot and --e2e, above 0"),
        (["fit", CAPTURES, "--ttft", "soon"], "'soon' is not a duration"),
        (["fit", CAPTURES, "--ttft", "1s", "--attainment", "95"], "95.0 is not in the range"),
        (["fit", "--ttft", "1s"], "Missing argument 'RESULTS...'"),
        (["plan", "--ttft", "1s", "--range", "1:2"], "Missing option '--model'"),
        (["plan", "--model", "m", "--ttft", "1s"], "give --range for a coarse sweep, or --bracket for a dense one"),
        (["plan", "--model", "m", "--ttft", "1s", "--range", "4"], "'4' is not LOW:HIGH"),
        (["plan", "--model", "m", "--ttft", "1s", "--range", "a:b"], "'a:b' is not LOW:HIGH"),
        (["plan", "--model", "m", "--ttft", "1s", "--range", "4:2"], "a range is two rates above 0"),
        (["plan", "--model", "m", "--ttft", "1s", "--range", "1:2", "--recording", "r"], "say where to with --traces"),
    ],
)
def test_what_cannot_be_used_is_refused_with_what_is_wrong(arguments: list[str], text: str) -> None:
    result = invoke(*arguments)
    assert result.exit_code == 2
    assert text in result.output


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["fit", "/none.json", "--ttft", "1s"], "/none.json cannot be read: No such file or directory"),
        (["fit", CAPTURES, "--ttft", "1s", "--html", "/none/page.html"], "/none/page.html cannot be written"),
        (["fit", CAPTURES, "--ttft", "1s", "--warmup-requests", "24"], "24 requests, and a warm-up of 24 leaves none"),
        (
            ["plan", "--model", "m", "--ttft", "1s", "--range", "1:2", "--traces", "/proc/none"],
            "traces cannot be written to /proc/none",
        ),
    ],
)
def test_an_error_is_one_line_and_ends_with_code_1(
    arguments: list[str], text: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["vllm-scaler", "capacity", *arguments])
    with pytest.raises(SystemExit) as ended:
        main.main()
    assert ended.value.code == 1
    error = capsys.readouterr().err
    assert text in error
    assert error.count("\n") == 1
