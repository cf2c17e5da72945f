"""The dashboard of decisions: why did it scale, or why didn't it, and is the scaler itself well."""

from typing import Final

from grafana_foundation_sdk.builders import dashboard as builders

from grafana.frame import DECISIONS, dashboard_of
from grafana.panels import (
    BLUE,
    GREEN,
    LIMIT,
    ORANGE,
    PURPLE,
    RED,
    About,
    Line,
    lines,
    number,
    states,
)
from grafana.queries import Query, active, chosen, service

_HOLDS: Final = {"0": ("", GREEN), "1": ("active", ORANGE)}
_MISSING: Final = {"0": ("there", GREEN), "1": ("missing", RED)}
_DEAD_BAND: Final = {
    "up(t)": Line(ORANGE, width=2),
    "down(t)": Line(BLUE, width=2, fill_below_to="up(t)"),
    "requested": Line(GREEN, width=2),
}


def decisions() -> builders.Dashboard:
    """Return the dashboard."""
    board = dashboard_of(
        DECISIONS,
        "What was decided for one pool and why, and whether the scaler is well. Marks are decisions that changed it.",
        span="now-3h",
    )
    return _scaler(_data(_why(_what(board))))


def _what(board: builders.Dashboard) -> builders.Dashboard:
    return (
        board.with_row(builders.Row("$namespace / $pool: what was decided"))
        .with_panel(
            lines(
                About(
                    title="Target, reported value and replicas",
                    text="What was decided, what KEDA was told, and what is there. When requested does not follow the"
                    " reported value, the HPA swallows it; when serving does not follow requested, pods do not start.",
                    runbook="VLLMScalerHPASwallowsDecisions",
                    span=16,
                    height=10,
                ),
                Query(chosen("target_replicas"), "target"),
                Query(chosen("reported_replicas"), "reported value"),
                Query(chosen("requested_replicas"), "requested"),
                Query(chosen("serving_replicas"), "serving"),
                Query(chosen("max_replicas"), "most allowed"),
                unit="short",
                whole=True,
                style={
                    "target": Line(ORANGE, width=2),
                    "reported value": Line(PURPLE, dashed=True),
                    "requested": Line(BLUE, width=2),
                    "serving": Line(GREEN, width=2),
                    "most allowed": LIMIT,
                },
            )
        )
        .with_panel(
            states(
                About(
                    title="Reasons",
                    text="The deciding reason of each tick. When one stays that you do not expect, look it up in the"
                    " table of reason codes, and read the story in the newest decision record of the log.",
                    span=8,
                    height=10,
                ),
                Query(chosen("decision_info", by=("reason",)), "{{reason}}"),
                names={"1": ("", BLUE)},
            )
        )
    )


def _why(board: builders.Dashboard) -> builders.Dashboard:
    by_signal = ("signal",)
    ratio = f"{chosen('signal_value', by=by_signal)} / ({chosen('signal_scale_up_threshold', by=by_signal)} > 0)"
    return (
        board.with_row(builders.Row("$namespace / $pool: why"))
        .with_panel(
            lines(
                About(
                    title="The need of each signal",
                    text="Replicas that each signal asks for now. When one alone is above requested, it is the one that"
                    " scales up: judge whether it should, and mend its threshold if not.",
                ),
                Query(chosen("signal_up_need_replicas", by=by_signal), "{{signal}}"),
                Query(chosen("requested_replicas"), "requested"),
                unit="short",
                whole=True,
                style={"requested": LIMIT},
            )
        )
        .with_panel(
            lines(
                About(
                    title="The dead band",
                    text="Sustained needs: above up(t) it scales down only from above down(t), between them nothing"
                    " changes. When requested lies in the band and you want fewer, narrow it by scaleDownSaturation.",
                ),
                Query(chosen("down_need_replicas"), "down(t)"),
                Query(chosen("up_need_replicas"), "up(t)"),
                Query(chosen("requested_replicas"), "requested"),
                unit="short",
                whole=True,
                style=_DEAD_BAND,
            )
        )
        .with_panel(
            lines(
                About(
                    title="How near each signal is to scaling up",
                    text="A signal's value by the threshold above which it asks for more. When it is above 1 and"
                    " nothing happens, its window, a cooldown or a gate holds it: the record's note says which.",
                ),
                Query(ratio, "{{signal}}"),
                unit="percentunit",
                steps=((1, RED),),
            )
        )
        .with_panel(
            states(
                About(
                    title="Limits that bit",
                    text="What changed the need on its way to the target. When a limit stays for long, the pool does"
                    " not get what it needs: raise it, or shed load.",
                    runbook="VLLMScalerPoolInProtection",
                    span=6,
                ),
                *active("limit_active", "limit"),
                names=_HOLDS,
            )
        )
        .with_panel(
            states(
                About(
                    title="Diagnostics",
                    text="What is wrong with settings, routing or single replicas; none of it decided. When one is"
                    " there, its code in the table of reason codes says what to mend.",
                    runbook="VLLMScalerWedgedReplica",
                    span=6,
                ),
                *active("diagnostic_active", "diagnostic"),
                names=_HOLDS,
            )
        )
        .with_panel(
            lines(
                About(
                    title="How far the HPA is from the decision",
                    text="Replicas between where the HPA should go and what is requested. When it stays above 0 for"
                    " minutes, describe the HPA: its tolerance, policies and windows, or a paused ScaledObject.",
                    runbook="VLLMScalerHPASwallowsDecisions",
                    span=8,
                ),
                Query(f"abs({chosen('lands_on_replicas')} - {chosen('requested_replicas')})", "not carried out"),
                unit="short",
                whole=True,
                style={"not carried out": Line(ORANGE, width=2)},
            )
        )
        .with_panel(
            lines(
                About(
                    title="Increases that took a decrease back",
                    text="Of the last two hours; each doubles the scale-down window. When there are three or more, the"
                    " pool flaps: make its windows longer or its dead band wider.",
                    runbook="VLLMScalerFlapping",
                    span=8,
                ),
                Query(chosen("regretted_increases"), "regrets"),
                unit="short",
                whole=True,
                steps=((3, RED),),
            )
        )
        .with_panel(
            lines(
                About(
                    title="Cost per hour",
                    text="What the replicas cost that the HPA goes to, and the budget. When it is at the budget, demand"
                    " is turned away: raise maxHourlyCost or shed load. Empty without replicaHourlyCost.",
                    runbook="VLLMScalerCostLimitReached",
                    span=8,
                ),
                Query(chosen("hourly_cost"), "cost"),
                Query(chosen("hourly_cost_limit"), "budget"),
                unit="short",
                style={"cost": Line(BLUE, width=2, stepped=True), "budget": LIMIT},
            )
        )
    )


def _data(board: builders.Dashboard) -> builders.Dashboard:
    unreported = f"clamp_min({chosen('ready_replicas')} - {chosen('serving_replicas')}, 0)"
    return (
        board.with_row(builders.Row("$namespace / $pool: the data under it"))
        .with_panel(
            states(
                About(
                    title="Signals",
                    text="Whether each signal is there. While one is missing nothing scales down: the notes of the"
                    " decision record say which series or query it lacks.",
                    runbook="VLLMScalerNoData",
                    span=8,
                ),
                Query(chosen("signal_missing", by=("signal",)), "{{signal}}"),
                names=_MISSING,
            )
        )
        .with_panel(
            lines(
                About(
                    title="Ages",
                    text="Of the newest decision, of the newest data that decided, and of the newest sample in it. When"
                    " the first grows, the scaler stands still; when the second does, Prometheus or vLLM is silent.",
                    runbook="VLLMScalerNoData",
                    span=8,
                ),
                Query(chosen("decision_age_seconds"), "decision"),
                Query(chosen("data_age_seconds"), "data"),
                Query(chosen("sample_age_seconds"), "sample"),
                unit="s",
                steps=((600, RED),),
            )
        )
        .with_panel(
            lines(
                About(
                    title="Ready replicas without metrics",
                    text="Replicas that Kubernetes calls ready and that report nothing: their load is unknown, so"
                    " nothing scales down. When it stays above 0, look at the targets of Prometheus.",
                    runbook="VLLMScalerNoData",
                    span=8,
                ),
                Query(unreported, "unreported"),
                unit="short",
                whole=True,
                steps=((1, RED),),
            )
        )
    )


def _scaler(board: builders.Dashboard) -> builders.Dashboard:
    p95 = "histogram_quantile({share:g}, {rate})"
    return (
        board.with_row(builders.Row("The scaler itself"))
        .with_panel(
            number(
                About(
                    title="Replicas of the scaler",
                    text="Those that Prometheus scrapes. When it is fewer than are deployed, one is down or not"
                    " scraped; when there is none, KEDA gets no answer and replicas stay.",
                    runbook="VLLMScalerDown",
                    span=4,
                ),
                Query("count(vllm_scaler_build_info)"),
                unit="short",
                empty="0",
            )
        )
        .with_panel(
            lines(
                About(
                    title="Queries: how long",
                    text="P95 of Prometheus' answers, by query. When one nears query_timeout, give Prometheus more room"
                    " or raise query_concurrency; the latency query is the dearest.",
                    runbook="VLLMScalerPrometheusSlow",
                    span=10,
                ),
                Query(
                    p95.format(share=0.95, rate=service("query_duration_seconds_bucket", "le,backend,query")),
                    "{{backend}} {{query}}",
                ),
                unit="s",
            )
        )
        .with_panel(
            lines(
                About(
                    title="Queries: errors",
                    text="Queries without a usable answer per second, by backend and kind. When there are some, pools"
                    " lose signals: timeout and unavailable are of Prometheus, rejected and decode of what is asked.",
                    runbook="VLLMScalerPrometheusSlow",
                    span=10,
                ),
                Query(
                    f"{service('query_errors_total', 'backend,query,error')}"
                    f" or {service('query_duration_seconds_count', 'backend')} * 0",
                    "{{backend}} {{query}} {{error}}",
                ),
                unit="reqps",
            )
        )
        .with_panel(
            lines(
                About(
                    title="Ticks",
                    text="P95 of the time of one evaluation of all pools, and ticks that were missed per second. When"
                    " ticks are missed, evaluation takes longer than its interval: look at the queries.",
                    runbook="VLLMScalerPrometheusSlow",
                    span=6,
                ),
                Query(p95.format(share=0.95, rate=service("tick_duration_seconds_bucket", "le")), "duration P95"),
                Query(service("skipped_ticks_total", ""), "missed"),
                unit="s",
                style={"missed": Line(RED, unit="ops")},
            )
        )
        .with_panel(
            lines(
                About(
                    title="KEDA's calls",
                    text="Calls per second by method and status. When others than OK and CANCELLED come, read the"
                    " events of the ScaledObjects: KEDA writes our error into them.",
                    runbook="VLLMScalerDown",
                    span=6,
                ),
                Query(service("grpc_handled_total", "method,code"), "{{method}} {{code}}"),
                unit="reqps",
            )
        )
        .with_panel(
            lines(
                About(
                    title="KEDA's calls: how long",
                    text="P99 by method. When it is above 1 s, the process is short of CPU: KEDA and the HPA wait"
                    " for every answer.",
                    span=6,
                ),
                Query(p95.format(share=0.99, rate=service("grpc_handling_seconds_bucket", "le,method")), "{{method}}"),
                unit="s",
                steps=((1, RED),),
            )
        )
        .with_panel(
            lines(
                About(
                    title="Faults",
                    text="Unexpected errors that were survived, by where. When it is not 0, there is a bug: its"
                    " traceback is in the log once, please report it.",
                    span=6,
                ),
                Query(
                    f"{service('internal_errors_total', 'where')} or {service('ticks_total', '')} * 0",
                    "in {{where}}",
                ),
                unit="short",
                steps=((0.001, RED),),
            )
        )
        .with_panel(
            lines(
                About(
                    title="Memory",
                    text="Resident memory of each replica. When it nears the limit of the container, raise the limit:"
                    " it grows with the number of pools and their replicas.",
                    span=12,
                ),
                Query("process_resident_memory_bytes and on (instance) vllm_scaler_build_info", "{{instance}}"),
                unit="bytes",
            )
        )
        .with_panel(
            lines(
                About(
                    title="CPU",
                    text="Processors that each replica uses. When it stays near 1, the event loop is full: run more"
                    " replicas only if KEDA spreads its calls, else fewer pools for each.",
                    span=12,
                ),
                Query(
                    "rate(process_cpu_seconds_total[$__rate_interval]) and on (instance) vllm_scaler_build_info",
                    "{{instance}}",
                ),
                unit="short",
            )
        )
    )
