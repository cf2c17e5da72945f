"""What is remembered of a latency: its base, and whether more replicas lower it.

Futility: a latency that two increases made for it alone did not lower by a tenth, once their replicas had served for a
full rate window, asks for no more, until it is within its objective again or the saturation asks for replicas too.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from scaler.model import Absent, Observation, PoolPolicy, Reading

BASE_SPAN_S: Final = 3600.0
"""How far back the base is looked for: one hour, so that a slow day passes."""
_BASE_STEP_S: Final = 60.0
"""The base is kept as one minimum a minute: at most 61 of them, whatever the tick."""
FUTILE_AFTER: Final = 2
"""One increase may come with more load; a second without effect is no accident."""
WORTHWHILE_RATIO: Final = 0.9
"""An increase has helped if the latency is below this share of what it was."""


@dataclass(frozen=True, slots=True)
class Trial:
    """An increase that was made for a latency alone: what it was, in seconds, and the replicas it went to."""

    before_s: float
    replicas: int


@dataclass(frozen=True, slots=True)
class LatencyMemory:
    """What is remembered of one latency.

    Args:
        name: The signal's name.
        minima: (minute's start, smallest P95 of a quiet pool in it) over the last hour, or the newest if that is older.
        trial: The increase that is still to be judged.
        failures: How many increases in a row did not lower it.
    """

    name: str
    minima: tuple[tuple[float, float], ...] = ()
    trial: Trial | None = None
    failures: int = 0

    @property
    def base_s(self) -> float:
        """What more replicas cannot mend: the smallest of a quiet pool; 0 while none was seen."""
        return min((value for _, value in self.minima), default=0.0)

    @property
    def futile(self) -> bool:
        """Whether more replicas have not helped."""
        return self.failures >= FUTILE_AFTER


def with_base(
    memory: LatencyMemory, policy: PoolPolicy, observation: Observation, value: Reading, *, was_quiet: bool
) -> LatencyMemory:
    """Return the memory with this observation's latency among the minima, and those older than an hour out.

    Only a quiet pool tells its base: nothing has waited for the whole rate window (``was_quiet``), so that no latency
    in it is of a queue, and fewer run than ``latencyMinSaturation`` of the slots. The newest minimum stays however old
    it is: a pool that is busy for hours does not forget what cannot be mended.
    """
    minute = observation.at // _BASE_STEP_S * _BASE_STEP_S
    minima = memory.minima
    kept = minima
    if minima and not minute - BASE_SPAN_S <= minima[0][0] <= minima[-1][0] <= minute:
        kept = tuple(entry for entry in minima if minute - BASE_SPAN_S <= entry[0] <= minute) or minima[-1:]
    running, serving = observation.running, observation.serving
    if isinstance(value, Absent) or isinstance(running, Absent) or isinstance(serving, Absent):
        return memory if kept is minima else replace(memory, minima=kept)
    quiet_below = policy.latency_min_saturation * policy.slots_per_replica * serving
    if not was_quiet or running >= quiet_below:
        return memory if kept is minima else replace(memory, minima=kept)
    if kept and kept[-1][0] == minute:
        if kept[-1][1] <= value:
            return memory if kept is minima else replace(memory, minima=kept)
        return replace(memory, minima=(*kept[:-1], (minute, value)))
    return replace(memory, minima=(*kept, (minute, value)))


def judged(
    memory: LatencyMemory,
    value: Reading,
    *,
    objective_s: float,
    fewest_serving: int | None,
    saturated: bool,
) -> LatencyMemory:
    """Return the memory after looking at whether the last increase for this latency has helped.

    Args:
        memory: The latency.
        value: Its newest P95, seconds.
        objective_s: Its objective.
        fewest_serving: The smallest serving count of a full rate window; None if that is unknown.
        saturated: Whether the saturation asks for replicas too: then latency is not alone, and may ask again.
    """
    if memory.trial is None and memory.failures == 0:
        return memory
    if saturated or (not isinstance(value, Absent) and value <= objective_s):
        return replace(memory, trial=None, failures=0)
    trial = memory.trial
    if trial is None or isinstance(value, Absent) or fewest_serving is None or fewest_serving < trial.replicas:
        return memory
    helped = value < WORTHWHILE_RATIO * trial.before_s
    return replace(memory, trial=None, failures=0 if helped else memory.failures + 1)


def memory_of(memories: Sequence[LatencyMemory], name: str) -> LatencyMemory:
    """Return what is remembered of the latency of this name."""
    for memory in memories:
        if memory.name == name:
            return memory
    return LatencyMemory(name)
