"""Certificates that follow their files, and stay as they are while the files cannot be used."""

import shutil
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from scaler.errors import StartError
from scaler.service.tls import Certificates, TlsFiles
from tests.certificates import Authority, authority


@pytest.fixture
def ca(tmp_path: Path) -> Authority:
    return authority(tmp_path / "ca")


@pytest.fixture
def files(tmp_path: Path, ca: Authority) -> TlsFiles:
    certificate, key = ca.issue("first")
    mounted = TlsFiles(tmp_path / "tls.crt", tmp_path / "tls.key", tmp_path / "ca.crt")
    put(certificate, mounted.certificate)
    put(key, mounted.key)
    assert mounted.client_ca is not None
    put(ca.certificate, mounted.client_ca)
    return mounted


def put(source: Path, target: Path) -> None:
    """Put a file in another's place at once, as a mounted Secret does."""
    staged = target.with_suffix(".new")
    shutil.copy(source, staged)
    staged.replace(target)


def test_unchanged_files_are_not_read_again(files: TlsFiles) -> None:
    certificates = Certificates(files)
    assert certificates.newer() is None


def test_changed_files_are_read_once(files: TlsFiles, ca: Authority) -> None:
    certificates = Certificates(files)
    certificate, key = ca.issue("second")
    put(certificate, files.certificate)
    put(key, files.key)
    assert certificates.newer() is not None
    assert certificates.newer() is None


def test_half_a_renewal_changes_nothing_until_the_other_half_is_there(files: TlsFiles, ca: Authority) -> None:
    certificates = Certificates(files)
    certificate, key = ca.issue("second")
    put(certificate, files.certificate)
    with capture_logs() as logs:
        assert certificates.newer() is None
        assert certificates.newer() is None
    assert [record["event"] for record in logs] == ["new TLS files cannot be used; the old certificates stay"]
    put(key, files.key)
    assert certificates.newer() is not None


def test_files_that_vanish_change_nothing(files: TlsFiles) -> None:
    certificates = Certificates(files)
    files.key.unlink()
    assert certificates.newer() is None


@pytest.mark.parametrize("broken", ["tls.crt", "tls.key", "ca.crt"])
def test_files_that_cannot_be_used_stop_the_start_by_name(files: TlsFiles, broken: str) -> None:
    path = files.certificate.parent / broken
    path.write_text("no certificate")
    with pytest.raises(StartError, match=f"{path}.*--tls-cert-file"):
        Certificates(files)


@pytest.mark.parametrize("missing", ["tls.crt", "tls.key", "ca.crt"])
def test_files_that_are_not_there_stop_the_start_by_name(files: TlsFiles, missing: str) -> None:
    path = files.certificate.parent / missing
    path.unlink()
    with pytest.raises(StartError, match=f"No such file or directory: '{path}'"):
        Certificates(files)


def test_a_file_of_absurd_size_is_not_read(files: TlsFiles) -> None:
    files.certificate.write_text("x" * 2_000_000)
    with pytest.raises(StartError, match="larger than"):
        Certificates(files)
