"""Make .venv with the locked dependencies and this project in it: ``python3 tools/make_venv.py``.

Presumes no more than a Python of 3.11 or newer with its pip. Debian's Python has no ensurepip unless python3-venv is
installed, so the environment is made without pip, and the pip outside puts the locked one into it. Safe to run again at
any time: a finished environment is brought up to date, and one that a stopped run left behind is made anew.
"""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LOCK = ROOT / "requirements-dev.txt"
VENV = ROOT / ".venv"
VENV_PYTHON = VENV / "bin" / "python"
# Says that the environment is complete, and to make, as of when: gone while we work, written last.
READY = VENV / ".ready"
# The oldest Python that is supported; pyproject.toml says the same.
OLDEST = (3, 11)
# Errors only: where an index is spread over several places, pip warns about each package that one of them lacks.
# Not compiled ahead: most of it is never imported, and Python compiles the rest when it is.
PIP_INSTALL = ("install", "-qq", "--no-compile", "--disable-pip-version-check", "--no-input", "--require-hashes")


def main() -> None:
    """Make the environment or bring it up to date, or end with a message that says what to do."""
    if sys.version_info < OLDEST:
        found = f"{sys.executable} is Python {sys.version_info[0]}.{sys.version_info[1]}"
        sys.exit(f"Python 3.11 or newer is needed, and {found}. Name a newer one: make setup PYTHON=python3.11")
    usable = _is_usable()
    READY.unlink(missing_ok=True)
    if not usable:
        print("Making .venv", flush=True)
        _run(sys.executable, "-m", "venv", "--clear", "--without-pip", str(VENV))
    print("Installing the locked dependencies into .venv (about half a minute the first time)", flush=True)
    # The locked pip first: an old one takes twice as long over the rest.
    outer_pip = (sys.executable, "-m", "pip", "--python", str(VENV_PYTHON))
    _run(*outer_pip, *PIP_INSTALL, "--requirement", "/dev/stdin", stdin=locked_pip(LOCK.read_text(encoding="utf-8")))
    inner_pip = (str(VENV_PYTHON), "-m", "pip")
    _run(*inner_pip, *PIP_INSTALL, "--requirement", str(LOCK))
    # Nothing is resolved or fetched here: what builds the project is locked with the rest.
    _run(*inner_pip, *PIP_INSTALL[:-1], "--no-deps", "--no-build-isolation", "--editable", str(ROOT))
    READY.touch()


def locked_pip(lock: str) -> str:
    """Cut pip's own entry, its version and hashes, out of a lock file's text."""
    entry = re.search(r"^pip==.*(\n[ ].*)*", lock, re.MULTILINE)
    if entry is None:
        sys.exit(f"{LOCK} does not name pip: run make lock")
    return entry.group()


def _is_usable() -> bool:
    """Tell whether .venv holds a finished environment whose Python runs and is new enough."""
    if not (READY.exists() and VENV_PYTHON.exists()):
        return False
    check = f"import sys; sys.exit(sys.prefix == sys.base_prefix or sys.version_info < {OLDEST})"
    return subprocess.run([str(VENV_PYTHON), "-c", check], check=False, capture_output=True).returncode == 0


def _run(*command: str, stdin: str = "") -> None:
    code = subprocess.run(command, input=stdin, text=True, check=False).returncode
    if code != 0:
        sys.exit(
            f"Setup stopped: '{' '.join(command)}' ended with exit code {code}; the lines above say why. "
            f"It needs {sys.executable} to have pip 22.3 or newer (Debian: apt-get install python3-pip), "
            "and a package index that pip can reach."
        )


if __name__ == "__main__":
    main()
