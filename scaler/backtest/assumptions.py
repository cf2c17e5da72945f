"""What a backtest takes for granted, in sentences that stand in every report."""

from collections.abc import Sequence
from typing import Final

from scaler.backtest.replay import Backtest
from scaler.units import format_duration

ADVICE: Final = (
    (
        "Advice mode: each decision is made on what was really there at that tick, the recorded load and the recorded"
        " replicas, as the service would have made it then."
    ),
    (
        "Nothing follows the advice: the next tick sees the recorded replicas again, so a step is one step from those,"
        " and how the load would have looked with other replicas is left open."
    ),
    "Replica-hours are of the replicas that the HPA would have gone to from there.",
)
COUNTERFACTUAL: Final = (
    (
        "Counterfactual mode: from the first tick on the replicas are the policy's own. The HPA goes where the reported"
        " value takes it by the next tick, and has no policies or windows of its own."
    ),
    (
        "Requests in flight are those that were recorded: other replicas neither end them sooner nor keep them longer."
        " So a backlog that more replicas would have worked off counts for as long as it was recorded."
    ),
    (
        "As many of them run on each serving replica as it has slots, whatever the routing; the rest waits. KV-cache"
        " usage goes with the running requests and is the same on all replicas."
    ),
    (
        "While other replicas serve than were recorded, latencies are not known: they ask neither for more replicas nor"
        " for as many. For how long is in the totals."
    ),
    "Everything else is as recorded: token rates, preemptions, GPU use, rollouts, named queries, and what is missing.",
)


def assumptions(backtest: Backtest, measured_s: Sequence[float] = ()) -> tuple[str, ...]:
    """Return what the figures rest on.

    Args:
        backtest: What was compared.
        measured_s: The cold starts that were found in the history; none where the cold start was given.
    """
    replicas = [case.replica for case in backtest.cases if case.replica is not None]
    if not replicas:
        return ADVICE
    slots = " or ".join(str(each) for each in sorted({replica.slots for replica in replicas}))
    starts = " or ".join(format_duration(each) for each in sorted({replica.cold_start_s for replica in replicas}))
    source = "as given"
    if measured_s:
        count, least, most = len(measured_s), format_duration(min(measured_s)), format_duration(max(measured_s))
        source = f"the median of {count} starts in the history, of {least} to {most}"
        if least == most:
            source = "the only start in the history" if count == 1 else f"as all {count} starts in the history"
    return (
        *COUNTERFACTUAL,
        f"A replica has {slots} slots, under whatever policy.",
        f"A new replica serves after {starts} ({source}); one that is removed goes at once.",
    )
