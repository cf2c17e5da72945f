"""What goes to Prometheus and what comes back, as values; and the names of the labels that a scrape attaches."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

from scaler.errors import ConfigError, PrometheusError

LABEL_NAME: Final = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")
"""What PromQL takes for a label's name without quoting it."""


@dataclass(frozen=True, slots=True)
class Query:
    """One instant query.

    Args:
        name: What is asked: replicas, freshness, latency, workload or the name of an extra. Stable, for own metrics.
        expr: The PromQL.
    """

    name: str
    expr: str


@dataclass(slots=True)
class Sample:
    """One element of an instant vector. Not frozen, because making a frozen one takes three times as long.

    Args:
        labels: Names and values of the element's labels.
        value: May be NaN or infinite.
        at: Instant of the evaluation, in Unix seconds; not when the value was scraped.
    """

    labels: Mapping[str, str]
    value: float
    at: float


Answer: TypeAlias = tuple[Sample, ...] | PrometheusError
"""The elements of the vector, or why there are none: a failed query is a value, not an interruption."""


@dataclass(frozen=True, slots=True)
class LabelNames:
    """The labels that the scrape configuration puts on every target.

    Args:
        namespace: Names the replica's Kubernetes namespace.
        pod: Names the replica's pod.
        instance: Names the scraped address.

    Raises:
        ConfigError: A name is not one that PromQL takes for a label.
    """

    namespace: str = "namespace"
    pod: str = "pod"
    instance: str = "instance"

    def __post_init__(self) -> None:
        problems = tuple(
            f"{setting} label {name!r} is not a label name: use letters, digits and _, not beginning with a digit"
            for setting, name in (("namespace", self.namespace), ("pod", self.pod), ("instance", self.instance))
            if not LABEL_NAME.fullmatch(name)
        )
        if problems:
            raise ConfigError(problems)
