"""Where Prometheus-compatible backends are, how they are asked, and what of them is seen.

The settings ``prometheus_*`` and ``query_*`` are the backend named ``default``; ``backends`` in the settings file adds
others, with the same keys less the prefix. Values of headers may be secrets: no problem's text, and no log, has them.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Annotated, Final

from pydantic import Field, PlainSerializer, ValidationError, ValidationInfo, field_validator

from scaler.config.kinds import ByteSize, Duration, Kind, Text, WholeNumber, is_namespace, read_label_name, read_text
from scaler.config.problems import Given, escaped, nearest, quoted, sentences, several
from scaler.config.server_base import FilePath, Section, Url, without_credentials
from scaler.model import DEFAULT_BACKEND, LabelMatcher
from scaler.promql.narrow import narrowing_problem
from scaler.units import format_duration

BACKEND_LIMIT: Final = 32
"""Backends besides the default: each has threads and connections of its own."""
HEADER_LIMIT: Final = 16
HEADER_VALUE_LENGTH: Final = 1024
"""Characters of a header's value; a list of tenants is the longest in use."""
LABEL_LIMIT: Final = 16
"""External labels of one backend; they stand in every selector of every query."""
SECRETIVE: Final = frozenset({"backends", "prometheus_headers"})
"""Settings whose values hold secrets, and are shown in no problem's text."""
DEFAULT_PREFIX: Final = "prometheus_"
"""What the default backend's settings begin with."""

_HEADER_NAME: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,128}")  # RFC 9110's token
_HEADER_VALUE: Final = re.compile(r"[!-~](?:[ -~]*[!-~])?")
_OWN_HEADERS: Final = frozenset(
    {
        "accept-encoding",
        "connection",
        "content-encoding",
        "content-length",
        "content-type",
        "expect",
        "host",
        "proxy-authorization",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    }
)
_BUCKET_LABEL: Final = "le"
_BACKENDS_EXAMPLE: Final = """\
backends:
  eu-1:
    url: https://mimir.example/prometheus
    ca_file: /etc/vllm-scaler/mimir/ca.crt
    bearer_token_file: /etc/vllm-scaler/mimir/token
    headers:
      X-Scope-OrgID: serving
    external_labels:
      cluster: eu-1"""

Headers = Annotated[
    Mapping[str, str],
    Kind("mapping", "a mapping of header names to values"),
    PlainSerializer(sorted, when_used="json"),
]
ExternalLabels = Annotated[Mapping[str, str], Kind("mapping", "a mapping of label names to values")]


class Backend(Section):
    """One backend."""

    url: Url = Field(description="Where the HTTP API is, without `/api/v1`.")
    ca_file: FilePath | None = Field(default=None, description="The CA of its certificate, PEM.")
    client_cert_file: FilePath | None = Field(default=None, description="The certificate to show to it, PEM.")
    client_key_file: FilePath | None = Field(default=None, description="The private key of that certificate, PEM.")
    bearer_token_file: FilePath | None = Field(default=None, description="The token to send.")
    basic_auth_user: Text | None = Field(default=None, description="The user to name.")
    basic_auth_password_file: FilePath | None = Field(default=None, description="The user's password.")
    headers: Headers = Field(
        default={}, description="Headers to send with every query.", json_schema_extra={"default": "none"}
    )
    external_labels: ExternalLabels = Field(
        default={}, description="Labels that every series must have.", json_schema_extra={"default": "none"}
    )
    timeout: Duration = Field(
        default=10.0,
        ge=0.1,
        le=300,
        description="How long all its queries of one evaluation may take together.",
        json_schema_extra={"default": "`query_timeout`"},
    )
    concurrency: WholeNumber = Field(
        default=4,
        ge=1,
        le=64,
        description="How many of its queries run at once.",
        json_schema_extra={"default": "`query_concurrency`"},
    )
    max_response_bytes: ByteSize = Field(
        default=64 << 20,
        ge=64 << 10,
        le=1 << 30,
        description="The longest answer that is read.",
        json_schema_extra={"default": "`max_response_bytes`"},
    )

    @property
    def external(self) -> tuple[LabelMatcher, ...]:
        """The external labels as matchers."""
        return tuple(LabelMatcher(label, "=", value) for label, value in sorted(self.external_labels.items()))

    @field_validator("headers", mode="before")
    @classmethod
    def _headers_can_be_sent(cls, value: object, info: ValidationInfo) -> Mapping[str, str]:
        return read_headers(value, Given.of(info).name("headers"))

    @field_validator("external_labels", mode="before")
    @classmethod
    def _labels_are_labels(cls, value: object, info: ValidationInfo) -> Mapping[str, str]:
        given = Given.of(info)
        return read_external_labels(value, given.name("external_labels"), given.namespace_label)


BACKEND_FIELDS: Final = Backend.model_fields
"""The keys of one backend."""


class Access(Section):
    """How the default backend is asked, where it wants more than its address.

    Certificates are verified, by the authorities that Python's certifi knows or by `prometheus_ca_file` alone.
    Redirects are not followed, and proxies of the environment are not used. Files must be there at the start, and are
    read again when they change. One that cannot be read later makes the queries of its backend fail, and those alone.
    """

    prometheus_ca_file: FilePath | None = Field(
        default=None,
        description="The CA of Prometheus' certificate, PEM. It is trusted in place of the public ones.",
        examples=["/etc/vllm-scaler/prometheus/ca.crt"],
    )
    prometheus_client_cert_file: FilePath | None = Field(
        default=None,
        description="The certificate to show to Prometheus, PEM, where it asks for one (mTLS).",
        examples=["/etc/vllm-scaler/prometheus/tls.crt"],
    )
    prometheus_client_key_file: FilePath | None = Field(
        default=None,
        description="The private key of that certificate, PEM.",
        examples=["/etc/vllm-scaler/prometheus/tls.key"],
    )
    prometheus_bearer_token_file: FilePath | None = Field(
        default=None,
        description="A file with the token to send as `Authorization: Bearer`. It is read for every query, so a token"
        " that is renewed in place is used at once.",
        examples=["/var/run/secrets/kubernetes.io/serviceaccount/token"],
    )
    prometheus_basic_auth_user: Text | None = Field(
        default=None,
        description="The user to name by basic auth, in place of a token.",
        examples=["vllm-scaler"],
    )
    prometheus_basic_auth_password_file: FilePath | None = Field(
        default=None,
        description="A file with that user's password. It is read for every query.",
        examples=["/etc/vllm-scaler/prometheus/password"],
    )
    prometheus_headers: Headers = Field(
        default={},
        description=f"Headers to send with every query, such as a tenant's; at most {HEADER_LIMIT}, of"
        f" {HEADER_VALUE_LENGTH} characters each. Values are never logged. `Authorization` is not among them: it comes"
        " from the files.",
        examples=["prometheus_headers:\n  X-Scope-OrgID: serving"],
        json_schema_extra={"default": "none"},
    )
    prometheus_external_labels: ExternalLabels = Field(
        default={},
        description="Labels that every series must have, whatever it is of: vLLM, kube-state-metrics, DCGM, gateways,"
        " named queries. They are added to each selector of each query, so that a store of many clusters shows one"
        f" alone. At most {LABEL_LIMIT}.",
        examples=["prometheus_external_labels:\n  cluster: eu-1"],
        json_schema_extra={"default": "none"},
    )

    @field_validator("prometheus_headers", mode="before")
    @classmethod
    def _headers_can_be_sent(cls, value: object, info: ValidationInfo) -> Mapping[str, str]:
        return read_headers(value, Given.of(info).name("prometheus_headers"))

    @field_validator("prometheus_external_labels", mode="before")
    @classmethod
    def _labels_are_labels(cls, value: object, info: ValidationInfo) -> Mapping[str, str]:
        where = Given.of(info).name("prometheus_external_labels")
        return read_external_labels(value, where, info.data.get("namespace_label", "namespace"))


class Backends(Section):
    """Further Prometheus-compatible backends, which triggers choose by name (`prometheus`).

    They stand in the settings file only, so that nobody but the operator of the service decides who is asked. Each is
    asked by itself: one that is slow or dead keeps the pools that are read from it, and no others.
    """

    backends: Annotated[Mapping[str, Backend], Kind("mapping", "a mapping of names to backends")] = Field(
        default={},
        description=f"Backends by name; at most {BACKEND_LIMIT}. A name is 1 to 63 lower-case letters, digits and `-`."
        f" `{DEFAULT_BACKEND}` is the one that `prometheus_url` and the settings beside it describe.",
        examples=[_BACKENDS_EXAMPLE],
        json_schema_extra={"default": "none"},
    )

    @field_validator("backends", mode="before")
    @classmethod
    def _backends_can_be_asked(cls, value: object, info: ValidationInfo) -> Mapping[str, Backend]:
        return _read_backends(value, info)


def read_headers(value: object, where: str) -> Mapping[str, str]:
    """Read headers; no problem's text has a value.

    Args:
        value: Values by name.
        where: What the user calls the setting.

    Raises:
        PydanticCustomError: With a sentence for each thing that is wrong.
    """
    if not isinstance(value, Mapping):
        raise several([f"{where} is not a mapping of header names to values"])
    headers = {str(name): item.strip() if isinstance(item, str) else "" for name, item in value.items()}
    problems = [f"{where}: {problem}" for name, item in headers.items() if (problem := _header_problem(name, item))]
    folded = [name.lower() for name in headers]
    problems += [f"{where}: {escaped(name)} is there twice" for name in sorted(set(folded)) if folded.count(name) > 1]
    if len(headers) > HEADER_LIMIT:
        problems.append(f"{where} has {len(headers)} headers, and {HEADER_LIMIT} are allowed")
    if problems:
        raise several(problems)
    return headers


def read_external_labels(value: object, where: str, namespace_label: str) -> Mapping[str, str]:
    """Read external labels.

    Args:
        value: Values by label.
        where: What the user calls the setting.
        namespace_label: The label that holds a series' namespace, which each pool has its own value of.

    Raises:
        PydanticCustomError: With a sentence for each thing that is wrong.
    """
    if not isinstance(value, Mapping):
        raise several([f"{where} is not a mapping of label names to values"])
    problems = [f"{where}: {problem}" for name in value if (problem := _label_problem(str(name), namespace_label))]
    labels: dict[str, str] = {}
    for name, item in value.items():
        try:
            labels[str(name)] = read_text(item if isinstance(item, str) else "")
        except ValueError:
            problems.append(
                f"{where}: the value of {escaped(str(name))} is not one line of text of 1 to 253 characters"
            )
    if len(value) > LABEL_LIMIT:
        problems.append(f"{where} has {len(value)} labels, and {LABEL_LIMIT} are allowed")
    if problems:
        raise several(problems)
    return labels


def access_problems(given: Given, prefix: str = "") -> Iterator[str]:
    """Yield what does not go together in the settings of one backend.

    Args:
        given: What was written.
        prefix: What the keys begin with.
    """

    def has(key: str) -> bool:
        return prefix + key in given.texts

    def name(key: str) -> str:
        return given.name(prefix + key)

    for one, other in (
        ("client_cert_file", "client_key_file"),
        ("client_key_file", "client_cert_file"),
        ("basic_auth_user", "basic_auth_password_file"),
        ("basic_auth_password_file", "basic_auth_user"),
    ):
        if has(one) and not has(other):
            yield f"{given.show(prefix + one, '')} needs {prefix}{other} beside it"
    if has("bearer_token_file") and (has("basic_auth_user") or has("basic_auth_password_file")):
        yield f"{name('bearer_token_file')} and basic auth are given together: keep one"
    if ":" in given.texts.get(f"{prefix}basic_auth_user", ""):
        yield f"{given.show(f'{prefix}basic_auth_user', '')} has a colon, which no user of basic auth may have"
    url = given.texts.get(f"{prefix}url", "http:")
    for key in ("ca_file", "client_cert_file", "client_key_file"):
        if has(key) and url.lower().startswith("http:"):
            yield f"{name(key)} has no effect: {given.show(f'{prefix}url', 'http://127.0.0.1:9090')} is without TLS"


def narrowing_problems(backends: Mapping[str, Backend], queries: Mapping[str, str]) -> Iterator[str]:
    """Yield why a backend's external labels cannot be added to a named query."""
    for name, backend in backends.items():
        for query, expr in queries.items():
            if backend.external and (problem := narrowing_problem(expr, backend.external)):
                yield f"named query {query!r} on backend {name}: {problem}"


def _read_backends(value: object, info: ValidationInfo) -> Mapping[str, Backend]:
    where = Given.of(info).name("backends")
    if not isinstance(value, Mapping):
        raise several([f"{where} is not a mapping of names to backends"])
    problems: list[str] = []
    if len(value) > BACKEND_LIMIT:
        problems.append(f"{where} has {len(value)} backends, and {BACKEND_LIMIT} are allowed")
    backends: dict[str, Backend] = {}
    for key, item in list(value.items())[:BACKEND_LIMIT]:
        name = str(key)
        if not is_namespace(name):
            problems.append(f"{where}: the name {quoted(name)} is not 1 to 63 lower-case letters, digits and -")
        elif name == DEFAULT_BACKEND:
            problems.append(f"{where}: {DEFAULT_BACKEND} is what prometheus_url and the settings beside it describe")
        elif isinstance(item, Backend):
            backends[name] = item
        elif not isinstance(item, Mapping):
            problems.append(f"{where}.{name} is not a mapping: give it a url and whatever else it needs")
        elif (backend := _read_backend(item, f"{where}.{name}", info, problems)) is not None:
            backends[name] = backend
    if problems:
        raise several(problems)
    return backends


def _read_backend(
    values: Mapping[object, object], where: str, info: ValidationInfo, problems: list[str]
) -> Backend | None:
    """Read one backend; what is wrong goes to ``problems``."""
    known = {str(key): value for key, value in values.items() if str(key) in BACKEND_FIELDS and value not in ("", None)}
    for key in values:
        if str(key) not in BACKEND_FIELDS:
            meant = nearest(str(key), BACKEND_FIELDS)
            problems.append(f"{where}.{escaped(str(key))} is not known" + (f": did you mean {meant}?" if meant else ""))
    given = Given(
        texts={key: _shown(key, value) for key, value in known.items()},
        names={key: f"{where}.{key}" for key in BACKEND_FIELDS},
        namespace_label=info.data.get("namespace_label", "namespace"),
    )
    inherited = {
        key: info.data[setting]
        for key, setting in (
            ("timeout", "query_timeout"),
            ("concurrency", "query_concurrency"),
            ("max_response_bytes", "max_response_bytes"),
        )
        if setting in info.data
    }
    problems += access_problems(given)
    try:
        backend = Backend.model_validate(inherited | known, context=given)
    except ValidationError as error:
        problems += sentences(error, BACKEND_FIELDS, given)
        return None
    interval = info.data.get("evaluation_interval")
    if interval is not None and backend.timeout > interval:
        shown = given.show("timeout", format_duration(backend.timeout))
        limit = Given.of(info).show("evaluation_interval", format_duration(interval))
        problems.append(f"{shown} must be at most {limit}")
    return backend


def _shown(key: str, value: object) -> str:
    """Return a value's text with what may be secret taken out."""
    if isinstance(value, (Mapping, list)):
        return "…"
    return without_credentials(str(value)) if key == "url" else str(value)


def _header_problem(name: str, value: str) -> str | None:
    if _HEADER_NAME.fullmatch(name) is None:
        return f"{quoted(name)} is not a header's name"
    if name.lower() == "authorization":
        return f"{name} does not belong here: give bearer_token_file, or basic_auth_user and basic_auth_password_file"
    if name.lower() in _OWN_HEADERS:
        return f"{name} is set by the service itself"
    if len(value) > HEADER_VALUE_LENGTH or _HEADER_VALUE.fullmatch(value) is None:
        return f"the value of {name} is not one line of 1 to {HEADER_VALUE_LENGTH} ASCII characters"
    return None


def _label_problem(name: str, namespace_label: str) -> str | None:
    try:
        read_label_name(name)
    except ValueError:
        return f"{quoted(name)} is not a Prometheus label name"
    if name in {namespace_label, _BUCKET_LABEL}:
        return f"{name} is a label that the queries themselves need; leave it out"
    return None
