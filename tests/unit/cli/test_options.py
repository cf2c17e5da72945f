from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from scaler.cli.options import settings_options
from scaler.config.server import FILE_ONLY, FLAGS
from scaler.config.sources import LoadedSettings
from scaler.errors import ConfigError


@click.command()
@settings_options
def show(loaded: LoadedSettings) -> None:
    settings = loaded.settings
    click.echo(f"{settings.grpc_port} {settings.http_port} {settings.max_pools} {settings.log_level}")


@pytest.fixture(autouse=True)
def no_settings_in_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in FLAGS:
        monkeypatch.delenv(f"VLLM_SCALER_{name.upper()}", raising=False)
    monkeypatch.delenv("VLLM_SCALER_CONFIG", raising=False)


def test_flags_environment_file_and_defaults_come_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "settings.yaml"
    file.write_text("grpc_port: 3\nhttp_port: 3\nmax_pools: 3\n")
    monkeypatch.setenv("VLLM_SCALER_GRPC_PORT", "2")
    monkeypatch.setenv("VLLM_SCALER_HTTP_PORT", "2")

    result = CliRunner().invoke(show, ["--config", str(file), "--grpc-port", "1"])

    assert result.output == "1 2 3 info\n"


def test_the_file_may_be_named_by_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "settings.yaml"
    file.write_text("log_level: debug\n")
    monkeypatch.setenv("VLLM_SCALER_CONFIG", str(file))

    assert CliRunner().invoke(show, []).output == "50051 8080 20000 debug\n"


def test_a_wrong_setting_is_a_config_error() -> None:
    result = CliRunner().invoke(show, ["--grpc-port", "x"])

    assert isinstance(result.exception, ConfigError)


def test_help_shows_each_setting_with_its_variable_and_default() -> None:
    words = " ".join(CliRunner().invoke(show, ["--help"], terminal_width=120).output.split())

    for name in FLAGS:
        assert f"--{name.replace('_', '-')} VALUE" in words
        assert f"[VLLM_SCALER_{name.upper()}; default: " in words
    assert "[VLLM_SCALER_MAX_HOLD_AGE; default: 10 min]" in words
    assert "`" not in words


@pytest.mark.parametrize("name", sorted(FILE_ONLY))
def test_what_only_a_file_can_hold_has_no_flag(name: str) -> None:
    result = CliRunner().invoke(show, [f"--{name}", "x"])

    assert result.exit_code == 2
    assert "No such option" in result.output
