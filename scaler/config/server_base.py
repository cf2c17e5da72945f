"""What the sections of the settings share: their base, and kinds of value that say where something is."""

import ipaddress
import re
from pathlib import Path
from typing import Annotated, ClassVar
from urllib.parse import urlsplit

from pydantic import BaseModel, BeforeValidator, ConfigDict

from scaler.config.kinds import Kind, is_kubernetes_name, read_text, read_whole_number
from scaler.config.problems import detail


def without_credentials(url: str) -> str:
    """Return ``url`` with everything before its last @ masked, so that it may be shown."""
    _, at, rest = url.rpartition("@")
    return f"***@{rest}" if at else url


def _read_url(value: object) -> str:
    text = str(value).strip()
    url = urlsplit(text)
    if url.username is not None or url.password is not None:
        raise detail(
            "must not hold a user name or password, which process lists and logs would show: give them by basic auth's"
            " settings, the password in a file"
        )
    bad = url.scheme not in {"http", "https"} or not url.hostname or url.port == 0 or url.query or url.fragment
    if bad or re.fullmatch(r"[!-~]{1,1024}", text) is None:
        raise ValueError("not an http URL")
    return text.rstrip("/")


def _read_host(value: object) -> str:
    text = str(value).strip()
    if is_kubernetes_name(text.lower()):
        return text
    bare = text[1:-1] if text.startswith("[") and text.endswith("]") else text
    return str(ipaddress.ip_address(bare))


Url = Annotated[
    str,
    BeforeValidator(_read_url),
    Kind("URL", "an http or https URL without a query, such as http://prometheus.monitoring:9090"),
]
Host = Annotated[
    str, BeforeValidator(_read_host), Kind("address", "an IP address or host name, without a port, such as 0.0.0.0")
]
Port = Annotated[int, BeforeValidator(read_whole_number), Kind("port", "a port number")]
FilePath = Annotated[Path, BeforeValidator(read_text), Kind("path", "a path to a file")]


class Section(BaseModel):
    """What the sections of the settings have in common."""

    model_config: ClassVar[ConfigDict] = ConfigDict(frozen=True, extra="forbid", validate_default=True)
