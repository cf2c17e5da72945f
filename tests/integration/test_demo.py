"""The demo as a person runs it: a process with a real Prometheus, whose output is read, and which leaves nothing."""

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from click.testing import CliRunner

from scaler.cli.backtest import backtest
from tests.prometheus_server import start_prometheus

LINE = re.compile(
    r"t=(?P<at>\d+)s (?P<phase>\w+)  (?P<down>PROMETHEUS DOWN  )?in flight (?P<load>\d+)/.*"
    r"  replicas (?P<serving>\d+) serving, (?P<requested>\d+) requested, target (?P<target>\d+|\?)  (?P<verdict>.*)"
)
# A start takes 10 s and an end 2 s, on a machine that has other things to do.
STARTED_S = 60.0
ENDED_S = 30.0


@dataclass(frozen=True)
class Seen:
    at: int
    phase: str
    is_down: bool
    requested: int
    verdict: str


@dataclass(frozen=True)
class Ended:
    code: int
    output: str
    errors: str
    folder: Path

    @property
    def seen(self) -> list[Seen]:
        return [
            Seen(int(each["at"]), each["phase"], bool(each["down"]), int(each["requested"]), each["verdict"])
            for each in LINE.finditer(self.output)
        ]

    @property
    def ports(self) -> list[int]:
        introduction = self.output.partition("The ScaledObject")[0]
        return [int(port) for port in re.findall(r"127\.0\.0\.1:(\d+)", introduction)]


@contextmanager
def started(folder: Path, *arguments: str) -> Iterator["subprocess.Popen[str]"]:
    """Start the demo with a folder of its own for all that it writes."""
    temporary = folder / "tmp"
    temporary.mkdir(parents=True)
    with subprocess.Popen(
        [Path(sys.executable).with_name("vllm-scaler"), "demo", *arguments],
        cwd=folder,
        env=os.environ | {"TMPDIR": str(temporary), "PYTHONUNBUFFERED": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            yield process
        finally:
            if process.poll() is None:
                process.kill()


def ended(process: "subprocess.Popen[str]", folder: Path, *, within_s: float, before: str = "") -> Ended:
    output, errors = process.communicate(timeout=within_s)
    return Ended(process.returncode, before + output, errors, folder)


def left_running(folder: Path) -> list[str]:
    """Command lines of all processes that were told of the folder."""
    commands = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            commands.append(path.read_bytes().replace(b"\0", b" ").decode("utf-8", "replace"))
        except OSError:
            continue  # it has ended meanwhile
    return [command for command in commands if str(folder) in command]


def is_open(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory, prometheus_bin: Path) -> dict[str, Ended]:
    """A whole run, and one in which Prometheus is away for 15 s in the burst; side by side, as each takes a minute."""
    assert prometheus_bin
    whole, outage = tmp_path_factory.mktemp("whole"), tmp_path_factory.mktemp("outage")
    with (
        started(whole, "--duration", "60s") as first,
        started(outage, "--duration", "75s", "--prometheus-outage", "33s:15s", "--keep") as second,
    ):
        return {
            "whole": ended(first, whole, within_s=60 + STARTED_S + ENDED_S),
            "outage": ended(second, outage, within_s=75 + STARTED_S + ENDED_S),
        }


pytestmark = pytest.mark.timeout(300)


@pytest.mark.parametrize("name", ["whole", "outage"])
def test_a_run_ends_by_itself_and_leaves_nothing_behind(runs: dict[str, Ended], name: str) -> None:
    run = runs[name]

    assert (run.code, run.errors) == (0, "")
    assert len(run.ports) == 4
    assert [port for port in run.ports if is_open(port)] == []
    assert left_running(run.folder) == []
    assert list((run.folder / "tmp").iterdir()) == []


def test_the_fleet_grows_in_the_burst_and_comes_back(runs: dict[str, Ended]) -> None:
    seen = runs["whole"].seen
    burst_at = next(each.at for each in seen if each.phase == "burst")
    peak = max(each.requested for each in seen)

    assert seen[0].requested == 2
    assert peak >= 8
    assert max(each.requested for each in seen if each.at < burst_at) < peak
    assert seen[-1].requested <= peak / 2


def test_replicas_do_not_reverse_under_steady_load_and_the_summary_says_so(runs: dict[str, Ended]) -> None:
    output = runs["whole"].output

    assert "\nran for              1 min of 1 min\n" in output
    assert "\nsteady load          0 reversals\n" in output
    assert re.search(r"\nrequests             [345]\d\d served, ", output)
    assert re.search(r"\ntime to first token  \d+\.\d% within 1 s\n", output)
    # As high as the fleet must grow at least, see above.
    assert re.search(r"\n  0:\d\d burst +\d+ -> (8|9|10) .*in flight \d+ .*> 0.9 x 8 slots", output)


def test_every_line_says_why(runs: dict[str, Ended]) -> None:
    assert all(re.match(r"(hold|scale up|scale down): .", each.verdict) for each in runs["whole"].seen)


def test_while_prometheus_is_away_no_replica_comes_or_goes(runs: dict[str, Ended]) -> None:
    seen = runs["outage"].seen
    down = [each for each in seen if each.is_down]
    # What was decided before is still carried out: the stand-in for the HPA looks every 2 s.
    blind = [each for each in down if each.at >= down[0].at + 3]

    assert blind[-1].at - blind[0].at >= 10
    assert len({each.requested for each in blind}) == 1
    assert blind[0].requested >= 8
    assert all("no data to decide on" in each.verdict for each in blind)


def test_the_log_says_why_nothing_changed(runs: dict[str, Ended]) -> None:
    [log] = runs["outage"].folder.glob("demo-output/*/scaler.log")
    records = [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()]
    blind = [each for each in records if each.get("reason") == "no_data"]

    assert blind
    assert all(each["to"] == each["from"] for each in blind)
    assert any("Prometheus" in note for each in blind for note in each["notes"])


def test_after_the_outage_decisions_go_on_with_data(runs: dict[str, Ended]) -> None:
    seen = runs["outage"].seen
    last_down = max(each.at for each in seen if each.is_down)

    assert last_down < seen[-1].at
    assert "no data" not in seen[-1].verdict
    assert seen[-1].requested < max(each.requested for each in seen)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_it_in_order_with_a_summary(tmp_path: Path, prometheus_bin: Path, number: signal.Signals) -> None:
    assert prometheus_bin
    before = ""
    with started(tmp_path) as process:
        assert process.stdout is not None
        for line in process.stdout:
            before += line
            if line.startswith("t="):
                break
        process.send_signal(number)
        run = ended(process, tmp_path, within_s=ENDED_S, before=before)

    assert (run.code, run.errors) == (0, "")
    assert "of 3 min\n" in run.output
    assert "steady load          0 reversals" in run.output
    assert [port for port in run.ports if is_open(port)] == []
    assert left_running(tmp_path) == []
    assert list((tmp_path / "tmp").iterdir()) == []


def test_a_signal_in_an_outage_ends_it_in_order_too(tmp_path: Path, prometheus_bin: Path) -> None:
    assert prometheus_bin
    before = ""
    with started(tmp_path, "--prometheus-outage", "1s:60s") as process:
        assert process.stdout is not None
        for line in process.stdout:
            before += line
            if "PROMETHEUS DOWN" in line:
                break
        process.terminate()
        run = ended(process, tmp_path, within_s=ENDED_S, before=before)

    assert (run.code, run.errors) == (0, "")
    assert "steady load          0 reversals" in run.output
    assert left_running(tmp_path) == []


def test_when_its_reader_goes_away_it_ends_in_order(tmp_path: Path, prometheus_bin: Path) -> None:
    assert prometheus_bin
    with started(tmp_path) as process:
        assert process.stdout is not None
        process.stdout.readline()
        process.stdout.close()
        code = process.wait(STARTED_S)
        assert process.stderr is not None
        errors = process.stderr.read()

    assert (code, errors) == (0, "")
    assert left_running(tmp_path) == []
    assert list((tmp_path / "tmp").iterdir()) == []


def test_the_lines_to_try_work(tmp_path: Path, prometheus_bin: Path, grpcurl_bin: Path) -> None:
    assert prometheus_bin
    before = ""
    with started(tmp_path) as process:
        assert process.stdout is not None
        for line in process.stdout:
            before += line
            if line.startswith("t="):
                break
        lines = [line.strip() for line in before.splitlines() if " -plaintext " in line]
        answers = []
        for line in lines:
            command, _, file = line.partition(" < ")
            answers.append(
                subprocess.run(
                    [str(grpcurl_bin), *command.split()[1:]],
                    input=Path(file).read_bytes() if file else b"",
                    capture_output=True,
                    check=True,
                    timeout=20,
                ).stdout.decode()
            )
        process.terminate()
        ended(process, tmp_path, within_s=ENDED_S)

    assert "externalscaler.ExternalScaler" in answers[0]
    assert json.loads(answers[1])["metricValues"][0]["metricValueFloat"] == 2
    assert json.loads(answers[2]) == {"result": True}


def test_a_port_that_is_taken_ends_it_with_a_clear_error(tmp_path: Path, prometheus_bin: Path) -> None:
    assert prometheus_bin
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with started(tmp_path, "--grpc-port", str(port)) as process:
            run = ended(process, tmp_path, within_s=STARTED_S)

    assert run.code == 1
    assert str(port) in run.errors
    assert "Traceback" not in run.errors
    assert left_running(tmp_path) == []
    assert list((tmp_path / "tmp").iterdir()) == []


def test_a_kept_run_can_be_looked_back_at(runs: dict[str, Ended], tmp_path: Path) -> None:
    (kept,) = (runs["outage"].folder / "demo-output").iterdir()
    shutil.copytree(kept / "prometheus", tmp_path / "prometheus")
    trigger = json.loads((kept / "scaled-object-ref.json").read_text())
    settings = [part for key, value in trigger["scalerMetadata"].items() for part in ("--set", f"{key}={value}")]
    ticks = [
        json.loads(line)["time"]
        for line in (kept / "scaler.log").read_text().splitlines()
        if '"event": "decision"' in line
    ]
    times = ["--from", min(ticks), "--to", max(ticks)]
    with ExitStack() as cleanup:
        server = start_prometheus("", data_dir=tmp_path / "prometheus", extra_args=(), cleanup=cleanup)
        source = ["--prometheus-url", server.url, "--evaluation-interval", "1s", "--namespace", trigger["namespace"]]
        result = CliRunner().invoke(backtest, [*settings, *source, *times, "--json"], catch_exceptions=False)

    assert result.exit_code == 0, result.output
    (tried,) = json.loads(result.stdout)["policies"]
    assert tried["recorded"]["increases"] >= 2
    # What it was told is what it did, so advice and record differ only until a change is seen.
    assert tried["against_recorded"] == pytest.approx(1.0, abs=0.25)
    assert tried["missing_s"]["saturation"] >= 5
