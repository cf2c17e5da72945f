"""The workloads of the arena: what is simple enough to see what a law does, and recorded traffic.

The synthetic ones have a load in replicas' worth: 1 fills the slots of one replica. Their requests take about a minute,
so that an hour is a few thousand of them and a queue of some requests is long enough to matter.
"""

from dataclasses import replace
from pathlib import Path
from typing import Final, NamedTuple

from scaler.sim.arena import Workload
from scaler.sim.engine import EngineSpec
from scaler.sim.fleet import FleetSpec
from scaler.sim.performance import preset, replica_rate
from scaler.sim.request import Slo
from scaler.sim.traces import Trace
from scaler.sim.workload import InSequence, LoadProfile, TokenLengths, Traffic, diurnal, flash_crowd, ramp, steps
from scaler.sim.workloads import WorkloadError, workload

SLOTS: Final = 16
ENGINE: Final = EngineSpec(
    slots=SLOTS,
    # About three quarters full when all slots are in use.
    kv_capacity_tokens=16_000,
    step_s=0.08,
    step_per_sequence_s=0.00125,
    prefill_tokens_per_s=4000.0,
)
COLD_START_S: Final = 120.0
SPREAD: Final = 0.1
PROMPT: Final = TokenLengths(400, 0.3, 2000)
ANSWER: Final = TokenLengths(570, 0.3, 2000)
LONG_PROMPT: Final = TokenLengths(1600, 0.3, 4000)
SLO: Final = Slo(ttft_s=2.5, tpot_s=0.15, e2e_s=240.0)
"""TTFT is our default; a step of a full batch takes 0.1 s, and the longest answer 200 s."""
REPLICA_RATE: Final = replica_rate(ENGINE, PROMPT, ANSWER)
"""Requests per second that fill the slots of one replica, prefills included."""

RECORDED_ENGINE: Final = preset("llama-2-70b-h100x4").engine
CHAT_SLO: Final = Slo(ttft_s=2.5, tpot_s=0.2, e2e_s=120.0)
LONG_SLO: Final = Slo(ttft_s=30.0, tpot_s=0.2, e2e_s=240.0)
"""Mooncake's own objective for the first token: its longest prompts take ten seconds on an idle replica."""
_QUICK_TRACE_S: Final = 900.0
RECORDED: Final = {
    "azure-conversation-x3": CHAT_SLO,
    "azure-code-x2": CHAT_SLO,
    "mooncake-conversation": LONG_SLO,
}
"""Recorded workloads by name, each with its objectives."""
_CONSTANT: Final = (0.5, 2.0, 5.0, 10.0)
_QUICK_CONSTANT: Final = (0.5, 2.0, 5.0)


def synthetic(*, quick: bool) -> tuple[Workload, ...]:
    """Return the synthetic workloads; the quick ones are shorter."""
    unit_s = 600.0 if quick else 1200.0
    constant = tuple(
        _workload(f"constant {load:g}", steps((2 * unit_s if quick else 3600.0, _rate(load))), is_constant=True)
        for load in (_QUICK_CONSTANT if quick else _CONSTANT)
    )
    return (
        *constant,
        _workload("step up", steps((unit_s, _rate(2)), (2 * unit_s, _rate(6))), step_at_s=unit_s),
        _workload("step down", steps((unit_s, _rate(6)), (2 * unit_s, _rate(2)))),
        _workload("ramp", _joined(steps((unit_s / 2, _rate(1))), ramp(unit_s, _rate(1), _rate(8)),
                                  steps((unit_s / 2, _rate(8))), ramp(unit_s, _rate(8), _rate(1)))),
        _workload("bursts", steps((3 * unit_s, _rate(4))), variation=4.0),
        _workload("flash crowd", flash_crowd(_rate(2), _rate(12), quiet_s=unit_s / 2, rise_s=60.0, hold_s=unit_s / 2,
                                             ebb_s=unit_s / 4), step_at_s=unit_s / 2),
        _workload("diurnal", diurnal(2.0 * unit_s if quick else 7200.0, _rate(1), _rate(8))),
        Workload(
            "long prompts",
            InSequence(
                (
                    Traffic(steps((unit_s, _rate(4))), PROMPT, ANSWER),
                    Traffic(steps((2 * unit_s, _rate(4))), LONG_PROMPT, ANSWER),
                )
            ),
            _fleet(ENGINE),
            SLO,
            step_at_s=unit_s,
        ),
    )  # fmt: skip


class Recorded(NamedTuple):
    """Recorded workloads: those that there are, and why others are not."""

    workloads: tuple[Workload, ...]
    left_out: tuple[str, ...]


def recorded(traces: Path, *, quick: bool) -> Recorded:
    """Return the recorded workloads; the quick ones are their first quarter of an hour.

    Args:
        traces: The folder with the traces.
        quick: Whether to shorten them.
    """
    found, left_out = [], []
    for name, slo in RECORDED.items():
        try:
            load = workload(name, replica_rate=1.0, traces=traces)
        except WorkloadError as error:
            left_out.append(f"{name}: {error}")
            continue
        if quick and isinstance(load, Trace):
            load = replace(load, stop_s=_QUICK_TRACE_S)
        found.append(Workload(name, load, _fleet(RECORDED_ENGINE), slo))
    return Recorded(tuple(found), tuple(left_out))


def _workload(
    name: str,
    profile: LoadProfile,
    *,
    variation: float = 1.0,
    step_at_s: float | None = None,
    is_constant: bool = False,
) -> Workload:
    traffic = Traffic(profile, PROMPT, ANSWER, variation)
    return Workload(name, traffic, _fleet(ENGINE), SLO, step_at_s=step_at_s, is_constant=is_constant)


def _fleet(engine: EngineSpec) -> FleetSpec:
    return FleetSpec("vllm", engine, cold_start_s=COLD_START_S, cold_start_spread=SPREAD)


def _rate(load: float) -> float:
    return load * REPLICA_RATE


def _joined(*profiles: LoadProfile) -> LoadProfile:
    return LoadProfile(tuple(phase for profile in profiles for phase in profile.phases))
