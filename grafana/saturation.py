"""The saturation dashboard: is any fleet too full, and if one is, what is full in it."""

from typing import Final

from grafana_foundation_sdk.builders import dashboard as builders

from grafana.frame import SATURATION, dashboard_of
from grafana.overview import FULL, overview
from grafana.panels import (
    BLUE,
    DOWN_AT,
    GREEN,
    GREY,
    LIMIT,
    OBJECTIVE,
    ORANGE,
    PURPLE,
    RED,
    UP_AT,
    About,
    Line,
    lines,
    states,
)
from grafana.queries import (
    LOAD,
    TTFT,
    Query,
    capacity,
    chosen,
    vllm_gauge_by_pod,
    vllm_quantile,
    vllm_rate,
)

_TTFT_HISTOGRAM: Final = "vllm:time_to_first_token_seconds"
_ITL_HISTOGRAMS: Final = ("vllm:inter_token_latency_seconds", "vllm:time_per_output_token_seconds")
_PROTECTION: Final = {
    "0": ("none", GREEN),
    "1": ("capped or stalled", ORANGE),
    "2": ("and requests wait long", RED),
}


def saturation() -> builders.Dashboard:
    """Return the dashboard."""
    board = dashboard_of(
        SATURATION,
        "How full each fleet is: first all of them, then one pool in depth. Choose it above, or in the table.",
        span="now-3h",
    )
    return _pool(overview(board))


def _pool(board: builders.Dashboard) -> builders.Dashboard:
    load = chosen("signal_value", matchers=LOAD)
    ttft = chosen("signal_value", matchers=TTFT)
    room = capacity("chosen")
    within = vllm_rate(f"{_TTFT_HISTOGRAM}_bucket", 'le=~"${ttft_bound}([.]0)?"')
    itl = {share: " or ".join(vllm_quantile(share, name) for name in _ITL_HISTOGRAMS) for share in (0.95, 0.5)}
    return (
        board.with_row(builders.Row("$namespace / $pool"))
        .with_panel(
            lines(
                About(
                    title="In flight against capacity",
                    text="Requests running and waiting, and what the serving replicas carry. When in flight is above"
                    " the line of scaling up and capacity does not follow, see on the dashboard of decisions why.",
                    runbook="VLLMScalerScaleUpStalled",
                ),
                Query(load, "in flight"),
                Query(chosen("running_requests"), "running"),
                Query(room, "capacity"),
                Query(chosen("signal_scale_up_threshold", matchers=LOAD), "scales up above"),
                Query(chosen("signal_scale_down_threshold", matchers=LOAD), "may scale down below"),
                unit="short",
                style={
                    "in flight": Line(BLUE, width=2),
                    "running": Line(PURPLE),
                    "capacity": Line(GREEN, width=2, stepped=True),
                    "scales up above": UP_AT,
                    "may scale down below": DOWN_AT,
                },
            )
        )
        .with_panel(
            lines(
                About(
                    title="Saturation",
                    text="Requests in flight by slots. When it stays above 1, requests wait; when it is low for hours"
                    " and replicas stay, see on the dashboard of decisions what scaling down waits for.",
                ),
                Query(f"{load} / ({room} > 0)", "saturation"),
                unit="percentunit",
                steps=FULL,
            )
        )
        .with_panel(
            lines(
                About(
                    title="Waiting",
                    text="Requests in the engines' queues. When some wait while others have room, look at the panel of"
                    " requests by replica: that is routing, and more replicas do not cure it.",
                    runbook="VLLMScalerRoutingImbalance",
                    span=6,
                ),
                Query(chosen("waiting_requests"), "waiting"),
                unit="short",
                style={"waiting": Line(ORANGE, width=2)},
            )
        )
        .with_panel(
            lines(
                About(
                    title="How long a request waits",
                    text="The queue by the rate at which requests are served. When it grows while no replica is"
                    " pending, a limit bites: the dashboard of decisions names it.",
                    runbook="VLLMScalerPoolInProtection",
                    span=6,
                ),
                Query(chosen("queue_wait_seconds"), "wait"),
                unit="s",
            )
        )
        .with_panel(
            lines(
                About(
                    title="KV-cache usage",
                    text="The mean of all replicas, and the fullest. When the fullest stays above 90 %, vLLM preempts"
                    " requests: add replicas, or lower max-num-seqs. When only one is full, look at the routing.",
                    span=12,
                ),
                Query(chosen("signal_value", matchers='signal="kv_cache"'), "mean"),
                Query(chosen("kv_cache_fullest_ratio"), "fullest"),
                unit="percentunit",
                highest=1,
                steps=((0.9, RED),),
                style={"mean": Line(BLUE, width=2), "fullest": Line(ORANGE)},
            )
        )
        .with_panel(
            lines(
                About(
                    title="TTFT P95 against its objective",
                    text="Time to first token. When it is above the objective and nothing waits, prompts are long or"
                    " caches cold: more replicas may not help. It lingers for a rate window after a burst has gone.",
                    runbook="VLLMScalerObjectiveBurning",
                ),
                Query(ttft, "TTFT P95"),
                Query(chosen("signal_scale_up_threshold", matchers=TTFT), "objective"),
                unit="s",
                style={"TTFT P95": Line(BLUE, width=2), "objective": OBJECTIVE},
            )
        )
        .with_panel(
            lines(
                About(
                    title="Requests over the TTFT objective",
                    text="The share of first tokens that came too late, counted exactly. When it is above 5 %, the P95"
                    " misses its objective. Empty where the objective is no bound of vLLM's histogram: choose one.",
                    runbook="VLLMScalerObjectiveBurning",
                ),
                Query(
                    f"1 - sum({within}) / (sum({vllm_rate(f'{_TTFT_HISTOGRAM}_count')}) > 0)",
                    "over the objective",
                ),
                unit="percentunit",
                highest=1,
                steps=((0.05, RED),),
                style={"over the objective": Line(ORANGE, width=2)},
            )
        )
        .with_panel(
            lines(
                About(
                    title="Inter-token latency",
                    text="The gap between two tokens of an answer. When it grows with the running requests, replicas"
                    " carry too many at once: lower slotsPerReplica. When it grows alone, look at the GPUs.",
                    span=6,
                ),
                Query(itl[0.95], "P95"),
                Query(itl[0.5], "median"),
                unit="s",
            )
        )
        .with_panel(
            lines(
                About(
                    title="Tokens per second",
                    text="What the pool produces and reads. When it falls while requests wait, replicas have stalled:"
                    " look for a wedged one.",
                    runbook="VLLMScalerWedgedReplica",
                    span=6,
                ),
                Query(chosen("generation_tokens_per_second"), "generated"),
                Query(f"sum({vllm_rate('vllm:prompt_tokens_total')})", "prompt"),
                unit="short",
            )
        )
        .with_panel(
            lines(
                About(
                    title="Replicas",
                    text="Requested, serving and pending. When requested is above serving for longer than a cold start"
                    " takes, pods do not start; when it is at the most allowed, the pool is capped.",
                    runbook="VLLMScalerScaleUpStalled",
                ),
                Query(chosen("requested_replicas"), "requested"),
                Query(chosen("serving_replicas"), "serving"),
                Query(chosen("pending_replicas"), "pending"),
                Query(chosen("max_replicas"), "most allowed"),
                unit="short",
                whole=True,
                style={
                    "requested": Line(BLUE, width=2),
                    "serving": Line(GREEN, width=2),
                    "pending": Line(ORANGE),
                    "most allowed": LIMIT,
                },
            )
        )
        .with_panel(
            lines(
                About(
                    title="In flight by replica",
                    text="Requests of each pod, and the slots of one. When one pod is far above the others, the router"
                    " is at fault; when all are above the slots, the pool is too small.",
                    runbook="VLLMScalerRoutingImbalance",
                ),
                Query(vllm_gauge_by_pod("vllm:num_requests_running", "vllm:num_requests_waiting"), "{{pod}}"),
                Query(chosen("replica_slots"), "slots"),
                unit="short",
                style={"slots": LIMIT},
            )
        )
        .with_panel(
            lines(
                About(
                    title="Imbalance",
                    text="Requests at the fullest replica, as a multiple of the mean. When it stays above 2 while"
                    " requests wait, look at stickiness, prefix affinity and the router's list of pods.",
                    runbook="VLLMScalerRoutingImbalance",
                    span=6,
                ),
                Query(chosen("imbalance_ratio"), "fullest by mean"),
                unit="short",
                steps=((2, ORANGE),),
                style={"fullest by mean": Line(GREY)},
            )
        )
        .with_panel(
            states(
                About(
                    title="Protection",
                    text="Whether the pool gets what it needs. While it is not none, shed or degrade load that can"
                    " wait, and raise the limit that the dashboard of decisions names.",
                    runbook="VLLMScalerPoolInProtection",
                    span=6,
                ),
                Query(chosen("protection_grade"), "protection"),
                names=_PROTECTION,
                legend=True,
            )
        )
    )
