"""Which query reads an extra, by its name."""

from collections.abc import Mapping
from typing import Final, TypeAlias

from scaler.model import (
    CUSTOM_ACTIVATION_PREFIX,
    CUSTOM_SIGNAL_PREFIX,
    GATEWAY_ACTIVATION,
    RESTARTS,
    ROUTER_ACTIVATION,
    PoolLocator,
    SignalName,
)
from scaler.promql.activation import GatewayQuery, RouterQuery
from scaler.promql.answer import quoted
from scaler.promql.batches import Identity
from scaler.promql.engine_extras import ENGINE_EXTRAS, EngineExtra
from scaler.promql.extra_query import ExtraQuery
from scaler.promql.gpu import GpuQuery
from scaler.promql.named import NamedQuery, named_identity
from scaler.promql.queries import engine_shape
from scaler.promql.restarts import RestartsQuery
from scaler.promql.workloads import pod_pattern

Asking: TypeAlias = tuple[ExtraQuery, Identity]
"""Whom to ask, and what tells the pool apart from the others that do."""

_ENGINE_EXTRAS: Final = {signal.value: signal for signal in ENGINE_EXTRAS}
_ALWAYS_READ: Final = frozenset(signal.value for signal in SignalName) - {*_ENGINE_EXTRAS, SignalName.GPU.value}


def extra_query(name: str, locator: PoolLocator, queries: Mapping[str, str]) -> Asking | str | None:
    """Find the query of one extra.

    Args:
        name: As in ``PoolLocator.extras``.
        locator: Where the pool's series are.
        queries: The operator's PromQL by name.

    Returns:
        None for a signal that every observation has anyway, and text where it cannot be asked: why.
    """
    custom = _custom_name(name)
    if custom is not None:
        return _named(custom, locator, queries)
    if name in _ENGINE_EXTRAS:
        shape, identity = engine_shape(locator)
        return EngineExtra(_ENGINE_EXTRAS[name], shape, locator.rate_window_s), identity
    if name == RESTARTS:
        shape, identity = engine_shape(locator)
        return RestartsQuery(shape, locator.restart_window_s), identity
    if name == SignalName.GPU:
        return _gpu(locator)
    if name in (ROUTER_ACTIVATION, GATEWAY_ACTIVATION):
        return _activation(name, locator)
    return None if name in _ALWAYS_READ else "there is no such reading"


def _named(name: str, locator: PoolLocator, queries: Mapping[str, str]) -> Asking | str:
    if name not in queries:
        known = ", ".join(sorted(queries)) or "none"
        return f"the operator of the scaler has named no query {quoted(name)!r}; known: {known}"
    return NamedQuery(name, queries[name]), named_identity(locator)


def _gpu(locator: PoolLocator) -> Asking | str:
    if locator.workload is None:
        return "GPUs are known by their pod, and the pool names no workload"
    return GpuQuery(pod_pattern(locator.workload)), (locator.namespace, locator.workload.name)


def _activation(name: str, locator: PoolLocator) -> Asking | str:
    if locator.model_name is None:
        return "requests are known by their model, and the pool names none"
    query = RouterQuery(locator.rate_window_s) if name == ROUTER_ACTIVATION else GatewayQuery()
    return query, (locator.namespace, locator.model_name)


def _custom_name(name: str) -> str | None:
    for prefix in (CUSTOM_ACTIVATION_PREFIX, CUSTOM_SIGNAL_PREFIX):
        if name.startswith(prefix):
            return name.removeprefix(prefix)
    return None
