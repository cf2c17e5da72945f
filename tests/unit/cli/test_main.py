import sys

import pytest

from scaler import __version__
from scaler.cli import main as command_line
from scaler.config.server import ServerSettings
from scaler.errors import ScalerError
from scaler.service import app


def run(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    monkeypatch.setattr(sys, "argv", ["vllm-scaler", *arguments])
    with pytest.raises(SystemExit) as ended:
        command_line.main()
    assert isinstance(ended.value.code, int)
    return ended.value.code


def test_the_version_is_shown(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(monkeypatch, "--version") == 0
    assert capsys.readouterr().out == f"vllm-scaler, version {__version__}\n"


def test_help_lists_the_commands(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(monkeypatch, "--help") == 0

    listed = capsys.readouterr().out
    assert [name for name in ("backtest", "capacity", "demo", "serve", "simulate") if name not in listed] == []


def test_wrong_settings_are_listed_one_a_line_and_end_with_code_2(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("VLLM_SCALER_LOG_FORMAT", "xml")

    assert run(monkeypatch, "serve", "--grpc-port", "x") == 2
    assert capsys.readouterr().err.splitlines() == [
        'vllm-scaler: flag --grpc-port "x" is not a port number from 0 to 65535',
        'vllm-scaler: environment variable VLLM_SCALER_LOG_FORMAT "xml" is not json or console',
    ]


def test_an_error_of_the_running_service_is_one_line_and_ends_with_code_1(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(_: ServerSettings) -> None:
        raise ScalerError("port 50051 is taken: choose another with --grpc-port")

    monkeypatch.setattr(app, "run", refuse)

    assert run(monkeypatch, "serve") == 1
    assert capsys.readouterr().err == "vllm-scaler: port 50051 is taken: choose another with --grpc-port\n"


def test_serve_runs_the_service_with_the_settings_and_logs_what_was_ignored(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    served: list[ServerSettings] = []
    monkeypatch.setattr(app, "run", served.append)
    monkeypatch.setenv("VLLM_SCALER_GRPCPORT", "1")

    assert run(monkeypatch, "serve", "--grpc-port", "1234") == 0
    assert [settings.grpc_port for settings in served] == [1234]
    assert "did you mean VLLM_SCALER_GRPC_PORT?" in capsys.readouterr().err
