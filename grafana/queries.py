"""PromQL for the panels.

Every replica of the service shows the pools that KEDA asks it for, so each reading is the greatest over instances. A
ScaledObject whose trigger has just changed has two pools for a while; the HPA follows the greater, and so do these.
"""

from dataclasses import dataclass
from typing import Final

POOL: Final = ("namespace", "scaled_object")
"""The labels that name a pool to a person."""
_CHOSEN: Final = 'namespace="$namespace",scaled_object="$pool"'
_CHOSEN_VLLM: Final = 'namespace="$namespace",model_name=~"$models",pod=~"$pods",server=""'
"""The raw series of the chosen pool; ``server`` is a label of routers, which export the same names."""
LOAD: Final = 'signal="saturation"'
TTFT: Final = 'signal="ttft_p95"'
"""Matchers of our readings of a signal."""
FLEET: Final = 'namespace=~"$fleet"'
"""The pools of the overview."""


@dataclass(frozen=True, slots=True)
class Query:
    """One query of a panel.

    Args:
        expr: PromQL, in which Grafana replaces variables.
        legend: The series' name, in which Grafana replaces ``{{label}}``.
    """

    expr: str
    legend: str = ""


def chosen(metric: str, *, by: tuple[str, ...] = (), matchers: str = "") -> str:
    """Write one of our readings of the chosen pool.

    Args:
        metric: Its name without the prefix.
        by: Labels that stay.
        matchers: Further matchers.
    """
    return _greatest(metric, by, f"{_CHOSEN}{matchers and ','}{matchers}")


def active(metric: str, label: str) -> tuple[Query, Query]:
    """Write what holds of the chosen pool, by a label, and 0 while nothing of it does."""
    some = chosen(metric, by=(label,))
    return Query(some, f"{{{{{label}}}}}"), Query(f"{chosen('pool_info')} * 0 unless on () {some}", "none")


def fleet(metric: str, *, matchers: str = "") -> str:
    """Write one of our readings of each pool of the overview."""
    return _greatest(metric, POOL, f"{FLEET}{matchers and ','}{matchers}")


def _greatest(metric: str, by: tuple[str, ...], matchers: str) -> str:
    return f"max by ({','.join(by)}) (vllm_scaler_{metric}{{{matchers}}})"


def capacity(reading: str) -> str:
    """Write how many requests the serving replicas carry; ``reading`` is ``"chosen"`` or ``"fleet"``."""
    read = {"chosen": chosen, "fleet": fleet}[reading]
    return f"{read('replica_slots')} * {read('serving_replicas')}"


def vllm_rate(metric: str, matchers: str = "") -> str:
    """Write the rate of a raw vLLM counter of the chosen pool, a series each engine."""
    return f"rate({metric}{{{_CHOSEN_VLLM}{matchers and ','}{matchers}}}[$__rate_interval])"


def vllm_quantile(quantile: float, histogram: str) -> str:
    """Write a quantile of a raw vLLM histogram of the chosen pool."""
    return f"histogram_quantile({quantile:g}, sum by (le) ({vllm_rate(f'{histogram}_bucket')}))"


def vllm_gauge_by_pod(*metrics: str) -> str:
    """Write the sum of raw vLLM gauges of each pod of the chosen pool."""
    names = "|".join(metrics)
    return f'sum by (pod) ({{__name__=~"{names}",{_CHOSEN_VLLM}}})'


def service(metric: str, by: str) -> str:
    """Write the rate of one of the service's own counters, over all its replicas."""
    return f"sum by ({by}) (rate(vllm_scaler_{metric}[$__rate_interval]))"
