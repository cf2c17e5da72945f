"""The one error tree. Adapters translate third-party errors into it with ``from``; who raises does not log."""


class ScalerError(Exception):
    """Anything this project raises on purpose; its text says what, where and what to do."""


class ConfigError(ScalerError):
    """Settings or trigger metadata that cannot be used.

    Args:
        problems: One sentence for each thing that is wrong: key, value, what is allowed, nearest known key.
        text: All of them as one bounded message; without it, the problems joined.
    """

    def __init__(self, problems: tuple[str, ...], *, text: str = "") -> None:
        self.problems = problems
        super().__init__(text or "; ".join(problems))


class PrometheusError(ScalerError):
    """A query that did not give a complete and readable answer. Its signals are missing, never zero."""


class PrometheusTimeoutError(PrometheusError):
    """No answer within the deadline."""


class PrometheusRejectedError(PrometheusError):
    """Prometheus refused the query (HTTP 4xx): asking again will not help."""


class PrometheusUnavailableError(PrometheusError):
    """No connection, or the server failed (HTTP 5xx)."""


class PrometheusPartialError(PrometheusError):
    """An answer with warnings: some of the data behind it was not there (Thanos, Mimir)."""


class PrometheusDecodeError(PrometheusError):
    """An answer that is not what the HTTP API promises: HTML, cut-off JSON, or another result type."""


class PrometheusOversizeError(PrometheusError):
    """More than may be answered at once, by our limit or the server's: less must be asked for."""


class LimitError(ScalerError):
    """A bound of this service was reached; its text names the setting that moves it."""


class StartError(ScalerError):
    """The service cannot start: a port in use, a certificate that cannot be read."""
