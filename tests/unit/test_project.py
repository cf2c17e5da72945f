"""The project's own house rules, where a tool does not watch over them already."""

import ast
import re
import subprocess
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement

import scaler
from tools import make_venv, proto

ROOT = Path(__file__).resolve().parents[2]
PYPROJECT_TEXT = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
PYPROJECT = tomllib.loads(PYPROJECT_TEXT)
RUNTIME: list[str] = PYPROJECT["project"]["dependencies"]
DEV: list[str] = PYPROJECT["dependency-groups"]["dev"]

# Brackets keep each pattern from matching itself here.
REGISTRY = re.compile(
    r"index[-_]url|find[-_]links|/simple/?[\"']|resolved\": \"http|registry = \"http"
    r"|pypi[.]org|pythonhosted[.]org|registry[.]npmjs|deb[.]debian[.]org|proxy[.]golang[.]org",
    re.IGNORECASE,
)
LONG = 500


def project_files() -> list[Path]:
    """All files that are committed or would be."""
    listing = subprocess.run(
        # Told that the folder is safe: in a container it often belongs to the person outside.
        ["git", "-c", f"safe.directory={ROOT}", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        check=True,
        text=True,
    )
    paths = [ROOT / name for name in listing.stdout.split("\0") if name]
    return [path for path in paths if path.is_file()]


def locked(lock: str) -> dict[str, tuple[str, str]]:
    """The packages of a lock file: name -> (version, its lines)."""
    text = (ROOT / lock).read_text(encoding="utf-8")
    entries = re.findall(r"^([a-z0-9-]+)==(\S+)(.*(?:\n .*)*)", text, re.MULTILINE)
    return {name: (version, lines) for name, version, lines in entries}


def test_the_generated_grpc_code_is_what_the_generator_gives_for_the_protos(tmp_path: Path) -> None:
    proto.generate(tmp_path)

    def code(folder: Path) -> dict[str, str]:
        return {path.name: path.read_text(encoding="utf-8") for path in folder.glob("*_pb2*.py*")}

    expected = code(tmp_path / "scaler" / "protos")
    assert len(expected) >= 3
    assert code(ROOT / "scaler" / "protos") == expected, "run: make proto"


@pytest.mark.parametrize("dependency", RUNTIME)
def test_every_runtime_dependency_says_why_it_is_there(dependency: str) -> None:
    reason = re.search(rf'^  "{re.escape(dependency)}", +# (.+)$', PYPROJECT_TEXT, re.MULTILINE)
    assert reason is not None, f"{dependency} has no comment beside it"
    assert len(reason.group(1).split()) >= 3


@pytest.mark.parametrize(
    ("lock", "wanted"),
    [("requirements.txt", RUNTIME), ("requirements-dev.txt", RUNTIME + DEV)],
    ids=["runtime", "development"],
)
def test_the_lock_holds_every_dependency_in_a_version_that_is_allowed(lock: str, wanted: list[str]) -> None:
    versions = {name: version for name, (version, _) in locked(lock).items()}
    wrong = [
        requirement
        for requirement in map(Requirement, wanted)
        if not requirement.specifier.contains(versions.get(requirement.name.lower(), "0"), prereleases=True)
    ]
    assert wrong == [], "run: make lock"


def test_development_and_production_use_the_same_releases() -> None:
    production, development = (
        {name: version for name, (version, _) in locked(lock).items()}
        for lock in ("requirements.txt", "requirements-dev.txt")
    )
    assert production.items() <= development.items(), "run: make lock"


@pytest.mark.parametrize("lock", ["requirements.txt", "requirements-dev.txt"])
def test_every_locked_package_is_held_to_its_hashes(lock: str) -> None:
    entries = locked(lock)
    assert len(entries) > len(RUNTIME)
    assert [name for name, (_, lines) in entries.items() if "--hash=sha256:" not in lines] == []


def test_no_file_names_a_package_registry() -> None:
    found = []
    for path in project_files():
        text = path.read_bytes().decode("utf-8", "replace")
        found += [f"{path.relative_to(ROOT)}: {match.group()}" for match in REGISTRY.finditer(text)]
    assert found == []


def test_the_registry_rule_sees_the_lines_that_tools_write() -> None:
    # With a gap, so that the rule does not find them in this file.
    for line in ("--index_-url https://mirror.example", '"resolved_": "https://mirror.example/a.tgz"'):
        assert REGISTRY.search(line.replace("_", ""))


def test_a_long_python_file_says_at_its_top_why_it_is_long() -> None:
    silent = []
    for path in project_files():
        if path.suffix != ".py" or path.parent == ROOT / "scaler" / "protos":
            continue
        text = path.read_text(encoding="utf-8")
        if text.count("\n") > LONG and "long because" not in (ast.get_docstring(ast.parse(text)) or ""):
            silent.append(str(path.relative_to(ROOT)))
    assert silent == [], "split it, or say in its docstring: long because ..."


def test_the_version_is_the_same_wherever_it_stands() -> None:
    assert PYPROJECT["project"]["version"] == scaler.__version__


def test_setup_refuses_exactly_the_pythons_that_the_package_refuses() -> None:
    oldest = ".".join(map(str, make_venv.OLDEST))
    assert PYPROJECT["project"]["requires-python"] == f">={oldest}"
