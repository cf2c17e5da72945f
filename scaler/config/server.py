"""The settings of the service: what each one means, its default and its range.

This is the one source of truth: the flags of ``vllm-scaler serve``, validation, error texts and
docs/reference/settings.md all follow from it. Durations are seconds. ``scaler.config.sources`` reads the settings.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Final, Literal

from pydantic import BeforeValidator, Field, ValidationInfo, field_validator

from scaler.config.backends import Access, Backend, Backends
from scaler.config.kinds import (
    ByteSize,
    Duration,
    Kind,
    LabelName,
    WholeNumber,
    kind_of,
    read_word,
)
from scaler.config.problems import Given, cross_field
from scaler.config.queries import NamedQueries, read_named_queries
from scaler.config.server_base import FilePath, Host, Port, Section, Url
from scaler.model import DEFAULT_BACKEND
from scaler.promql.named import MAX_NAMED_QUERIES, MAX_QUERY_CHARS
from scaler.units import format_duration

_QUERIES_EXAMPLE: Final = """\
queries:
  gateway_queue: sum by (namespace, model_name) (my_gateway_queued_requests)
  embedding_backlog: sum by (namespace, deployment) (max_over_time(my_embedding_backlog[1m]))"""
DEFAULT_QUERY_TIMEOUT_S: Final = 10.0
"""Prometheus gives up after 2 min, but what is answered later than this is no basis for the tick that asked."""


LogLevel = Annotated[
    Literal["debug", "info", "warning", "error"],
    BeforeValidator(read_word),
    Kind("one of a few words", "debug, info, warning or error"),
]
LogFormat = Annotated[
    Literal["json", "console"], BeforeValidator(read_word), Kind("one of a few words", "json or console")
]


class Evaluation(Section):
    """How pools are evaluated: every interval, all of them, with a handful of queries.

    Prometheus may be anything that answers its HTTP API: Prometheus, Thanos, Mimir, VictoriaMetrics.
    """

    prometheus_url: Url = Field(
        default="http://127.0.0.1:9090",
        description="Where the HTTP API of Prometheus is, without `/api/v1`. This is the backend named `default`, which"
        " pools are read from whose trigger names no other. Credentials do not belong in it.",
        examples=["http://prometheus.monitoring:9090"],
    )
    evaluation_interval: Duration = Field(
        default=15.0,
        ge=1,
        le=300,
        description="Time between evaluations (ticks), which fall on its multiples in Unix time. The HPA looks every"
        " 15 s, and a window of 4 ticks is 1 min at that; change it together with the windows of all triggers.",
        examples=["30s"],
    )
    query_timeout: Duration = Field(
        default_factory=lambda data: min(
            DEFAULT_QUERY_TIMEOUT_S, data.get("evaluation_interval", DEFAULT_QUERY_TIMEOUT_S)
        ),
        ge=0.1,
        le=300,
        description="How long all queries of one evaluation may take together; at most the evaluation interval. What"
        " is not answered by then is missing.",
        examples=["8s"],
        json_schema_extra={"default": "10 s, or the evaluation interval if that is shorter"},
    )
    query_concurrency: WholeNumber = Field(
        default=4,
        ge=1,
        le=64,
        description="How many queries run at once. Raise it if evaluations take long and Prometheus has room.",
        examples=["8"],
    )
    max_response_bytes: ByteSize = Field(
        default=64 << 20,
        ge=64 << 10,
        le=1 << 30,
        description="The longest answer to one query that is read. 64 MiB hold about 200 000 series.",
        examples=["128MiB"],
    )
    max_hold_age: Duration = Field(
        default=600.0,
        ge=2,
        le=86_400,
        description="How long the last answer is repeated while data is missing. After that KEDA gets an error, and"
        " keeps the replicas or applies the ScaledObject's fallback. At least two evaluation intervals.",
        examples=["5m"],
    )
    namespace_label: LabelName = Field(
        default="namespace",
        description="The label that holds the namespace of a vLLM series. Pools see the series of their own namespace"
        " only, so it must be set by the scrape configuration and not by the target.",
        examples=["kubernetes_namespace"],
    )
    pod_label: LabelName = Field(
        default="pod",
        description="The label that holds the pod of a vLLM series: one pod is one replica.",
        examples=["kubernetes_pod_name"],
    )
    instance_label: LabelName = Field(
        default="instance",
        description="The label that holds the scraped address; it tells replicas apart that have no pod label.",
        examples=["instance"],
    )

    @field_validator("query_timeout")
    @classmethod
    def _within_interval(cls, value: float, info: ValidationInfo) -> float:
        interval = info.data.get("evaluation_interval")
        if interval is not None and value > interval:
            shown = Given.of(info).show("query_timeout", format_duration(value))
            raise cross_field(f"{shown} must be at most {_interval(info)}")
        return value

    @field_validator("max_hold_age")
    @classmethod
    def _spans_two_intervals(cls, value: float, info: ValidationInfo) -> float:
        interval = info.data.get("evaluation_interval")
        if interval is not None and value < 2 * interval:
            shown = Given.of(info).show("max_hold_age", format_duration(value))
            raise cross_field(f"{shown} must be at least twice {_interval(info)}")
        return value


class Serving(Section):
    """How KEDA is served, and what bounds a client that asks too much."""

    grpc_host: Host = Field(
        default="[::]",
        description="The address on which KEDA is served. The default is all of them, IPv4 and IPv6.",
        examples=["127.0.0.1"],
    )
    grpc_port: Port = Field(
        default=50051,
        ge=0,
        le=65535,
        description="The port on which KEDA is served, the one in the trigger's `scalerAddress`. 0 takes a free one.",
        examples=["9090"],
    )
    first_answer_timeout: Duration = Field(
        default=2.5,
        ge=0.1,
        le=2.9,
        description="How long the first call for a pool waits for its first evaluation before it gets an error. In this"
        " time after it, calls wait for the pool's past too. KEDA sets no deadline of its own, and everything else of"
        " the ScaledObject waits meanwhile.",
        examples=["1s"],
    )
    max_pools: WholeNumber = Field(
        default=20_000,
        ge=1,
        le=1_000_000,
        description="How many pools are evaluated at most; triggers beyond that get an error.",
        examples=["2000"],
    )
    pool_idle_timeout: Duration = Field(
        default=600.0,
        ge=60,
        le=86_400,
        description="After this time without a call from KEDA a pool is forgotten. It must be longer than the longest"
        " `pollingInterval` of any ScaledObject.",
        examples=["30m"],
    )
    max_concurrent_rpcs: WholeNumber = Field(
        default=50_000,
        ge=10,
        le=1_000_000,
        description="How many calls and open streams are served at once; more are refused. At most half of them are"
        " streams, of which a trigger of type external-push holds two.",
        examples=["1000"],
    )
    max_message_bytes: ByteSize = Field(
        default=256 << 10,
        ge=64 << 10,
        le=1 << 20,
        description="The largest message that is read. Trigger metadata is all that KEDA sends, a few KiB.",
        examples=["64KiB"],
    )
    max_connection_age: Duration = Field(
        default=300.0,
        ge=10,
        le=86_400,
        description="After this time a connection is closed in good order, so that KEDA looks up the Service again and"
        " finds new replicas of the scaler.",
        examples=["10m"],
    )
    max_connection_age_grace: Duration = Field(
        default=1800.0,
        ge=1,
        le=86_400,
        description="How long calls and streams on a connection that is being closed for its age may still take. New"
        " calls go to another connection meanwhile; a stream that ends for it is opened again by KEDA, which is work"
        " for KEDA too, so keep it long.",
        examples=["10m"],
    )
    shutdown_grace: Duration = Field(
        default=10.0,
        ge=0,
        le=300,
        description="How long calls may still take when the service stops. Keep it below the pod's"
        " `terminationGracePeriodSeconds`.",
        examples=["20s"],
    )

    @field_validator("grpc_host")
    @classmethod
    def _bracketed(cls, value: str) -> str:
        return f"[{value}]" if ":" in value else value


class Queries(Section):
    """PromQL of your own that triggers may use by name, as a signal (`customQueries`) or to wake a pool at zero.

    It stands in the settings file only, so that nobody but the operator of the service decides what is asked. Each
    query that some trigger names runs once for all pools, and gives a row for each of them. A pool takes the one row
    whose labels are its own: the namespace (`namespace_label`) always, and those that the row has of `model_name`, the
    workload's kind (`deployment`, `statefulset`, `leaderworkerset`) and `workload`. No pool sees a row of another
    namespace.
    """

    queries: NamedQueries = Field(
        default={},
        description="PromQL by name, each giving an instant vector of 0 or more. A name is 1 to 63 lower-case letters,"
        f" digits and `_`, and begins with a letter; there are at most {MAX_NAMED_QUERIES}, of at most"
        f" {MAX_QUERY_CHARS} characters each. For a signal the value is the pool's total. NaN is no traffic; a pool"
        " without a row has no value, so let a query that wakes pools give 0 rather than nothing.",
        examples=[_QUERIES_EXAMPLE],
        json_schema_extra={"default": "none"},
    )

    @field_validator("queries", mode="before")
    @classmethod
    def _queries_are_promql(cls, value: object, info: ValidationInfo) -> Mapping[str, str]:
        return read_named_queries(value, Given.of(info).name("queries"))


class Tls(Section):
    """TLS towards KEDA. Without a certificate the service speaks plaintext.

    With a client CA it serves only clients that show a certificate of that CA. Files are read again when they change.
    """

    tls_cert_file: FilePath | None = Field(
        default=None,
        description="The server's certificate chain, PEM. It must name the host in the trigger's `scalerAddress`.",
        examples=["/etc/vllm-scaler/tls/tls.crt"],
    )
    tls_key_file: FilePath | None = Field(
        default=None,
        description="The private key of the certificate, PEM.",
        examples=["/etc/vllm-scaler/tls/tls.key"],
    )
    tls_client_ca_file: FilePath | None = Field(
        default=None,
        description="The CA of client certificates, PEM. Set it so that nobody but KEDA can ask.",
        examples=["/etc/vllm-scaler/tls/ca.crt"],
    )

    @field_validator("tls_key_file")
    @classmethod
    def _key_with_certificate(cls, key: Path | None, info: ValidationInfo) -> Path | None:
        if "tls_cert_file" in info.data and (key is None) != (info.data["tls_cert_file"] is None):
            given, missing = ("tls_cert_file", "tls_key_file") if key is None else ("tls_key_file", "tls_cert_file")
            raise cross_field(f"{Given.of(info).show(given, '')} needs {missing} beside it")
        return key

    @field_validator("tls_client_ca_file")
    @classmethod
    def _ca_with_certificate(cls, ca: Path | None, info: ValidationInfo) -> Path | None:
        if ca is not None and "tls_cert_file" in info.data and info.data["tls_cert_file"] is None:
            raise cross_field(f"{Given.of(info).show('tls_client_ca_file', '')} needs tls_cert_file beside it")
        return ca


class Operation(Section):
    """How the service is watched: probes and its own metrics over HTTP, and logs on standard error."""

    http_host: Host = Field(
        default="0.0.0.0",  # noqa: S104 - probes and Prometheus come from outside the pod
        description="The address of probes and metrics. The default is all of IPv4; use `::` where there is only IPv6.",
        examples=["::"],
    )
    http_port: Port = Field(
        default=8080,
        ge=0,
        le=65535,
        description="The port of probes (`/healthz`, `/readyz`) and metrics (`/metrics`). 0 takes a free one.",
        examples=["9091"],
    )
    log_level: LogLevel = Field(
        default="info",
        description="The lowest level that is logged. Each change of what is decided, or why, is logged at `info`.",
        examples=["debug"],
    )
    log_format: LogFormat = Field(
        default="json",
        description="`json` for machines, one object a line; `console` for people.",
        examples=["console"],
    )


SECTIONS: Final[tuple[tuple[str, type[Section]], ...]] = (
    ("Evaluation", Evaluation),
    ("Access to Prometheus", Access),
    ("Further backends", Backends),
    ("Named queries", Queries),
    ("Serving KEDA", Serving),
    ("TLS", Tls),
    ("Operation", Operation),
)
"""The sections in the order of the reference page, with their titles."""


# pydantic reads fields from the last class to the first, and a check can look only at fields that were read before.
class ServerSettings(Backends, Access, Evaluation, Queries, Serving, Tls, Operation):
    """All settings of the service, read and checked."""

    def every_backend(self) -> dict[str, Backend]:
        """Return all backends by name, the default among them."""
        default = Backend.model_construct(
            url=self.prometheus_url,
            ca_file=self.prometheus_ca_file,
            client_cert_file=self.prometheus_client_cert_file,
            client_key_file=self.prometheus_client_key_file,
            bearer_token_file=self.prometheus_bearer_token_file,
            basic_auth_user=self.prometheus_basic_auth_user,
            basic_auth_password_file=self.prometheus_basic_auth_password_file,
            headers=self.prometheus_headers,
            external_labels=self.prometheus_external_labels,
            timeout=self.query_timeout,
            concurrency=self.query_concurrency,
            max_response_bytes=self.max_response_bytes,
        )
        return {DEFAULT_BACKEND: default, **self.backends}


FIELDS: Final = {name: field for _, section in SECTIONS for name, field in section.model_fields.items()}
"""Every setting by name, in the order of the reference page."""
FILE_ONLY: Final = frozenset(name for name, field in FIELDS.items() if kind_of(field).name == "mapping")
"""The settings that are no single values, so that neither a flag nor an environment variable can hold them."""
FLAGS: Final = {name: field for name, field in FIELDS.items() if name not in FILE_ONLY}
"""The settings that have a flag and an environment variable."""


def _interval(info: ValidationInfo) -> str:
    return Given.of(info).show("evaluation_interval", format_duration(info.data["evaluation_interval"]))
