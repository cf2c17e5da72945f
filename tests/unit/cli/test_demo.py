import pytest
from click.testing import CliRunner

from scaler.cli import main
from scaler.cli.demo import demo
from scaler.demo.run import DemoOptions, Outage


@pytest.fixture
def played(monkeypatch: pytest.MonkeyPatch) -> list[DemoOptions]:
    runs: list[DemoOptions] = []
    monkeypatch.setattr("scaler.cli.demo.run", lambda options, _console: runs.append(options))
    return runs


def test_by_default_it_takes_three_minutes_and_free_ports(played: list[DemoOptions]) -> None:
    result = CliRunner().invoke(demo, [])

    assert result.exit_code == 0, result.output
    assert played == [DemoOptions(duration_s=180.0, seed=1)]


def test_every_option_arrives(played: list[DemoOptions]) -> None:
    arguments = "--duration 2m --seed 7 --prometheus-outage 60s:15s --keep --grpc-port 1 --http-port 2"

    CliRunner().invoke(demo, [*arguments.split(), "--prometheus-port", "3"], catch_exceptions=False)

    assert played == [
        DemoOptions(
            duration_s=120.0,
            seed=7,
            grpc_port=1,
            http_port=2,
            prometheus_port=3,
            outage=Outage(60.0, 15.0),
            keep=True,
        )
    ]


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["--duration", "59s"], "59s is too short: at least 1 min"),
        (["--duration", "soon"], "'soon' is not a duration"),
        (["--prometheus-outage", "60s"], "'60s' is not START:LENGTH, such as 60s:15s"),
        (["--prometheus-outage", "60s:x"], "'x' is not a duration"),
        (["--grpc-port", "70000"], "70000 is not in the range"),
    ],
)
def test_what_cannot_be_used_is_refused_with_what_is_wrong(
    played: list[DemoOptions], arguments: list[str], text: str
) -> None:
    result = CliRunner().invoke(demo, arguments)

    assert result.exit_code == 2
    assert text in result.output
    assert played == []


def test_without_prometheus_it_says_where_it_looked_and_what_to_do(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PROMETHEUS_BIN", "/nowhere/prometheus")
    monkeypatch.setattr("sys.argv", ["vllm-scaler", "demo"])

    with pytest.raises(SystemExit) as ended:
        main.main()

    assert ended.value.code == 1
    assert "PROMETHEUS_BIN is '/nowhere/prometheus', which is no program" in capsys.readouterr().err
