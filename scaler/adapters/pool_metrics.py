"""What a scrape shows of each pool, built from its snapshot at that moment.

So a pool that is gone takes its series with it, and a reading that is missing is no series rather than a zero. The text
is written here and not by prometheus_client, which takes 20 us a series: ten thousand pools have 400,000, and a scrape
has ten seconds. Here a pool's labels are put into words once.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from scaler.model import Absent, Action, Decision, PoolKey, PoolLocator, Reading, ReasonCode

PREFIX: Final = "vllm_scaler"

_SIGNAL_VALUE: Final = (
    "What a signal reads: saturation = requests in flight, kv_cache = mean KV-cache usage from 0 to 1,"
    " latencies (ttft_p95, itl_p95, queue_time_p95, e2e_p95) = seconds, gpu = ratio, the others a total or a rate."
)
_FAMILIES: Final = {
    "pools": ("gauge", "Pools that KEDA asks for."),
    "pool_info": ("gauge", "What a pool is: always 1."),
    "target_replicas": ("gauge", "Replicas decided, after limits."),
    "reported_replicas": ("gauge", "The value that KEDA is told: the target, or what lands the HPA on it."),
    "requested_replicas": ("gauge", "Replicas that the workload asks for (spec.replicas)."),
    "serving_replicas": ("gauge", "Replicas that report fresh metrics."),
    "pending_replicas": ("gauge", "Requested replicas that do not serve yet."),
    "decision_age_seconds": ("gauge", "Time since the newest decision's tick."),
    "data_age_seconds": (
        "gauge",
        "Time since the newest tick with data to decide on; the last answer is held meanwhile.",
    ),
    "signal_value": ("gauge", _SIGNAL_VALUE),
    "signal_scale_up_threshold": ("gauge", "The value above which a signal asks for more replicas, in its unit."),
    "signal_scale_down_threshold": ("gauge", "The value below which a signal allows fewer replicas, in its unit."),
    "signal_up_need_replicas": ("gauge", "Replicas that a signal's newest value asks for."),
    "signal_down_need_replicas": ("gauge", "Replicas that a signal's newest value can be served with."),
    "signal_missing": ("gauge", "1 while a signal has no series, stale ones, or its query failed."),
    "lands_on_replicas": ("gauge", "Replicas that the HPA goes to with the reported value, its tolerance considered."),
    "protection_grade": (
        "gauge",
        "0 = none, 1 = limits or replicas that do not start keep the pool below its need, 2 = and requests wait long.",
    ),
    "queue_wait_seconds": ("gauge", "How long a request that comes now waits: queue by recent completion rate."),
    "hourly_cost": (
        "gauge",
        "What lands_on_replicas cost an hour, in the currency of replicaHourlyCost.",
    ),
    "hourly_cost_limit": ("gauge", "The maxHourlyCost of the pool."),
    "limit_active": ("gauge", "1 for each limit that changed the newest decision."),
    "diagnostic_active": ("gauge", "1 for each thing that is wrong with settings, routing or single replicas."),
    "decisions_total": ("counter", "Decisions, by what they did and why."),
}


@dataclass(frozen=True, slots=True)
class PoolView:
    """What a scrape shows of one pool.

    ``decisions`` counts its decisions since this process first saw it.
    """

    key: PoolKey
    locator: PoolLocator
    decision: Decision | None
    decisions: Mapping[tuple[Action, ReasonCode], int]


def exposition(views: Iterable[PoolView], now: float) -> str:
    """Return the series of all pools in Prometheus' text format.

    Args:
        views: The pools.
        now: Unix seconds, for ages.
    """
    lines: dict[str, list[str]] = {name: [] for name in _FAMILIES}
    pools = 0
    for view in views:
        pools += 1
        _write_pool(lines, view, now)
    lines["pools"].append(f"{PREFIX}_pools {pools}\n")
    return "".join(_family(name, rows) for name, rows in lines.items())


def _family(name: str, rows: list[str]) -> str:
    kind, text = _FAMILIES[name]
    return "".join((f"# HELP {PREFIX}_{name} {text}\n# TYPE {PREFIX}_{name} {kind}\n", *rows)) if rows else ""


def _write_pool(lines: dict[str, list[str]], view: PoolView, now: float) -> None:
    key, locator, workload = view.key, view.locator, view.locator.workload
    labels = _labels(namespace=key.namespace, scaled_object=key.scaled_object, trigger=key.trigger, pool=str(locator))
    named = _labels(
        model=locator.model_name or "",
        workload_kind="" if workload is None else workload.kind.value,
        workload="" if workload is None else workload.name,
    )
    _write(lines, "pool_info", f"{labels},{named}", 1)
    for (action, reason), count in tuple(view.decisions.items()):
        _write(lines, "decisions_total", f'{labels},action="{action.value}",reason="{reason.value}"', count)
    if view.decision is not None:
        _write_decision(lines, labels, view.decision, now)


def _write_decision(lines: dict[str, list[str]], labels: str, decision: Decision, now: float) -> None:
    seen, usable_at = decision.observation, decision.usable_at
    _write(lines, "target_replicas", labels, decision.target)
    _write(lines, "reported_replicas", labels, decision.reported_value)
    _write(lines, "requested_replicas", labels, seen.requested)
    _write(lines, "serving_replicas", labels, seen.serving)
    _write(lines, "pending_replicas", labels, decision.pending)
    _write(lines, "lands_on_replicas", labels, decision.lands_on)
    _write(lines, "protection_grade", labels, decision.protection.value)
    _write(lines, "queue_wait_seconds", labels, decision.queue_wait_s)
    _write(lines, "hourly_cost", labels, decision.hourly_cost)
    _write(lines, "hourly_cost_limit", labels, decision.max_hourly_cost)
    for code in dict.fromkeys(limit.code for limit in decision.limits):
        _write(lines, "limit_active", f'{labels},limit="{code.value}"', 1)
    for code in dict.fromkeys(reason.code for reason in decision.diagnostics):
        _write(lines, "diagnostic_active", f'{labels},diagnostic="{code.value}"', 1)
    # A clock that was set back makes no age negative.
    _write(lines, "decision_age_seconds", labels, max(0.0, now - decision.at))
    _write(lines, "data_age_seconds", labels, None if usable_at is None else max(0.0, now - usable_at))
    for state in decision.signals:
        signal = f'{labels},signal="{_escaped(state.name)}"'
        _write(lines, "signal_value", signal, state.value)
        _write(lines, "signal_scale_up_threshold", signal, state.scale_up_threshold)
        _write(lines, "signal_scale_down_threshold", signal, state.scale_down_threshold)
        _write(lines, "signal_up_need_replicas", signal, state.up_need)
        _write(lines, "signal_down_need_replicas", signal, state.down_need)
        _write(lines, "signal_missing", signal, int(state.value is Absent.MISSING))


def _write(lines: dict[str, list[str]], name: str, labels: str, value: Reading | None) -> None:
    if value is not None and not isinstance(value, Absent):
        lines[name].append(f"{PREFIX}_{name}{{{labels}}} {value}\n")


def _labels(**values: str) -> str:
    return ",".join(f'{name}="{_escaped(value)}"' for name, value in values.items())


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
