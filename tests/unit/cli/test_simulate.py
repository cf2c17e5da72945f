"""``vllm-scaler simulate``: what it prints, what it writes, and what it refuses."""

from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from scaler.cli.simulate import TRACES_ENV, simulate
from scaler.config.scaled_object import read_scaled_object
from scaler.errors import ScalerError
from scaler.sim.workloads import WORKLOADS

SCALED_OBJECT = """
kind: ScaledObject
metadata: {name: vllm-llama, namespace: serving}
spec:
  minReplicaCount: 2
  maxReplicaCount: 3
  triggers:
    - type: external
      metadata: {scalerAddress: "scaler:1", deployment: vllm-llama, slotsPerReplica: "1", maxReplicas: "3"}
"""

MOMENT = "a trace of one request"


def run(*arguments: str) -> Result:
    return CliRunner().invoke(simulate, arguments, catch_exceptions=True)


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    """Ten minutes of a request every two seconds, and then of two a second."""
    at = [*range(0, 600, 2), *(600 + half / 2 for half in range(1200))]
    path = tmp_path / "trace.jsonl"
    rows = (f'{{"timestamp": {moment}, "input_length": 100, "output_length": 300}}' for moment in at)
    path.write_text("\n".join(rows), encoding="utf-8")
    return path


def of_trace(trace: Path, *arguments: str) -> Result:
    return run("--trace", str(trace), "--trace-format", "timed", "--set", "slotsPerReplica=16", *arguments)


def test_a_run_is_summed_up_and_its_changes_say_why(trace: Path) -> None:
    result = of_trace(trace, "--engine", "llama-2-70b-a100x8", "--max-num-seqs", "16", "--set", "hpaTolerance=0")

    assert result.exit_code == 0, result.output
    lines = result.output.splitlines()
    assert lines[0] == "trace.jsonl on llama-2-70b-a100x8, 20 min, seed 1"
    facts = {line[:17].strip(): line[17:].strip() for line in lines[1:6]}
    assert list(facts) == ["requests", "within the SLO", "replica hours", "changes", "worst queue"]
    assert facts["requests"] == "1500, of them 0 not served"
    assert facts["within the SLO"].endswith("% (first token in 2.5 s and 0.1 s a token)")
    assert "1 to 3" in lines[6]
    assert "in flight" in lines[6]


def test_the_same_seed_gives_the_same_run(trace: Path) -> None:
    assert of_trace(trace, "--times", "0.7").output == of_trace(trace, "--times", "0.7").output
    assert of_trace(trace, "--times", "0.7").output != of_trace(trace, "--times", "0.7", "--seed", "2").output


def test_a_part_of_a_trace_is_enough(trace: Path) -> None:
    result = of_trace(trace, "--start", "1m", "--stop", "3m")

    assert "2 min, seed 1" in result.output
    assert "requests        60, of them 0 not served" in result.output


def test_a_scaled_object_brings_policy_limits_and_behaviour(trace: Path, tmp_path: Path) -> None:
    file = tmp_path / "scaled-object.yaml"
    file.write_text(SCALED_OBJECT, encoding="utf-8")
    arguments = ("--trace", str(trace), "--trace-format", "timed", "--engine", "tiny-llama-cpu", "--start", "9m")

    plain = run("--policy", str(file), *arguments)
    changed = run("--policy", str(file), "--set", "maxReplicas=2", *arguments)

    assert plain.exit_code == 0, plain.output
    assert "(2 to 3 replicas)" in plain.output
    assert "(2 to 2 replicas)" in changed.output
    assert read_scaled_object(file).hpa.behavior is None


def test_a_page_has_the_plots_the_facts_and_the_changes(trace: Path, tmp_path: Path) -> None:
    page = tmp_path / "run.html"

    result = of_trace(trace, "--stop", "15m", "--html", str(page))

    text = page.read_text(encoding="utf-8")
    assert f"page             {page}" in result.output
    assert text.count("<svg") == 1
    for words in ("trace.jsonl on", "replica hours", "requests a second", "waiting", "replicas needed", "serving"):
        assert words in text


@pytest.mark.parametrize("preset", ["chat", "batch", "long-context", "prefill", "decode"])
def test_every_preset_can_be_tried(trace: Path, preset: str) -> None:
    result = of_trace(trace, "--set", f"preset={preset}", "--stop", "2m")

    assert "60, of them 0 not served" in result.output


def test_workloads_are_listed() -> None:
    listed = run("--list").output

    assert [line.split()[0] for line in listed.splitlines()] == list(WORKLOADS)


def test_a_named_workload_runs_and_its_traces_are_looked_for_in_a_folder(tmp_path: Path) -> None:
    (tmp_path / "AzureLLMInferenceTrace_code.csv").write_text(
        "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:17:03,48,10\n2023-11-16 18:27:03,48,10\n"
    )
    arguments = ("--workload", "azure-code-x2", "--set", "slotsPerReplica=16")

    by_flag = run(*arguments, "--traces", str(tmp_path))
    by_environment = CliRunner(env={TRACES_ENV: str(tmp_path)}).invoke(simulate, arguments)

    assert "requests        4, of them 0 not served" in by_flag.output
    assert by_flag.output == by_environment.output


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--set", "slotsPerReplica"), "slotsPerReplica is not KEY=VALUE"),
        (("--set", "slotsPerReplica=16", "--trace", __file__, "--workload", "ramp"), "exclude each other"),
        (("--set", "slotsPerReplica=16", "--times", "2"), "go with --trace"),
        (("--cold-start", "soon"), "is not a duration"),
        (("--ttft-slo", "0s"), "too short: at least 0.001 s"),
        (("--routing", "best"), "is not one of"),
    ],
)
def test_a_wrong_command_line_is_explained(arguments: tuple[str, ...], says: str) -> None:
    result = run(*arguments)

    assert result.exit_code == 2
    assert says in result.output


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ((), "slotsPerReplica"),
        (("--set", "slotsPerReplica=16", "--workload", "ramps"), "did you mean ramp?"),
        (("--set", "slotsPerReplica=16", "--engine", "tiny"), "the engine tiny is not known"),
        (("--set", "slotsPerReplica=16", "--workload", "azure-code", "--traces", "nowhere"), "get it from https"),
        (("--set", "slotsPerReplica=16", "--trace", __file__), "none of the known formats"),
        (("--set", "slotsPerReplica=16", "--trace", MOMENT, "--trace-format", "timed"), "lasts 0 s: too short"),
        (("--set", "slotsPerReplica=16", "--set", "rejectionsPerSecond=1"), "rejection_rate: not simulated"),
    ],
)
def test_what_cannot_be_simulated_is_an_error_of_ours_that_says_what_to_do(
    arguments: tuple[str, ...], says: str, tmp_path: Path
) -> None:
    moment = tmp_path / "moment.jsonl"
    moment.write_text('{"timestamp": 5, "input_length": 100, "output_length": 300}', encoding="utf-8")

    result = run(*(str(moment) if argument == MOMENT else argument for argument in arguments))

    assert isinstance(result.exception, ScalerError)
    assert says in str(result.exception)
