"""A decision as a few sentences that can be read aloud: what, why, since when, what limited it, and what it costs."""

from scaler.model import Action, Decision, Protection, ReasonCode
from scaler.policy.explain import count_of
from scaler.units import format_duration, format_number


def narrate(decision: Decision) -> str:
    """Return the decision in words, one sentence for each thing that matters."""
    sentences = [_what(decision)]
    sentences += [reason.text for reason in decision.reasons[1:]]
    if decision.over_since is not None and decision.at > decision.over_since:
        asked_s = decision.at - decision.over_since
        sentences.append(f"this has been asked for {format_duration(asked_s)} without a break")
    sentences += [limit.text for limit in decision.limits if limit not in decision.reasons]
    if cost := _cost(decision):
        sentences.append(cost)
    if decision.protection is not Protection.NONE:
        sentences.append(f"protection grade {decision.protection.value}: {decision.protection_reason}")
    sentences += [f"note: {diagnostic.text}" for diagnostic in decision.diagnostics]
    return ". ".join(sentence[:1].upper() + sentence[1:] for sentence in sentences) + "."


def _what(decision: Decision) -> str:
    why = decision.reason.text
    before, after = decision.from_replicas, decision.target
    if after is None:
        return f"no answer: {why}"
    if decision.action is Action.HOLD or before is None:
        return f"hold {count_of(after)}: {why}"
    verb = "scale up" if decision.action is Action.SCALE_UP else "scale down"
    return f"{verb} from {before} to {count_of(after)}: {why}"


def _cost(decision: Decision) -> str:
    if decision.hourly_cost is None or decision.action is Action.HOLD:
        return ""
    text = f"that costs {format_number(decision.hourly_cost)} an hour"
    limit = decision.max_hourly_cost
    return text if limit is None else f"{text}, within the {format_number(limit)} allowed"


def waits_for(decision: Decision) -> str:
    """Return what a hold waits for, as short as can be: "2 of 20 windows", "41 s", "its past", or "" for nothing."""
    for reason in decision.reasons:
        if reason.windows is not None:
            return f"{reason.windows[0]} of {reason.windows[1]} windows"
        if reason.left_s is not None:
            return format_duration(reason.left_s)
        if reason.code is ReasonCode.FILLING_HISTORY:
            return "its past"
        if reason.code in (ReasonCode.REPLICAS_STARTING, ReasonCode.REPLICAS_STUCK):
            return f"{count_of(decision.pending)} still starting"
    return ""
