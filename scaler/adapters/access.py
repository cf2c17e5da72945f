"""How a Prometheus is asked that wants more than its address: certificates, a token, a password, headers.

Files are read for every query: they are small, queries are few, and what was renewed is then used at once. TLS keeps
its context, and so its connections, for as long as the files say the same. Secrets stay in here: error texts name the
files alone.
"""

import base64
import ssl
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from requests.adapters import HTTPAdapter
from requests.utils import DEFAULT_CA_BUNDLE_PATH

from scaler.errors import PrometheusUnavailableError

MAX_FILE_BYTES: Final = 1024 * 1024
"""A bundle of all public authorities has a quarter of that."""
MAX_SECRET_BYTES: Final = 16 * 1024
"""A service account's token has 1 to 2 KiB; servers refuse headers that are much longer than this."""
# Shorter values are no secrets, and masking them would make holes in other words.
_MASKED_FROM_CHARS: Final = 6
_MASK: Final = "***"


@dataclass(frozen=True, slots=True)
class Access:
    """What a backend wants of whoever asks it.

    Args:
        ca_file: PEM of the authorities that are trusted; None is the public ones.
        client_cert_file: PEM of the certificate to show.
        client_key_file: PEM of its key.
        bearer_token_file: Holds the token to send.
        basic_auth_user: Whom to name by basic auth.
        basic_auth_password_file: Holds the user's password.
        headers: What else to send; values may be secrets.
    """

    ca_file: Path | None = None
    client_cert_file: Path | None = None
    client_key_file: Path | None = None
    bearer_token_file: Path | None = None
    basic_auth_user: str | None = None
    basic_auth_password_file: Path | None = None
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)


class Credentials:
    """What the files of an ``Access`` say by now; safe to use from several threads."""

    def __init__(self, access: Access) -> None:
        self._access = access
        self._lock = threading.Lock()
        self._secrets: frozenset[str] = frozenset(access.headers.values())
        self._context_from: tuple[bytes | None, ...] | None = None
        self._context: ssl.SSLContext | None = None

    def headers(self) -> dict[str, str]:
        """Return the headers to send.

        Raises:
            PrometheusUnavailableError: A file cannot be read or holds nothing that can be sent; the text names it.
        """
        access = self._access
        headers = dict(access.headers)
        if access.bearer_token_file is not None:
            token = _secret(access.bearer_token_file, "bearer token")
            headers["Authorization"] = f"Bearer {token}"
            self._keep_secret(token)
        elif access.basic_auth_user is not None and access.basic_auth_password_file is not None:
            password = _secret(access.basic_auth_password_file, "password")
            pair = base64.b64encode(f"{access.basic_auth_user}:{password}".encode()).decode("ascii")
            headers["Authorization"] = f"Basic {pair}"
            self._keep_secret(password, pair)
        return headers

    def tls(self) -> ssl.SSLContext:
        """Return the TLS context; it is another one once the files have changed.

        Raises:
            PrometheusUnavailableError: A file cannot be read or used; the text names it.
        """
        access = self._access
        files = (access.ca_file, access.client_cert_file, access.client_key_file)
        contents = tuple(None if path is None else _read(path, "TLS file", MAX_FILE_BYTES) for path in files)
        with self._lock:
            if self._context is None or contents != self._context_from:
                self._context = _context(access, contents[0])
                self._context_from = contents
            return self._context

    def masked(self, text: str) -> str:
        """Return ``text`` without the secrets that were sent: a server may repeat them."""
        for secret in sorted(self._secrets, key=len, reverse=True):
            if len(secret) >= _MASKED_FROM_CHARS:
                text = text.replace(secret, _MASK)
        return text

    def _keep_secret(self, *secrets: str) -> None:
        # Only the newest token matters: an answer comes back before the next query is sent with another.
        self._secrets = frozenset((*self._access.headers.values(), *secrets))


class TlsAdapter(HTTPAdapter):
    """Connections of one TLS context, and of nothing else: no other authority and no other certificate.

    Args:
        context: Verifies the server, and shows the client's certificate.
        connections: How many are kept.
    """

    def __init__(self, context: ssl.SSLContext, connections: int) -> None:
        self.context = context
        super().__init__(pool_maxsize=connections, max_retries=0)

    def init_poolmanager(self, connections: int, maxsize: int, block: bool = False, **pool_kwargs: object) -> None:  # noqa: FBT001, FBT002 - the base class's
        """Make connections with our context."""
        super().init_poolmanager(connections, maxsize, block=block, ssl_context=self.context, **pool_kwargs)

    def cert_verify(self, conn: object, url: str, verify: object, cert: object) -> None:
        """Leave verification to the context: the base class would trust the public authorities besides."""


def _context(access: Access, authorities: bytes | None) -> ssl.SSLContext:
    # It verifies certificates and host names. ssl.create_default_context would take an empty file for no file.
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    try:
        if authorities is None:
            context.load_verify_locations(DEFAULT_CA_BUNDLE_PATH)
        else:
            context.load_verify_locations(cadata=authorities.decode("ascii"))
    except (ssl.SSLError, ValueError) as error:
        raise PrometheusUnavailableError(f"{access.ca_file} holds no PEM certificates of authorities") from error
    if access.client_cert_file is not None and access.client_key_file is not None:
        try:
            # Without a password a key that has one would be asked for on the terminal.
            context.load_cert_chain(access.client_cert_file, access.client_key_file, password="")
        except (OSError, ValueError) as error:
            raise PrometheusUnavailableError(
                f"{access.client_cert_file} and {access.client_key_file} are no certificate and its key"
            ) from error
    return context


def _secret(path: Path, what: str) -> str:
    """Read a file of one line."""
    try:
        text = _read(path, f"{what} file", MAX_SECRET_BYTES).decode("utf-8").strip()
    except UnicodeDecodeError:
        text = ""
    if not text or not text.isprintable() or (what == "bearer token" and not text.isascii()):
        # Without "from": what cannot be read as text is part of a decoding error.
        raise PrometheusUnavailableError(f"the {what} file {path} does not hold one line of text") from None
    return text


def _read(path: Path, what: str, limit: int) -> bytes:
    try:
        with path.open("rb") as file:
            content = file.read(limit + 1)
    except OSError as error:
        raise PrometheusUnavailableError(f"the {what} {path} cannot be read: {error.strerror}") from error
    if len(content) > limit:
        raise PrometheusUnavailableError(f"the {what} {path} is larger than {limit} bytes")
    return content
