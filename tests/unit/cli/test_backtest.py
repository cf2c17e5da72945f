import json
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeAlias

import pytest
from click.testing import CliRunner, Result

from scaler.adapters.recording import Recording
from scaler.cli import main as command_line
from scaler.cli.backtest import backtest
from scaler.config.server import FLAGS
from scaler.policy.history import memory_ticks
from tests.builders import POLICY, TICK_S
from tests.fakes import FakeReader
from tests.histories import EIGHT, HALF_PAST_NINE, SCALED_OBJECT, save_morning

OWN = ("--mode", "counterfactual")


@pytest.fixture(autouse=True)
def no_settings_in_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in FLAGS:
        monkeypatch.delenv(f"VLLM_SCALER_{name.upper()}", raising=False)
    monkeypatch.delenv("VLLM_SCALER_CONFIG", raising=False)


@pytest.fixture(scope="module")
def past(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_morning(tmp_path_factory.mktemp("history") / "morning.jsonl.gz")


@pytest.fixture
def pool(tmp_path: Path) -> Path:
    file = tmp_path / "vllm-llama.yaml"
    file.write_text(SCALED_OBJECT)
    return file


def run(*arguments: object) -> Result:
    return CliRunner().invoke(backtest, [str(each) for each in arguments], catch_exceptions=False)


def found(*arguments: object) -> Mapping[str, Any]:
    result = run(*arguments, "--json")
    assert result.exit_code == 0, result.output
    report: Mapping[str, Any] = json.loads(result.stdout)
    return report


Program: TypeAlias = Callable[..., tuple[int, str]]


@pytest.fixture
def program(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Program:
    """Run the whole program: its exit code, and what it wrote to standard error."""

    def run_program(*arguments: object) -> tuple[int, str]:
        monkeypatch.setattr(sys, "argv", ["vllm-scaler", "backtest", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            command_line.main()
        assert isinstance(ended.value.code, int)
        return ended.value.code, capsys.readouterr().err

    return run_program


def test_advice_says_what_would_have_been_asked_for_when_and_why(pool: Path, past: Path) -> None:
    result = run(pool, "--history", past)
    lines = [line.rstrip() for line in result.stdout.splitlines()]
    assert lines[0] == "2026-03-02 08:00:00 to 2026-03-02 09:30:00 UTC: 360 ticks of 15 s"
    assert lines[1].startswith("- Advice mode: each decision is made on what was really there")
    table = {line[:28].strip(): line[28:].split() for line in lines}
    assert table["replica-hours"] == ["7.67", "8.47"]
    (why,) = [line for line in lines if line.startswith("    why: Scale up from 4 to 5 replicas: in flight 58 > 0.9")]
    assert lines[lines.index(why) - 1].split()[:2] == ["2026-03-02", "08:25:00"]
    assert "step_limit" in result.stdout
    assert "replayed 480 ticks" in result.stderr


def test_several_policies_stand_side_by_side(pool: Path, past: Path) -> None:
    variants = ("--variant", "lean:slotsPerReplica=24,warmReplicas=0", "--variant", "warm:warmReplicas=1")
    report = found(pool, "--history", past, *OWN, *variants)
    hours = {one["name"]: one["ours"]["replica_hours"] for one in report["policies"]}
    assert list(hours) == ["vllm-llama", "lean", "warm"]
    assert hours["lean"] < hours["vllm-llama"] < hours["warm"]
    waiting = {one["name"]: one["ours"]["mean_waiting"] for one in report["policies"]}
    assert waiting["warm"] < waiting["vllm-llama"] < waiting["lean"]


def test_settings_alone_make_a_policy_and_change_all(pool: Path, past: Path) -> None:
    settings = ("deployment=vllm-llama", "modelName=meta-llama/Llama-3.1-8B-Instruct", "slotsPerReplica=16")
    alone = [part for setting in settings for part in ("--set", setting)]
    report = found("--history", past, "--namespace", "serving", *alone)
    assert [one["name"] for one in report["policies"]] == ["settings"]
    capped = found(pool, pool, "--history", past, "--set", "maxReplicas=5")
    assert [one["name"] for one in capped["policies"]] == ["vllm-llama (1)", "vllm-llama (2)"]
    assert all(one["limits_s"]["max_replicas"] > 0 for one in capped["policies"])


def test_the_cold_start_is_measured_or_given_and_said(pool: Path, past: Path) -> None:
    measured = found(pool, "--history", past, *OWN)
    assert measured["policies"][0]["cold_start_s"] == 180.0
    assert measured["assumptions"][-1].startswith("A new replica serves after 3 min (as all 2 starts in the history)")
    given = found(pool, "--history", past, *OWN, "--cold-start", "10m", "--replica-slots", "12")
    assert (given["policies"][0]["cold_start_s"], given["policies"][0]["replica_slots"]) == (600.0, 12)
    assert given["policies"][0]["ours"]["mean_waiting"] > measured["policies"][0]["ours"]["mean_waiting"]
    assert "A replica has 12 slots, under whatever policy." in given["assumptions"]


def test_from_and_to_narrow_a_history_and_what_is_before_fills_the_windows(pool: Path, past: Path) -> None:
    report = found(pool, "--history", past, "--from", "2026-03-02T08:30:00", "--to", "2026-03-02T10:00:00+01:00")
    assert (report["from"], report["to"]) == ("2026-03-02T08:30:00.000Z", "2026-03-02T09:00:15.000Z")
    assert report["ticks"] == 121
    whole = found(pool, "--history", past)
    steps = [one["policies"][0]["reasons_s"].get("need_above", 0) for one in (report, whole)]
    assert 0 < steps[0] <= steps[1]


def test_the_page_stands_for_itself(pool: Path, past: Path, tmp_path: Path) -> None:
    page = tmp_path / "report.html"
    run(pool, "--history", past, *OWN, "--set", "maxHourlyCost=10", "--set", "replicaHourlyCost=2", "--html", page)
    text = page.read_text()
    assert "<h1>Backtest 2026-03-02 08:00:00 to 2026-03-02 09:30:00 UTC</h1>" in text
    assert text.count("<svg") == 1
    assert "never reached: maxHourlyCost pays for 5" in text
    assert "cost_limit" in text
    assert [part for part in ("src=", "@import", "<script") if part in text] == []


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["--history", "{past}", "--save", "x"], "--history has its own times and is saved already"),
        (["--history", "{past}", "--last", "1h"], "--history has its own times and is saved already"),
        (["--last", "1h", "--from", "2026-01-01"], "give --last or --from, not both"),
        (["--cold-start", "1m"], "--cold-start and --replica-slots are of --mode counterfactual"),
        (["--replica-slots", "0", *OWN], "0 is not in the range"),
        (["--from", "yesterday"], "'yesterday' is no time such as 2026-01-31"),
        (["--from", "nan"], "'nan' is no time"),
        (["--from", "20260131"], "'20260131' is no time"),
        (["--set", "slotsPerReplica"], "'slotsPerReplica' is not KEY=VALUE"),
        (["--variant", "lean"], "'lean' is not NAME:KEY=VALUE,..."),
        (["--variant", "lean:a"], "'a' is not KEY=VALUE"),
        (["--last", "soon"], "'soon' is not a duration"),
        (["--mode", "guess"], "'guess' is not one of"),
    ],
)
def test_a_wrong_command_line_is_refused_with_what_is_wrong(
    pool: Path, past: Path, arguments: list[str], text: str
) -> None:
    result = run(pool, *(each.replace("{past}", str(past)) for each in arguments))
    assert result.exit_code == 2
    assert text in " ".join(result.output.split())


WHERE = '{pool}: ScaledObject "vllm-llama", trigger 1'


@pytest.mark.parametrize(
    ("arguments", "problems"),
    [
        ("", ["there is no policy to try: give the file of a ScaledObject, or --set KEY=VALUE"]),
        (
            "{pool} --set slotsPerReplica=many --history {past}",
            [f'{WHERE}, --set: slotsPerReplica "many" is not a whole number from 1 to 65536'],
        ),
        (
            "{pool} --variant lean:slotPerReplica=3 --variant odd:maxReplica=0 --history {past}",
            [
                f'{WHERE}, --variant lean: the key "slotPerReplica" is not known: did you mean slotsPerReplica?',
                f'{WHERE}, --variant odd: the key "maxReplica" is not known: did you mean maxReplicas?',
            ],
        ),
        ("{pool} {pool} --variant a:b=c", ["--variant varies one policy, and 2 are given: leave one of them"]),
        ("{pool} " * 9, ["there are 9 policies, and 8 can be compared at once"]),
        (
            "{pool} --history {past} --set rateWindowSeconds=2m --set deployment=other",
            ["the history has not the pool of vllm-llama: workload deployment/other is wanted, deployment/vllm-llama"],
        ),
        (
            "{pool} --history {past} --set itlP95Seconds=0.1",
            ["the history has no itl_p95, which vllm-llama needs: record it with this policy"],
        ),
        (
            "{pool} --from 2026-01-01 --to 2025-01-01",
            ["there is no tick from 2026-01-01 00:00:00 to 2025-01-01 00:00:00 UTC: give an earlier --from"],
        ),
        (
            "{pool} --from 2025-01-01 --to 2026-01-01",
            ["that time has 2102401 ticks, more than the 500000 that can be tried: narrow it"],
        ),
        (
            "{pool} --history {past} --from 2026-03-02T07:59:00",
            ["the history begins at 2026-03-02 08:00:00 UTC, after the 2026-03-02 07:59:00 of --from"],
        ),
        ("{pool} --prometheus-url here", ['flag --prometheus-url "here" is not an http or https URL without a query,']),
    ],
)
def test_settings_that_cannot_be_used_are_listed_and_end_with_code_2(
    program: Program, pool: Path, past: Path, arguments: str, problems: list[str]
) -> None:
    def filled(text: str) -> str:
        return text.replace("{pool}", str(pool)).replace("{past}", str(past))

    code, said = program(*map(filled, arguments.split()))
    assert code == 2
    lines = said.splitlines()
    assert len(lines) == len(problems)
    for line, problem in zip(lines, problems, strict=True):
        assert line.startswith(f"vllm-scaler: {filled(problem)}")


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ("--from 2026-04-01", "there is no tick to look at: the history is read up to"),
        ("--html /nowhere/report.html", "/nowhere/report.html cannot be written: No such file or directory"),
        ("--history /nowhere/past.jsonl", "/nowhere/past.jsonl cannot be read: No such file or directory"),
    ],
)
def test_what_cannot_be_done_is_one_line_and_ends_with_code_1(
    program: Program, pool: Path, past: Path, arguments: str, text: str
) -> None:
    code, said = program(pool, "--history", past, *arguments.split())
    assert code == 1
    assert text in said
    assert "Traceback" not in said


def test_a_history_without_a_start_needs_a_cold_start(
    program: Program, pool: Path, past: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("scaler.backtest.cold_start.LONGEST_S", 1.0)
    code, said = program(pool, "--history", past, *OWN)
    assert code == 1
    assert "the history does not tell how long a replica of vllm-llama takes to start: give --cold-start" in said


@pytest.fixture
def reader(monkeypatch: pytest.MonkeyPatch) -> FakeReader:
    """What stands in for Prometheus: four replicas with 30 requests, at any time."""
    fake = FakeReader(load=30.0, replicas=4)
    make: Callable[..., FakeReader] = lambda *_, **__: fake  # noqa: E731 - it needs its type
    monkeypatch.setattr("scaler.cli.backtest.MetricsReader", make)
    # Windows are full all the same, in a tenth of the time.
    monkeypatch.setattr("scaler.cli.backtest.memory_ticks", lambda _: WARM_UP)
    return fake


WARM_UP = 40
TIMES = ("--from", str(EIGHT * TICK_S), "--to", str((HALF_PAST_NINE - 1) * TICK_S))


def test_what_is_saved_gives_the_same_report_again(reader: FakeReader, pool: Path, tmp_path: Path) -> None:
    saved = tmp_path / "past.jsonl.gz"
    live = found(pool, *TIMES, "--save", saved)
    assert len(reader.past_reads) > 1
    reads = len(reader.past_reads)
    assert found(pool, "--history", saved) == live
    assert len(reader.past_reads) == reads
    assert live["ticks"] == HALF_PAST_NINE - EIGHT


def test_as_much_is_read_before_as_decisions_depend_on(
    reader: FakeReader, pool: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("scaler.cli.backtest.memory_ticks", memory_ticks)
    saved = tmp_path / "past.jsonl"
    run(pool, *TIMES, "--save", saved)
    assert reader.past_reads[0][1][0] == (EIGHT - memory_ticks(POLICY)) * TICK_S
    assert Recording(saved).header.since == EIGHT * TICK_S


def test_policies_of_one_pool_are_read_once_with_all_that_they_need(
    reader: FakeReader, pool: Path, tmp_path: Path
) -> None:
    saved = tmp_path / "past.jsonl"
    variants = ("--variant", "itl:itlP95Seconds=0.1", "--variant", "wide:rateWindowSeconds=2m")
    run(pool, *TIMES, "--save", saved, *variants)
    pools = Recording(saved).header.pools
    own = found(pool, "--history", saved, *variants, *OWN, "--cold-start", "1m", "--variant", "x:slotsPerReplica=4")
    assert {one["replica_slots"] for one in own["policies"]} == {16}
    lines = run(pool, "--history", saved, *variants).stdout.splitlines()
    assert lines[lines.index("Totals") + 1].split() == ["recorded", "vllm-llama", "itl", "wide"]
    assert [(pool.rate_window_s, pool.extras) for pool in pools] == [(60.0, ("itl_p95",)), (120.0, ())]
    assert {len(keys) for keys, _ in reader.past_reads} == {2}


def test_the_last_week_is_read_by_default(reader: FakeReader, pool: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("scaler.cli.backtest._DEFAULT_SPAN_S", 600.0)
    assert found(pool)["ticks"] == 41
    assert found(pool, "--last", "5m")["ticks"] == 21
    assert reader.past_reads


def test_a_read_that_fails_leaves_no_file(
    program: Program, reader: FakeReader, pool: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reader.past_failures = ["replicas: no answer"]
    monkeypatch.setattr("scaler.adapters.long_read.MOST_FAILURES", 1)
    code, said = program(pool, *TIMES, "--save", tmp_path / "past.jsonl")
    assert code == 1
    assert "the past could not be read in 1 attempts, after 0 of 400 ticks: replicas: no answer" in said
    assert list(tmp_path.iterdir()) == [pool]


def test_what_was_ignored_and_what_is_not_meant_is_said(
    reader: FakeReader, pool: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VLLM_SCALER_PROMETHEUSURL", "x")
    result = run(pool, *TIMES, "--set", "ttftP95Seconds=3")
    assert "did you mean VLLM_SCALER_PROMETHEUS_URL?" in result.stderr
    assert "warning: vllm-llama: the objective of ttft_p95" in result.stdout
    assert reader.past_reads
