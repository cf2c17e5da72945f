"""Every number, command and code of docs/concepts/capacity.md is what the code gives or takes."""

import re
import shlex
from pathlib import Path

import click
import pytest

from scaler.capacity.findings import BOUNDARY_REPETITIONS, FEW_REQUESTS, Code
from scaler.capacity.measure import SEND_RATE_TOLERANCE
from scaler.capacity.recommend import KV_CACHE_SCALE_UP, Server, recommend
from scaler.capacity.results import read_results
from scaler.capacity.slo import DEFAULT_ERROR_RATE, Slo
from scaler.capacity.summary import rate_row
from scaler.capacity.sweep import DEFAULT_REPETITIONS, fit
from scaler.cli.capacity import capacity
from tests.bench_results import results, steady
from tests.reference_queue import CLOSED_LOOP, FLOORS, FURTHER_FLOORS

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs/concepts/capacity.md").read_text(encoding="utf-8")
WORDS = " ".join(PAGE.split())
CAPTURES = ROOT / "tests/data/vllm-captures"


def test_the_table_of_real_runs_is_what_a_fit_says_of_them() -> None:
    levels = fit(read_results([CAPTURES]), Slo(0.5, 0.05, 2.0)).levels
    assert len(levels) == 4
    for level in levels:
        rate, _, _, served, goodput, floor, *_ = rate_row(level)
        assert f"| {rate} | {served} | {goodput} | {floor} |" in PAGE


def test_the_floors_of_the_queue_are_those_that_its_tests_find() -> None:
    rows = re.findall(r"^\| (\d+) \| ([\d.]+) % \|$", PAGE, re.MULTILINE)
    assert {int(rate): float(floor) for rate, floor in rows} == FLOORS | FURTHER_FLOORS
    assert "serves {} to {} requests/s".format(*CLOSED_LOOP) in WORDS


def slots(rate: float, e2e: float, *, hourly_cost: float | None = None) -> tuple[str, str, str]:
    found = fit(results(*(steady(rate=rate, e2e=e2e, seed=str(seed)) for seed in range(3))), Slo(ttft_s=0.5)).capacity
    assert found is not None
    advice = recommend(found, Slo(ttft_s=0.5), server=Server(hourly_cost=hourly_cost))
    assert advice is not None
    cost = "" if advice.cost is None else f"{advice.cost.output:.2f}"
    return str(advice.slots), advice.settings.get("scaleUpSaturation", ""), cost


def test_bold_numbers_are_what_the_code_gives() -> None:
    assert slots(4.0, 5.2)[0] == "20"
    assert "`slotsPerReplica` is **20**" in WORDS
    assert slots(4.0, 0.069)[:2] == ("1", "0.27")
    assert "that stay 0.069 s are **0.28** in flight" in WORDS
    assert '`scaleUpSaturation: "0.27"`' in WORDS
    assert slots(4.0, 5.2, hourly_cost=2.5)[2] == "2.71"
    assert "2.50 an hour at 256 output tokens/s is **2.71**" in WORDS
    assert len([bold for bold in PAGE.split("**")[1::2] if bold[0].isdigit()]) == 3


def test_defaults_and_limits_are_those_of_the_code() -> None:
    for text in (
        f"`--max-error-rate` ({DEFAULT_ERROR_RATE:g})",
        f"`--min-repetitions` ({DEFAULT_REPETITIONS}) times",
        f"within {SEND_RATE_TOLERANCE:.0%} of the rate".replace("%", " %"),
        f"fewer than {FEW_REQUESTS} requests in a run",
        f"or fewer than {BOUNDARY_REPETITIONS} at some rate",
        f"`kvCacheScaleUp` stays at {KV_CACHE_SCALE_UP:g}",
    ):
        assert text in WORDS


@pytest.mark.parametrize("code", Code)
def test_every_finding_is_explained(code: Code) -> None:
    assert f"| `{code.value}` |" in PAGE


def commands() -> list[list[str]]:
    joined = re.sub(r"\\\n\s*", "", "\n".join(re.findall(r"^```sh\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)))
    lines = [line.partition(" > ")[0] for line in joined.splitlines()]
    return [shlex.split(line) for line in lines if line.startswith("vllm-scaler capacity")]


def test_there_are_commands_of_each_kind() -> None:
    assert {command[2] for command in commands()} == {"plan", "check", "fit"}


@pytest.mark.parametrize("words", commands(), ids=" ".join)
def test_a_command_is_one_that_is_taken(words: list[str]) -> None:
    command = capacity.commands[words[2]]
    # Parsing the words runs nothing.
    assert isinstance(command.make_context(words[2], words[3:]), click.Context)
