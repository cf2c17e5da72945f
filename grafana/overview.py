"""The overview of the saturation dashboard: which pool is too full, out of all of them."""

from typing import Final

from grafana_foundation_sdk.builders import dashboard as builders

from grafana.frame import SATURATION
from grafana.panels import ORANGE, RED, YELLOW, About, Column, lines, number, pools
from grafana.queries import LOAD, TTFT, Query, capacity, fleet

FULL: Final = ((0.8, YELLOW), (1.0, RED))
"""Saturation by default scales down below 0.8; at 1 every slot is taken."""


def overview(board: builders.Dashboard) -> builders.Dashboard:
    """Add the rows on all pools to a dashboard."""
    load, room = fleet("signal_value", matchers=LOAD), capacity("fleet")
    ttft, objective = (fleet(name, matchers=TTFT) for name in ("signal_value", "signal_scale_up_threshold"))
    return (
        board.with_row(builders.Row("All pools"))
        .with_panel(
            number(
                About(
                    title="Pools",
                    text="Pools that KEDA asks for. When it is fewer than there are ScaledObjects, look at their"
                    " events: their metadata is refused, or KEDA does not reach the scaler.",
                    runbook="VLLMScalerDown",
                    span=3,
                    height=4,
                ),
                Query(f"count({fleet('pool_info')})"),
                unit="short",
            )
        )
        .with_panel(
            number(
                About(
                    title="In protection",
                    text="Pools that need more than they may have, or whose replicas do not start. When it is not 0,"
                    " find them in the table and see what limits them on the dashboard of decisions.",
                    runbook="VLLMScalerPoolInProtection",
                    span=3,
                    height=4,
                ),
                Query(f"count({fleet('protection_grade')} > 0) or vector(0)"),
                unit="short",
                steps=((1, RED),),
            )
        )
        .with_panel(
            number(
                About(
                    title="Without data",
                    text="Pools that have had no data for more than 2 min, or never any: their replicas are held."
                    " When it is not 0, look whether Prometheus and the scrapes are well.",
                    runbook="VLLMScalerNoData",
                    span=3,
                    height=4,
                ),
                Query(
                    f"count({fleet('data_age_seconds')} - {fleet('decision_age_seconds')} > 120"
                    f" or ({fleet('pool_info')} unless {fleet('data_age_seconds')})) or vector(0)"
                ),
                unit="short",
                steps=((1, RED),),
            )
        )
        .with_panel(
            number(
                About(
                    title="In flight",
                    text="Requests running and waiting in all pools. When it falls while users complain, compare it"
                    " with what the gateway accepts: requests may not get as far as vLLM.",
                    span=3,
                    height=4,
                ),
                Query(f"sum({load})"),
                unit="short",
            )
        )
        .with_panel(
            number(
                About(
                    title="Saturation of all",
                    text="Requests in flight in all pools, by what all serving replicas carry. When it is near 1, the"
                    " cluster as a whole is short of replicas; look at the table for who has room.",
                    span=3,
                    height=4,
                ),
                Query(f"sum({load}) / sum({room})"),
                unit="percentunit",
                steps=FULL,
            )
        )
        .with_panel(
            number(
                About(
                    title="Serving replicas",
                    text="Replicas of all pools that report metrics. When it drops without a decision to scale down,"
                    " pods are lost, or their scrapes are.",
                    span=3,
                    height=4,
                ),
                Query(f"sum({fleet('serving_replicas')})"),
                unit="short",
            )
        )
        .with_panel(
            number(
                About(
                    title="Pending replicas",
                    text="Replicas that are asked for and do not serve yet. When it stays above 0 for longer than a"
                    " cold start takes, look at the pods: GPUs, quota, image, model.",
                    runbook="VLLMScalerScaleUpStalled",
                    span=3,
                    height=4,
                ),
                Query(f"sum({fleet('pending_replicas')})"),
                unit="short",
                steps=((1, YELLOW),),
            )
        )
        .with_panel(
            number(
                About(
                    title="Cost per hour",
                    text="What the replicas cost that the HPA goes to, over the pools whose trigger names a price, in"
                    " the currency of replicaHourlyCost. When it is above plan, sort the table by cost.",
                    runbook="VLLMScalerCostLimitReached",
                    span=3,
                    height=4,
                ),
                Query(f"sum({fleet('hourly_cost')})"),
                unit="short",
                empty="no price",
            )
        )
        .with_panel(
            pools(
                About(
                    title="Pools, the fullest first",
                    text="Each pool now; its name leads to it below. When a cell is coloured, go there: red saturation"
                    " means that requests wait, a red TTFT misses its objective, and old data that replicas are held.",
                    span=24,
                    height=9,
                ),
                (
                    Column("Saturation", f"{load} / ({room} > 0)", "percentunit", FULL),
                    Column("In flight", load),
                    Column("Waiting", fleet("waiting_requests"), steps=((1, YELLOW),)),
                    Column(
                        "TTFT of objective",
                        f"{ttft} / {objective}",
                        "percentunit",
                        ((0.8, YELLOW), (1.0, RED)),
                    ),
                    Column("Requested", fleet("requested_replicas")),
                    Column("Serving", fleet("serving_replicas")),
                    Column("Pending", fleet("pending_replicas"), steps=((1, YELLOW),)),
                    Column("Target", fleet("target_replicas")),
                    Column("Protection", fleet("protection_grade"), steps=((1, ORANGE), (2, RED))),
                    Column("Age of data", fleet("data_age_seconds"), "s", ((120, YELLOW), (600, RED))),
                    Column("Cost per hour", fleet("hourly_cost")),
                ),
                link=f"/d/{SATURATION}?var-datasource=${{datasource}}"
                "&var-namespace=${__data.fields.namespace}&var-pool=${__data.fields.scaled_object}&${__url_time_range}",
                sorted_by="Saturation",
            )
        )
        .with_panel(
            lines(
                About(
                    title="The ten fullest pools",
                    text="Saturation over time. When one stays at 1 or above, its requests wait: choose it and see"
                    " whether replicas are on their way.",
                ),
                Query(f"topk(10, {load} / ({room} > 0))", "{{namespace}}/{{scaled_object}}"),
                unit="percentunit",
                steps=FULL,
            )
        )
        .with_panel(
            lines(
                About(
                    title="The ten longest waits",
                    text="How long a request that comes now waits before it is run. When one is above what users"
                    " bear, let the gateway shed load by vllm_scaler_protection_grade until replicas serve.",
                    runbook="VLLMScalerPoolInProtection",
                ),
                Query(f"topk(10, {fleet('queue_wait_seconds')})", "{{namespace}}/{{scaled_object}}"),
                unit="s",
            )
        )
    )
