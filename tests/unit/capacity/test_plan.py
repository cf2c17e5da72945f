import os
import shlex
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Final

import pytest

from scaler.capacity.plan import Plan, coarse_rates, dense_rates, script, trace_name
from scaler.capacity.slo import Slo
from scaler.capacity.traces import Lengths

PLAN: Final = Plan("meta-llama/Llama-3.1-8B", Slo(0.5, 0.05, 2.0), Lengths(1024, 128), rates=(1.0, 8.0), seeds=2)

# What `vllm bench serve --help` of the supported releases lists, as far as a plan uses it.
VLLM_FLAGS: Final = frozenset(
    f"--{name}"
    for name in (
        *("backend", "base-url", "endpoint", "model", "tokenizer", "seed", "num-prompts", "num-warmups"),
        *("dataset-name", "dataset-path", "random-input-len", "random-output-len", "random-range-ratio"),
        *("request-rate", "ignore-eos", "goodput", "percentile-metrics", "metric-percentiles", "metadata"),
        *("save-result", "save-detailed", "result-dir", "result-filename", "disable-tqdm"),
        *("self-timed", "timed-trace-chunk-hash-size", "timed-trace-sec-multiplier"),
    )
)


def played(plan: Plan, folder: Path, *, replicas: str = "echo 1") -> list[list[str]]:
    """Run the script with stand-ins that write down how they were called, and return the calls."""
    tools = folder / "bin"
    tools.mkdir()
    log = folder / "calls"
    for name, does in (
        ("vllm", 'eval "file=\\${$(($# - 1))}"; touch "results/$file"'),
        ("curl", ""),
        ("vllm-scaler", ""),
        ("kubectl", replicas),
    ):
        tool = tools / name
        tool.write_text(f'#!/bin/sh\nprintf "%s\\n" "{name}" "$@" end >> "{log}"\n{does}\n')
        tool.chmod(0o755)
    subprocess.run(
        ["sh", "-c", script(plan)],
        cwd=folder,
        env={"PATH": f"{tools}:{os.environ['PATH']}"},
        check=True,
        capture_output=True,
    )
    return [call.strip().split("\n") for call in log.read_text().split("\nend\n") if call.strip()]


def test_each_run_resets_the_cache_first_and_the_end_is_a_fit(tmp_path: Path) -> None:
    calls = played(PLAN, tmp_path)
    assert [call[0] for call in calls] == ["curl", "vllm"] * 4 + ["vllm-scaler"]
    assert calls[0][-1] == "http://127.0.0.1:8000/reset_prefix_cache"
    flags = "--ttft 500ms --tpot 50ms --e2e 2000ms --attainment 0.95 --warmup-requests 40"
    assert shlex.join(calls[-1]) == f"vllm-scaler capacity fit results {flags}"


def test_seeds_are_paired_over_the_rates(tmp_path: Path) -> None:
    calls = [call for call in played(PLAN, tmp_path) if call[0] == "vllm"]
    pairs = [(call[call.index("--request-rate") + 1], call[call.index("--seed") + 1]) for call in calls]
    assert pairs == [("1", "1"), ("8", "1"), ("1", "2"), ("8", "2")]


def test_a_command_says_all_that_a_result_needs(tmp_path: Path) -> None:
    call = next(call for call in played(PLAN, tmp_path) if call[0] == "vllm")
    text = shlex.join(call)
    for part in (
        "--model meta-llama/Llama-3.1-8B",
        "--random-input-len 1024 --random-output-len 128 --random-range-ratio 0",
        "--ignore-eos --num-prompts 400 --seed 1 --num-warmups 20",
        "--goodput ttft:500 tpot:50 e2el:2000",
        "--percentile-metrics ttft,tpot,itl,e2el --metric-percentiles 50,95,99",
        "--metadata seed=1 offered_rate=1 replicas=1 cache_reset=yes",
        "--save-result --save-detailed --result-dir results --result-filename rate1-seed1.json",
    ):
        assert part in text
    assert "--max-concurrency" not in text
    assert {word for word in call if word.startswith("--")} <= VLLM_FLAGS


def test_a_run_during_which_replicas_changed_is_set_aside(tmp_path: Path) -> None:
    counting = 'n=$(cat n 2>/dev/null || echo 0); echo $((n + 1)) > n; [ "$n" -lt 3 ] && echo 1 || echo 2'
    calls = played(replace(PLAN, deployment="vllm", namespace="serving"), tmp_path, replicas=counting)
    names = sorted(file.name for file in (tmp_path / "results").iterdir())
    assert names == ["rate1-seed1.json", "rate1-seed2.json", "rate8-seed1.json.replicas-changed", "rate8-seed2.json"]
    kubectl = next(call for call in calls if call[0] == "kubectl")
    assert shlex.join(kubectl[:6]) == "kubectl get deployment vllm --namespace serving"


def test_names_that_a_shell_would_take_apart_arrive_whole(tmp_path: Path) -> None:
    model, folder = "/models/it's $HOME", "my results"
    call = next(call for call in played(replace(PLAN, model=model, tokenizer="a b"), tmp_path) if call[0] == "vllm")
    assert call[call.index("--model") + 1] == model
    assert call[call.index("--tokenizer") + 1] == "a b"
    assert f"results='{folder}'" in script(replace(PLAN, results=folder))


def test_traces_replace_the_rate_and_bring_their_own(tmp_path: Path) -> None:
    plan = replace(PLAN, traces="traces", chunk_tokens=16)
    call = next(call for call in played(plan, tmp_path) if call[0] == "vllm")
    text = shlex.join(call)
    assert f"--dataset-name timed_trace --dataset-path traces/{trace_name(1.0, 1)} --self-timed" in text
    assert "--timed-trace-chunk-hash-size 16 --timed-trace-sec-multiplier 1" in text
    assert "--request-rate" not in text
    assert "offered_rate=1" in text
    assert {word for word in call if word.startswith("--")} <= VLLM_FLAGS
    assert "export PYTHONHASHSEED=0" in script(plan)


def test_a_run_sends_enough_requests_for_its_time_and_for_a_steady_share() -> None:
    assert (PLAN.requests(1.0), PLAN.requests(8.0)) == (400, 960)
    assert PLAN.seconds == pytest.approx(2 * (400 + 120))
    long_answers = replace(PLAN, slo=Slo(ttft_s=0.5, e2e_s=60.0))
    assert long_answers.requests(8.0) == 4800  # ten minutes: ten times as long as an answer may take


def test_coarse_rates_grow_by_a_factor_and_dense_ones_evenly() -> None:
    assert coarse_rates(1, 10) == (1, 1.6, 2.5, 4, 6.3, 10)
    assert coarse_rates(3, 4) == (3, 4)
    assert dense_rates(4, 6) == (4, 4.5, 5, 5.5, 6)


@pytest.mark.parametrize("ends", [(0.0, 1.0), (2.0, 1.0), (1.0, 1.0), (1.0, float("inf")), (float("nan"), 1.0)])
def test_a_range_is_two_rising_rates(ends: tuple[float, float]) -> None:
    for rates in (coarse_rates, dense_rates):
        with pytest.raises(ValueError, match="a range is two rates above 0"):
            rates(*ends)


def test_a_range_without_end_is_refused() -> None:
    with pytest.raises(ValueError, match="is too wide a range"):
        coarse_rates(1e-6, 1e6)
