"""Workloads by name, for the command line, for benchmarks and for tests.

Rates are in replicas' worth: 1 is what keeps one replica just busy. So a workload means the same for every engine; only
recorded traces come as they were recorded, times a fixed factor.
"""

import difflib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from scaler.errors import ScalerError
from scaler.sim.traces import Trace, TraceFormat
from scaler.sim.workload import (
    InSequence,
    Load,
    LoadProfile,
    TokenLengths,
    Traffic,
    diurnal,
    flash_crowd,
    ramp,
    steps,
)

CHAT_PROMPT: Final = TokenLengths(median=600, spread=1.0, longest=8000)
"""Prompts of the synthetic workloads: 990 tokens on average, P95 3,100; Azure's conversations have 1,155 and 4,083."""
CHAT_OUTPUT: Final = TokenLengths(median=180, spread=0.5, longest=1000)
"""Their answers: 204 tokens on average, P95 410; Azure's conversations have 211 and 451."""
_LONG_PROMPT: Final = TokenLengths(median=4800, spread=0.5, longest=12_000)
_HOUR_S: Final = 3600.0


class WorkloadError(ScalerError):
    """A workload that is not known, or whose trace is not there."""


@dataclass(frozen=True, slots=True)
class NamedWorkload:
    """One workload."""

    summary: str
    build: Callable[[float, Path], Load]
    """Takes the requests per second that keep one replica just busy, and the folder with the traces."""


@dataclass(frozen=True, slots=True)
class _TraceFile:
    """A public trace: its file, how it is written, and where everybody can get it."""

    name: str
    format: TraceFormat
    source: str


_AZURE: Final = "https://github.com/Azure/AzurePublicDataset (data/)"
_AZURE_CONVERSATION: Final = _TraceFile("AzureLLMInferenceTrace_conv.csv", TraceFormat.AZURE, _AZURE)
_AZURE_CODE: Final = _TraceFile("AzureLLMInferenceTrace_code.csv", TraceFormat.AZURE, _AZURE)
_MOONCAKE: Final = _TraceFile(
    "conversation_trace.jsonl",
    TraceFormat.MOONCAKE,
    "https://github.com/kvcache-ai/Mooncake (FAST25-release/traces/)",
)


def workload(name: str, *, replica_rate: float, traces: Path) -> Load:
    """Return a workload.

    Args:
        name: One of ``WORKLOADS``.
        replica_rate: Requests per second that keep one replica just busy, with the lengths of ``CHAT_PROMPT`` and
            ``CHAT_OUTPUT``; see ``scaler.sim.performance.replica_rate``.
        traces: The folder that has the recorded traces, in it or in folders of it.

    Raises:
        WorkloadError: The name is not known, or the trace is not there.
    """
    if name not in WORKLOADS:
        meant = difflib.get_close_matches(name, WORKLOADS, n=1)
        hint = f"did you mean {meant[0]}?" if meant else f"there are {', '.join(WORKLOADS)}"
        raise WorkloadError(f"the workload {name} is not known: {hint}")
    return WORKLOADS[name].build(replica_rate, traces)


def _chat(summary: str, profile: Callable[[float], LoadProfile], *, variation: float = 1.0) -> NamedWorkload:
    """Return synthetic chat traffic at a profile that follows from the rate of one replica."""
    return NamedWorkload(summary, lambda rate, _: Traffic(profile(rate), CHAT_PROMPT, CHAT_OUTPUT, variation))


def _constant(load: float) -> NamedWorkload:
    return _chat(f"an hour of {load:g} replicas' worth", lambda rate: steps((_HOUR_S, load * rate)))


def _step(before: float, after: float) -> NamedWorkload:
    return _chat(
        f"half an hour of {before:g} replicas' worth, then an hour of {after:g}",
        lambda rate: steps((_HOUR_S / 2, before * rate), (_HOUR_S, after * rate)),
    )


def _long_prompts(rate: float, _: Path) -> Load:
    """Two replicas' worth of chat; then as many requests, with prompts eight times as long at their median."""
    before = Traffic(steps((_HOUR_S / 2, 2 * rate)), CHAT_PROMPT, CHAT_OUTPUT)
    after = Traffic(steps((_HOUR_S / 2, 2 * rate)), _LONG_PROMPT, CHAT_OUTPUT)
    return InSequence((before, after))


def _recorded(summary: str, file: _TraceFile, times: float = 1.0) -> NamedWorkload:
    return NamedWorkload(summary, lambda _, traces: Trace(_found(file, traces), file.format, times))


def _found(file: _TraceFile, folder: Path) -> Path:
    for path in (folder / file.name, *sorted(folder.glob(f"*/{file.name}"))):
        if path.is_file():
            return path
    raise WorkloadError(
        f"{file.name} is neither in {folder} nor in a folder of it: get it from {file.source},"
        " or name the folder that has it"
    )


WORKLOADS: Final[Mapping[str, NamedWorkload]] = {
    "constant-0.5": _constant(0.5),
    "constant-2": _constant(2.0),
    "constant-5": _constant(5.0),
    "step-up": _step(2.0, 6.0),
    "step-down": _step(6.0, 2.0),
    "ramp": _chat("an hour from 1 to 8 replicas' worth", lambda rate: ramp(_HOUR_S, rate, 8 * rate)),
    "diurnal": _chat(
        "a day in six hours, from 1 to 6 replicas' worth and back",
        lambda rate: diurnal(6 * _HOUR_S, rate, 6 * rate),
    ),
    "flash-crowd": _chat(
        "2 replicas' worth, within a minute 10 for ten minutes, and ten minutes back",
        lambda rate: flash_crowd(2 * rate, 10 * rate, quiet_s=1200.0, rise_s=60.0, hold_s=600.0, ebb_s=600.0),
    ),
    "gamma-bursts": _chat(
        "an hour of 3 replicas' worth in bursts: gaps scatter four times as much as they are long",
        lambda rate: steps((_HOUR_S, 3 * rate)),
        variation=4.0,
    ),
    "long-prompts": NamedWorkload(
        "half an hour of 2 replicas' worth, then as many requests with prompts eight times as long", _long_prompts
    ),
    "azure-conversation": _recorded("58 min of an Azure conversation service, 2023", _AZURE_CONVERSATION),
    "azure-conversation-x3": _recorded("the same with three times the requests", _AZURE_CONVERSATION, 3.0),
    "azure-code": _recorded("57 min of an Azure coding service, 2023", _AZURE_CODE),
    "azure-code-x2": _recorded("the same with twice the requests", _AZURE_CODE, 2.0),
    "mooncake-conversation": _recorded("59 min of a chat service with long contexts, 2024", _MOONCAKE),
}
"""Every workload by its name."""
