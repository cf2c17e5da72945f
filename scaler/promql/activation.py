"""Extras that wake a pool at zero replicas: what waits for its model in front of it, where no engine can report.

The series are those of a router or gateway in the pool's namespace. They carry no pod of the pool and no label of the
pool's own choice, so only the namespace and the model count.

A series that does not exist says nothing by itself: both emitters make the one of a model with its first request. It
reads as 0 where another series proves that requests would be counted, and is missing where none does.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from scaler.model import GATEWAY_ACTIVATION, ROUTER_ACTIVATION, Absent, Extra
from scaler.promql.batches import Batch, Identity, Owners, batched
from scaler.promql.escape import one_of
from scaler.promql.extra_query import Reader
from scaler.promql.notes import Notes
from scaler.promql.queries import METRIC_LABEL, duration, union
from scaler.promql.query import LabelNames, Query, Sample
from scaler.promql.rows import best, by_signal, reading

_MODEL: Final = "model"
"""Label with the model in the rows of both."""

# Of vLLM's production stack. The counter counts requests that no replica can take, too.
_INCOMING: Final = "vllm:num_incoming_requests_total"
# The router's own; it has this from its first scrape on, whatever it routes to.
_ROUTER_RUNS: Final = "router_cpu_usage_percent"

# Of the inference gateway's endpoint picker; releases 0.9 and 0.10 export the new name and the old one.
_QUEUE: Final = "llm_d_epp_flow_control_queue_size"
_OLD_QUEUE: Final = "inference_extension_flow_control_queue_size"
_REQUESTED_MODEL: Final = "model_name"
_TARGET_MODEL: Final = "target_model_name"
_QUEUE_LABELS: Final = ("fairness_id", "priority", "inference_pool", _REQUESTED_MODEL, _TARGET_MODEL)
# Set on every dispatch cycle, each millisecond, from the start (0.9 on) or from the first request (before).
_SATURATION: Final = "llm_d_epp_flow_control_pool_saturation"
_OLD_SATURATION: Final = "inference_extension_flow_control_pool_saturation"
# There whether flow control is on or off, and with no endpoint, too.
_READY: Final = "llm_d_epp_ready_endpoints"
_OLD_READY: Final = "inference_pool_ready_pods"

_REQUESTS: Final = "requests"
_RUNS: Final = "runs"
_QUEUED_FOR: Final = "queued_for"
_QUEUED_AS: Final = "queued_as"
_FLOW_CONTROL: Final = "flow_control"
_PICKER: Final = "picker"
_OLD_PICKER: Final = "old_picker"


@dataclass(frozen=True, slots=True)
class RouterQuery:
    """Requests at the production stack's router, by model: how many came within the rate window.

    The series of a model is born at 1 by its first request after a start of the router, where ``increase`` sees
    nothing rise. So it is the count now less the count one window ago, and where there was none then, or a restart
    has made it smaller, the count now. A gap in the scrapes can so wake a pool once too often, never too rarely.
    """

    rate_window_s: float

    @property
    def name(self) -> str:
        """The extra's name."""
        return ROUTER_ACTIVATION

    def batches(self, owners: Owners, names: LabelNames) -> Iterator[Batch]:
        """Write the queries that together cover some pools, known by namespace and model."""
        return batched(owners, (names.namespace, _MODEL), partial(self._query, names), _and_of_the_namespace)

    def read(self, rows: Sequence[Sample], reader: Reader, notes: Notes) -> Extra:
        """Read the count, or 0 from a router that has not seen the model yet."""
        found = by_signal(rows)
        if _REQUESTS in found:
            return Extra(reading(found[_REQUESTS]))
        if _RUNS in found:
            return Extra(0.0)
        notes.add(
            f"{self.name} is missing: neither {_INCOMING} of model {reader.locator.model_name} nor {_ROUTER_RUNS} in "
            f"namespace {reader.locator.namespace}: the router is not scraped"
        )
        return Extra(Absent.MISSING)

    def _query(self, names: LabelNames, identities: Sequence[Identity]) -> Query:
        namespaces, models = _scopes(names, identities)
        count = f"{_INCOMING}{{{namespaces},{one_of(_MODEL, models)}}}"
        came = f"(({count} - {count} offset {duration(self.rate_window_s)}) >= 0) or {count}"
        each = f"max by ({names.namespace},{_MODEL},{names.pod},{names.instance}) ({came})"
        return Query(
            self.name,
            union(
                {
                    _REQUESTS: f"sum by ({names.namespace},{_MODEL}) ({each})",
                    _RUNS: f"count by ({names.namespace}) ({_ROUTER_RUNS}{{{namespaces}}})",
                }
            ),
        )


@dataclass(frozen=True, slots=True)
class GatewayQuery:
    """Requests in the flow-control queue of the inference gateway's endpoint picker, by model.

    A request counts for the model that it is sent on to and for the one that it asked for; the greater of the two
    sums is the value, which is the number of requests where nothing is rewritten.
    """

    @property
    def name(self) -> str:
        """The extra's name."""
        return GATEWAY_ACTIVATION

    def batches(self, owners: Owners, names: LabelNames) -> Iterator[Batch]:
        """Write the queries that together cover some pools, known by namespace and model."""
        return batched(owners, (names.namespace, _MODEL), partial(self._query, names), _and_of_the_namespace)

    def read(self, rows: Sequence[Sample], reader: Reader, notes: Notes) -> Extra:
        """Read the queue, or 0 from flow control that has not queued a request for the model yet."""
        found = by_signal(rows)
        queued = [found[part] for part in (_QUEUED_FOR, _QUEUED_AS) if part in found]
        if queued:
            return Extra(reading(best(queued)))
        if _FLOW_CONTROL in found:
            return Extra(0.0)
        namespace = reader.locator.namespace
        if _PICKER in found:
            # From 0.9 on, flow control that is on has series from the start, so here it is off, and what would wake
            # the pool will never come.
            notes.add(
                f"{self.name} is missing: the endpoint picker in namespace {namespace} has no flow-control series: "
                "turn its flow control on, or nothing can wake the pool"
            )
            return Extra(Absent.MISSING)
        if _OLD_PICKER in found:
            notes.add(
                f"{self.name} is taken for 0: an endpoint picker before 0.9 in namespace {namespace} has no "
                "flow-control series until its first request; see that its flow control is on"
            )
            return Extra(0.0)
        notes.add(
            f"{self.name} is missing: neither {_QUEUE} nor any other series of an endpoint picker in namespace "
            f"{namespace}: it is not scraped (its metrics need a bearer token unless that is turned off)"
        )
        return Extra(Absent.MISSING)

    def _query(self, names: LabelNames, identities: Sequence[Identity]) -> Query:
        namespaces, models = _scopes(names, identities)
        target = f"{names.namespace},{names.pod},{names.instance}"
        labels = ",".join((target, *_QUEUE_LABELS))

        def queued(model_label: str) -> str:
            scope = f"{namespaces},{one_of(model_label, models)}"
            # A picker that exports the new name at all must not be counted under the old one, too.
            old = f"{_OLD_QUEUE}{{{scope}}} unless on ({target}) {_QUEUE}{{{namespaces}}}"
            each = f"max by ({labels}) ({_QUEUE}{{{scope}}} or ({old}))"
            by_model = f"sum by ({names.namespace},{model_label}) ({each})"
            return f'label_replace({by_model},"{_MODEL}","$1","{model_label}","(.*)")'

        def exists(*metrics: str) -> str:
            return f"count by ({names.namespace}) ({{{one_of(METRIC_LABEL, metrics)},{namespaces}}})"

        return Query(
            self.name,
            union(
                {
                    _QUEUED_FOR: queued(_TARGET_MODEL),
                    _QUEUED_AS: queued(_REQUESTED_MODEL),
                    _FLOW_CONTROL: exists(_SATURATION, _OLD_SATURATION, _QUEUE, _OLD_QUEUE),
                    _PICKER: exists(_READY),
                    _OLD_PICKER: exists(_OLD_READY),
                }
            ),
        )


def _scopes(names: LabelNames, identities: Sequence[Identity]) -> tuple[str, list[str]]:
    return one_of(names.namespace, (namespace for namespace, _ in identities)), [model for _, model in identities]


def _and_of_the_namespace(identity: Identity) -> tuple[Identity, Identity]:
    """Claim the pool's own rows, and those of its namespace that are of no model."""
    namespace, _ = identity
    return identity, (namespace, "")
