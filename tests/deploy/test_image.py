"""The Dockerfile: its linter is content, nothing runs as root, and nothing is installed that is not locked."""

import re
import shlex
import sys
import tomllib
from pathlib import Path

from scaler.config.server import FIELDS
from tests.manifests import ROOT, one, render, run
from tools import make_venv

DOCKERFILE = ROOT / "deploy" / "docker" / "Dockerfile"
TEXT = DOCKERFILE.read_text(encoding="utf-8")
IGNORED = (ROOT / "deploy" / "docker" / "Dockerfile.dockerignore").read_text(encoding="utf-8")
HADOLINT = Path(sys.executable).parent / "hadolint"


def instructions(name: str) -> list[str]:
    joined = TEXT.replace("\\\n", " ")
    return [" ".join(words.split()) for words in re.findall(rf"^{name} (.+)$", joined, re.MULTILINE)]


def test_the_linter_has_nothing_to_say() -> None:
    result = run(HADOLINT, str(DOCKERFILE))
    assert (result.returncode, result.stdout + result.stderr) == (0, "")


def test_both_stages_have_one_base_whose_release_is_named() -> None:
    (base,) = instructions("ARG")
    assert re.fullmatch(r"PYTHON_IMAGE=python:3\.\d+\.\d+-slim-\w+", base)
    assert instructions("FROM") == ["${PYTHON_IMAGE} AS build", "${PYTHON_IMAGE}"]


def test_the_user_is_the_one_of_the_chart(helm4: Path) -> None:
    pod = one(render(helm4, "defaults"), "Deployment")["spec"]["template"]["spec"]
    context = pod["securityContext"]
    assert instructions("USER") == [f"{context['runAsUser']}:{context['runAsGroup']}"]
    assert context["runAsUser"] != 0


def test_it_runs_the_program_and_names_its_ports() -> None:
    scripts = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["scripts"]
    assert instructions("ENTRYPOINT") == [f'["{next(iter(scripts))}"]']
    assert instructions("CMD") == ['["serve"]']
    ports = [FIELDS["grpc_port"].default, FIELDS["http_port"].default]
    assert instructions("EXPOSE") == [" ".join(map(str, ports))]
    assert f"http://127.0.0.1:{ports[1]}/readyz" in TEXT


def test_every_package_is_held_to_its_hash_or_is_our_own() -> None:
    installs = [
        part for line in instructions("RUN") for part in line.split("&&") if "pip" in part and "install" in part
    ]
    assert len(installs) == 4
    assert [part for part in installs if "--require-hashes" not in part and "--no-index" not in part] == []


def test_the_locked_pip_is_cut_out_of_the_lock() -> None:
    (command,) = re.findall(r"(sed -n '.+?' requirements-dev\.txt)", TEXT)
    result = run(Path("/bin/sh"), "-c", f"cd {shlex.quote(str(ROOT))} && {command}")
    lock = (ROOT / "requirements-dev.txt").read_text(encoding="utf-8")
    assert result.stdout.startswith(make_venv.locked_pip(lock).partition("#")[0].rstrip())


def test_what_is_copied_is_there_and_let_through() -> None:
    copied = [word for line in instructions("COPY") if "--from" not in line for word in line.split()[:-1]]
    assert [name for name in copied if not (ROOT / name).exists()] == []
    assert {f"!{name}" for name in copied} <= set(IGNORED.split())
