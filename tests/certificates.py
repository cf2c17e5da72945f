"""Certificates for tests, made by the openssl program."""

import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest


@dataclass(frozen=True)
class Authority:
    """A certificate authority and its files, which sign certificates for localhost."""

    folder: Path

    @property
    def certificate(self) -> Path:
        return self.folder / "ca.crt"

    def issue(self, name: str) -> tuple[Path, Path]:
        """Return the files of a new certificate for localhost, and of its key."""
        key, request, certificate = (self.folder / f"{name}.{suffix}" for suffix in ("key", "csr", "crt"))
        extensions = self.folder / "extensions"
        extensions.write_text("subjectAltName=DNS:localhost,IP:127.0.0.1\n")
        _openssl("req", *_NEW_KEY, "-keyout", key, "-out", request, "-subj", f"/CN={name}")
        signed_by = ("-CA", self.certificate, "-CAkey", self.folder / "ca.key", "-CAcreateserial")
        _openssl("x509", "-req", "-in", request, *signed_by, "-out", certificate, "-days", 2, "-extfile", extensions)
        return certificate, key


_NEW_KEY = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes")


def authority(folder: Path) -> Authority:
    """Return a new certificate authority in ``folder``."""
    folder.mkdir(parents=True)
    made = Authority(folder)
    _openssl(
        "req",
        "-x509",
        *_NEW_KEY,
        "-keyout",
        folder / "ca.key",
        "-out",
        made.certificate,
        "-days",
        2,
        "-subj",
        "/CN=test",
    )
    return made


def _openssl(*arguments: object) -> None:
    program = shutil.which("openssl")
    if program is None:
        pytest.fail("these tests make certificates with the openssl program: install it", pytrace=False)
    result = subprocess.run([program, *map(str, arguments)], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
