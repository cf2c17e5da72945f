"""How fast engines are: presets fitted to published measurements and to our own captures, and what a replica carries.

A preset is a straight line through measurements: its error is said with it. It is there for the shape of things (a full
batch is slower, a long prompt holds up everybody, a cache fills), not for the speed of a certain machine: measure yours
with ``vllm bench serve``.
"""

import difflib
import itertools
import math
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from scaler.errors import ScalerError
from scaler.sim.engine import EngineSpec
from scaler.sim.workload import Load, TokenLengths

_BEGINNING_S: Final = 300.0
_BUSY: Final = 0.8


class PresetError(ScalerError):
    """An engine that is not known."""


@dataclass(frozen=True, slots=True)
class EnginePreset:
    """An engine, and where its numbers come from."""

    engine: EngineSpec
    source: str


# Splitwise's measurements (github.com/Mutinifni/splitwise-sim, data/perf_model.csv, MIT): time of a prompt and a token
# for Llama 2 70B, prompts of 128 to 8192 tokens, batches of 1 to 64. Least squares of the relative error.
_SPLITWISE: Final = (
    "Splitwise's measurements of Llama 2 70B; time of a token within 7 % of all, time of a prompt within {} %"
)
# SageServe's (github.com/shashwatj07/SageServe, data/Llama-3.1-8B-tp-2.csv, MIT): the same for batches of 1 to 32. Its
# times of a prompt do not grow with the batch, so those of a batch of 1 are taken.
_SAGESERVE: Final = (
    "SageServe's measurements of Llama 3.1 8B on two A100; time of a token within 5 % up to prompts of 4,096 tokens"
)
_CAPTURES: Final = (
    "our captures of vLLM 0.32 on a CPU: 1 request at a time, and 24 at once; see docs/concepts/simulator.md"
)

# KV capacities: 90 % of the GPUs' memory without the weights in 16 bits, at 320 KiB (70B) or 128 KiB (8B) a token.
PRESETS: Final[Mapping[str, EnginePreset]] = {
    "llama-3.1-8b-a100x2": EnginePreset(
        EngineSpec(
            slots=64,
            kv_capacity_tokens=976_000,
            step_s=0.0085,
            step_per_sequence_s=0.0002,
            prefill_tokens_per_s=16_000.0,
            step_per_kv_token_s=7e-8,
        ),
        _SAGESERVE,
    ),
    "llama-2-70b-h100x4": EnginePreset(
        EngineSpec(
            slots=64,
            kv_capacity_tokens=451_000,
            step_s=0.0288,
            step_per_sequence_s=0.000264,
            prefill_tokens_per_s=12_400.0,
            step_per_kv_token_s=1.01e-7,
        ),
        _SPLITWISE.format(28),
    ),
    "llama-2-70b-a100x8": EnginePreset(
        EngineSpec(
            slots=64,
            kv_capacity_tokens=1_330_000,
            step_s=0.0438,
            step_per_sequence_s=0.0,
            prefill_tokens_per_s=8_000.0,
            step_per_kv_token_s=6.53e-7,
        ),
        _SPLITWISE.format(50),
    ),
    "tiny-llama-cpu": EnginePreset(
        EngineSpec(
            slots=4,
            kv_capacity_tokens=262_144,
            step_s=0.0035,
            step_per_sequence_s=0.00015,
            prefill_tokens_per_s=6000.0,
            step_per_kv_token_s=3.0e-6,
            block_tokens=128,
        ),
        _CAPTURES,
    ),
}
"""Every preset by its name: model and hardware."""


def preset(name: str) -> EnginePreset:
    """Return a preset.

    Raises:
        PresetError: The name is not known.
    """
    if name not in PRESETS:
        meant = difflib.get_close_matches(name, PRESETS, n=1)
        hint = f"did you mean {meant[0]}?" if meant else f"there are {', '.join(PRESETS)}"
        raise PresetError(f"the engine {name} is not known: {hint}")
    return PRESETS[name]


def replica_rate(engine: EngineSpec, prompt: TokenLengths, output: TokenLengths) -> float:
    """Return the requests per second that keep one replica just busy: all slots, or all of its KV cache.

    With B requests in the batch, each takes its output's steps and the time of B prompts, since all prompts that come
    while it runs hold it up: rate = B / (output * step + B * prompt / prefill_tokens_per_s). Worked: 16 slots, steps of
    100 ms when all are used, 400 prompt tokens at 4000/s and 570 output tokens: 16 / (57 + 1.6) = 0.273/s.
    """
    tokens = prompt.mean + output.mean
    batch = min(float(engine.slots), engine.kv_capacity_tokens / tokens)
    held = batch * (prompt.mean + output.mean / 2)
    step_s = engine.step_s + engine.step_per_sequence_s * batch + engine.step_per_kv_token_s * held
    return batch / (output.mean * step_s + batch * prompt.mean / engine.prefill_tokens_per_s)


def replicas_for(load: Load, engine: EngineSpec, *, seed: int) -> int:
    """Return how many replicas the first minutes of an open loop keep four fifths busy, at least one."""
    first = list(itertools.takewhile(lambda request: request.arrived_at < _BEGINNING_S, load.open(seed).arrivals))
    if not first:
        return 1
    prompt, output = (
        TokenLengths(max(1, round(sum(lengths) / len(first))), spread=0.0, longest=sys.maxsize)
        for lengths in zip(*((request.prompt_tokens, request.output_tokens) for request in first), strict=True)
    )
    rate = len(first) / min(_BEGINNING_S, load.duration_s)
    return math.ceil(rate / (_BUSY * replica_rate(engine, prompt, output)))
