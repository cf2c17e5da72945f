from pathlib import Path

import pytest

from scaler.demo.prometheus_process import find_prometheus, find_tool
from scaler.errors import ScalerError


def program(folder: Path, name: str) -> Path:
    folder.mkdir(exist_ok=True)
    path = folder / name
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    return path


@pytest.fixture(autouse=True)
def empty_machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path / "path"))
    for variable in ("PROMETHEUS_BIN", "PROMTOOL_BIN", "GRPCURL_BIN"):
        monkeypatch.delenv(variable, raising=False)


def test_the_variable_comes_before_path_and_path_before_the_tools_folder(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    fetched = program(tmp_path / "tools", "prometheus")
    assert find_tool("prometheus", tmp_path / "tools") == fetched

    on_path = program(tmp_path / "path", "prometheus")
    assert find_tool("prometheus", tmp_path / "tools") == on_path

    named = program(tmp_path / "elsewhere", "prometheus-3")
    monkeypatch.setenv("PROMETHEUS_BIN", str(named))
    assert find_tool("prometheus", tmp_path / "tools") == named


def test_promtool_is_taken_from_beside_the_prometheus_that_the_variable_names(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PROMETHEUS_BIN", str(program(tmp_path / "release", "prometheus")))
    beside = program(tmp_path / "release", "promtool")
    program(tmp_path / "path", "promtool")
    assert find_tool("promtool", tmp_path / "tools") == beside


def test_a_variable_that_names_no_program_is_an_error_even_where_another_program_is_there(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    program(tmp_path / "path", "prometheus")
    monkeypatch.setenv("PROMETHEUS_BIN", str(tmp_path / "gone"))
    with pytest.raises(ScalerError, match=r"PROMETHEUS_BIN is '.*gone'.*correct it or unset it"):
        find_prometheus()


def test_a_program_that_is_nowhere_is_an_error_that_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(ScalerError, match=r"grpcurl was not found .*make setup.*GRPCURL_BIN"):
        find_tool("grpcurl", tmp_path / "tools")


def test_a_relative_path_in_the_variable_is_made_absolute(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    named = program(tmp_path / "release", "prometheus")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PROMETHEUS_BIN", "release/prometheus")
    assert find_prometheus() == named
