import sys
from pathlib import Path

import pytest

from tools import make_venv


def test_an_old_python_is_refused_with_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "version_info", (3, 10, 13))
    with pytest.raises(SystemExit, match=r"3\.11 or newer is needed.*is Python 3\.10.*make setup PYTHON="):
        make_venv.main()


def test_pips_own_entry_is_cut_out_of_the_lock_with_all_its_hashes() -> None:
    entry = "pip==2 \\\n    --hash=sha256:bb \\\n    --hash=sha256:cc\n    # via us"
    before, after = "pathspec==1 \\\n    --hash=sha256:aa\n    # via mypy", "pip-x==3 \\\n    --hash=sha256:dd"
    assert make_venv.locked_pip(f"{before}\n{entry}\n{after}\n") == entry


def test_a_setup_that_stops_half_way_leaves_nothing_that_looks_finished(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    venv = tmp_path / ".venv"
    monkeypatch.setattr(make_venv, "VENV", venv)
    monkeypatch.setattr(make_venv, "VENV_PYTHON", venv / "bin" / "python")
    monkeypatch.setattr(make_venv, "READY", venv / ".ready")
    monkeypatch.setattr(make_venv, "LOCK", tmp_path / "lock.txt")
    # pip refuses it without a look at any index.
    (tmp_path / "lock.txt").write_text("pip==0 --hash=sha256:short\n")
    venv.mkdir()
    (venv / ".ready").touch()  # an earlier setup had finished

    with pytest.raises(SystemExit, match=r"Setup stopped: '.*-m pip .*' ended with exit code"):
        make_venv.main()
    assert not (venv / ".ready").exists()
    assert (venv / "bin" / "python").exists()
    assert capfd.readouterr().err != ""
