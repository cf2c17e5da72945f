"""TLS for the gRPC port: certificates are read anew when their files change, as they do in a mounted Secret.

Each handshake asks whether the files changed, which costs one stat a file. Files that cannot be used, such as a key
that does not fit its certificate half way through a renewal, leave those that were read last in use.
"""

import ssl
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import grpc
import structlog

from scaler.adapters.logs import OncePerKey
from scaler.errors import StartError

MAX_FILE_BYTES: Final = 1024 * 1024
"""A chain or a bundle of authorities has some ten kilobytes."""

_LOG = structlog.stdlib.get_logger("scaler.tls")

_Stamp = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class TlsFiles:
    """Where the PEM files are.

    With ``client_ca``, clients must show a certificate that it signed.
    """

    certificate: Path
    key: Path
    client_ca: Path | None = None


class Certificates:
    """The certificates in use, and their files.

    Args:
        files: The PEM files.

    Raises:
        StartError: They cannot be used.
    """

    def __init__(self, files: TlsFiles) -> None:
        self._files = files
        self._said = OncePerKey()
        self._stamps: dict[Path, _Stamp] = {}
        try:
            self._stamps = self._read_stamps()
            self._configuration = self._read()
        except (OSError, ValueError) as error:
            raise StartError(
                f"cannot use the TLS files: {error}; see --tls-cert-file, --tls-key-file and --tls-client-ca-file"
            ) from error

    def credentials(self) -> grpc.ServerCredentials:
        """Return credentials that follow the files."""
        return grpc.dynamic_ssl_server_credentials(
            self._configuration,
            self.newer,  # type: ignore[arg-type]  # the stub does not know that None means no change
            require_client_authentication=self._files.client_ca is not None,
        )

    def newer(self) -> grpc.ServerCertificateConfiguration | None:
        """Return the certificates if their files changed since the last call, else None.

        gRPC calls this from its own threads, before each handshake; it must not raise.
        """
        try:
            stamps = self._read_stamps()
            if stamps == self._stamps:
                return None
            self._configuration = self._read()
        except (OSError, ValueError) as error:
            if self._said.first(str(error)):
                _LOG.error("new TLS files cannot be used; the old certificates stay", why=str(error))
            return None
        self._stamps = stamps
        _LOG.info("TLS certificates read anew", certificate=str(self._files.certificate))
        return self._configuration

    def _paths(self) -> tuple[Path, ...]:
        files = self._files
        return (files.certificate, files.key, *([files.client_ca] if files.client_ca is not None else []))

    def _read_stamps(self) -> dict[Path, _Stamp]:
        """Return what changes when a file is written or put in another's place."""
        stats = {path: path.stat() for path in self._paths()}
        return {path: (stat.st_mtime_ns, stat.st_ino, stat.st_size) for path, stat in stats.items()}

    def _read(self) -> grpc.ServerCertificateConfiguration:
        """Read the files and check that they fit together.

        Raises:
            ValueError: They do not.
            OSError: One cannot be read.
        """
        for path in self._paths():
            if path.stat().st_size > MAX_FILE_BYTES:
                raise ValueError(f"{path} is larger than {MAX_FILE_BYTES} bytes")
        files = self._files
        check = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        try:
            # Without a password a key that has one would be asked for on the terminal.
            check.load_cert_chain(files.certificate, files.key, password="")
        except ssl.SSLError as error:
            raise ValueError(
                f"{files.certificate} and {files.key} are no certificate and its key ({error.reason})"
            ) from error
        authorities = None
        if files.client_ca is not None:
            authorities = files.client_ca.read_bytes()
            try:
                check.load_verify_locations(cadata=authorities.decode("ascii"))
            except (ssl.SSLError, UnicodeDecodeError) as error:
                raise ValueError(f"{files.client_ca} holds no PEM certificates of authorities") from error
        pair = (files.key.read_bytes(), files.certificate.read_bytes())
        return grpc.ssl_server_certificate_configuration([pair], root_certificates=authorities)
