"""Workloads by name, and what one replica is said to carry."""

from pathlib import Path

import pytest

from scaler.sim.fleet import Fleet, FleetSpec
from scaler.sim.performance import PRESETS, PresetError, preset, replica_rate
from scaler.sim.request import Request
from scaler.sim.traces import Trace
from scaler.sim.workload import ClosedLoop, TokenLengths
from scaler.sim.workloads import CHAT_OUTPUT, CHAT_PROMPT, WORKLOADS, WorkloadError, workload

RECORDED = [name for name in WORKLOADS if name.startswith(("azure", "mooncake"))]
SYNTHETIC = [name for name in WORKLOADS if name not in RECORDED]
NOWHERE = Path("nowhere")


def between(requests: list[Request], start_s: float, stop_s: float) -> float:
    """Requests per second."""
    return sum(start_s <= request.arrived_at < stop_s for request in requests) / (stop_s - start_s)


@pytest.mark.parametrize("name", SYNTHETIC)
def test_a_workload_is_made_of_a_seed_and_follows_the_rate_of_one_replica(name: str) -> None:
    load = workload(name, replica_rate=0.1, traces=NOWHERE)
    found = list(load.open(1).arrivals)
    busier = list(workload(name, replica_rate=0.2, traces=NOWHERE).open(1).arrivals)

    assert found == list(load.open(1).arrivals) != list(load.open(2).arrivals)
    assert [one.arrived_at for one in found] == sorted(one.arrived_at for one in found)
    assert found[0].arrived_at >= 0
    assert found[-1].arrived_at < load.duration_s
    assert len(busier) / len(found) == pytest.approx(2, rel=0.3)


@pytest.mark.parametrize(
    ("name", "rates"),
    [
        ("step-up", [(0, 1800, 2), (1800, 5400, 6)]),
        ("step-down", [(0, 1800, 6), (1800, 5400, 2)]),
        ("ramp", [(0, 360, 1.35), (3240, 3600, 7.65)]),
        ("diurnal", [(0, 900, 1.03), (10350, 11250, 5.97), (20700, 21600, 1.03)]),
        ("flash-crowd", [(0, 1200, 2), (1260, 1860, 10), (2460, 3660, 2)]),
    ],
)
def test_the_load_is_where_its_summary_says(name: str, rates: list[tuple[float, float, float]]) -> None:
    found = list(workload(name, replica_rate=2.0, traces=NOWHERE).open(1).arrivals)

    assert [between(found, *window) / 2.0 for *window, _ in rates] == pytest.approx(
        [rate for *_, rate in rates], rel=0.07
    )


def test_prompts_get_longer_and_requests_do_not_come_more_often() -> None:
    found = list(workload("long-prompts", replica_rate=2.0, traces=NOWHERE).open(1).arrivals)
    prompts = [[one.prompt_tokens for one in found if (one.arrived_at >= 1800) is late] for late in (False, True)]

    assert between(found, 0, 1800) == pytest.approx(between(found, 1800, 3600), rel=0.05)
    assert sum(prompts[1]) / len(prompts[1]) > 4 * sum(prompts[0]) / len(prompts[0])


def test_an_unknown_name_gets_the_nearest() -> None:
    with pytest.raises(WorkloadError, match="did you mean azure-conversation-x3"):
        workload("azure-conversations-x3", replica_rate=1.0, traces=NOWHERE)
    with pytest.raises(WorkloadError, match="there are constant-0"):
        workload("?", replica_rate=1.0, traces=NOWHERE)


@pytest.mark.parametrize("name", RECORDED)
def test_a_trace_that_is_not_there_is_said_where_to_get(name: str, tmp_path: Path) -> None:
    with pytest.raises(WorkloadError, match=r"get it from https://github\.com/.*or name the folder that has it"):
        workload(name, replica_rate=1.0, traces=tmp_path)


@pytest.mark.parametrize("place", ["", "azure-2023"])
def test_a_trace_is_found_in_the_folder_or_in_one_of_it(place: str, tmp_path: Path) -> None:
    file = tmp_path / place / "AzureLLMInferenceTrace_conv.csv"
    file.parent.mkdir(exist_ok=True)
    file.write_text("TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:17:03,4808,10\n")

    load = workload("azure-conversation-x3", replica_rate=1.0, traces=tmp_path)

    assert isinstance(load, Trace)
    assert (load.path, load.times) == (file, 3.0)
    assert len(list(load.open(1).arrivals)) == 3


@pytest.mark.parametrize("name", PRESETS)
@pytest.mark.parametrize("prompt", [CHAT_PROMPT, TokenLengths(median=4000, spread=0.3, longest=20_000)])
def test_a_replica_carries_what_it_is_said_to(name: str, prompt: TokenLengths) -> None:
    engine = preset(name).engine
    full = ClosedLoop(2 * engine.slots, 1000 + engine.slots, prompt, CHAT_OUTPUT, duration_s=1e9).open(1)
    fleet = Fleet(FleetSpec("vllm", engine, 1.0), replicas=1, arrivals=full.arrivals, follow_up=full.follow_up, seed=1)
    ended = [one.ended_at for one in fleet.advance(1e6)]
    # Without the beginning, when all start together, and the end, when the last ones are alone.
    steady = ended[3 * engine.slots : 1000 - engine.slots]

    served = (len(steady) - 1) / (steady[-1] - steady[0])
    assert replica_rate(engine, prompt, CHAT_OUTPUT) == pytest.approx(served, rel=0.12)


def test_the_worked_rate_of_one_replica() -> None:
    from tests.steadiness import ENGINE  # noqa: PLC0415 - its policies are not needed by the other tests here

    assert replica_rate(ENGINE, TokenLengths(400, 0.0, 2000), TokenLengths(570, 0.0, 2000)) == pytest.approx(
        0.273, abs=0.0005
    )


@pytest.mark.parametrize(
    ("name", "batch", "prompt", "output", "token_s"),
    [
        # Medians of the published measurements, at the middle of the answer.
        *(("llama-2-70b-h100x4", 1, 512, 128, 0.0296), ("llama-2-70b-h100x4", 16, 512, 128, 0.0328)),
        *(("llama-2-70b-h100x4", 32, 512, 128, 0.0369), ("llama-2-70b-h100x4", 64, 512, 128, 0.0520)),
        *(("llama-2-70b-a100x8", 1, 8192, 128, 0.0464), ("llama-2-70b-a100x8", 16, 512, 128, 0.0504)),
        *(("llama-2-70b-a100x8", 64, 512, 128, 0.0713), ("llama-3.1-8b-a100x2", 1, 128, 128, 0.0086)),
        *(("llama-3.1-8b-a100x2", 16, 512, 128, 0.0123), ("llama-3.1-8b-a100x2", 32, 512, 128, 0.0162)),
        ("llama-3.1-8b-a100x2", 1, 4096, 128, 0.0088),
    ],
)
def test_a_preset_is_as_fast_as_what_was_measured(
    name: str, batch: int, prompt: int, output: int, token_s: float
) -> None:
    engine = preset(name).engine
    held = batch * (prompt + output / 2)

    step_s = engine.step_s + engine.step_per_sequence_s * batch + engine.step_per_kv_token_s * held
    assert step_s == pytest.approx(token_s, rel=0.07)


def test_an_unknown_engine_gets_the_nearest() -> None:
    with pytest.raises(PresetError, match="did you mean llama-2-70b-h100x4"):
        preset("llama2-70b-h100")
    with pytest.raises(PresetError, match="there are llama-3"):
        preset("?")
