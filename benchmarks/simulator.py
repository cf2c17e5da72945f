"""How fast is the simulator?

Prints two lines for each workload: the fleet alone with a fixed count of replicas, and the whole loop with the live law
around it. Recorded traces are among the workloads if --traces names their folder. Seconds are those of the processor,
so that what else the machine does counts for little.
"""

import argparse
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from scaler.sim.closed_loop import Setup, run
from scaler.sim.fleet import Fleet, FleetSpec
from scaler.sim.hpa import HpaSpec
from scaler.sim.performance import preset, replica_rate, replicas_for
from scaler.sim.workload import Load
from scaler.sim.workloads import CHAT_OUTPUT, CHAT_PROMPT, workload
from tests.builders import KV_CACHE, SATURATION, TTFT, policy

ENGINE = "llama-2-70b-h100x4"
SYNTHETIC = ("constant-2", "gamma-bursts", "flash-crowd")
RECORDED = ("azure-conversation", "azure-conversation-x3", "mooncake-conversation")
SLOTS = 48
LIMIT_S = 20.0
"""An hour of the busiest trace takes no longer."""


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--traces", type=Path, help="folder with the recorded traces")
    parser.add_argument("--quick", action="store_true", help="one synthetic workload only")
    options = parser.parse_args()
    names = [*(SYNTHETIC[:1] if options.quick else SYNTHETIC), *(RECORDED if options.traces is not None else ())]
    engine = preset(ENGINE).engine
    rate = replica_rate(engine, CHAT_PROMPT, CHAT_OUTPUT)
    print("workload | what | requests | seconds | simulated seconds a second | events a second")
    slow = []
    for name in names:
        load = workload(name, replica_rate=rate, traces=options.traces or Path())
        for line, seconds in _measured(name, load):
            print(line, flush=True)
            if seconds > LIMIT_S:
                slow.append(f"{name} takes {seconds:.1f} s of at most {LIMIT_S:g} s")
    if slow:
        raise SystemExit("\n".join(slow))


def _measured(name: str, load: Load) -> Iterator[tuple[str, float]]:
    spec = FleetSpec("vllm", preset(ENGINE).engine, cold_start_s=120.0)
    replicas = replicas_for(load, spec.engine, seed=1)
    fleet = Fleet(spec, replicas=replicas, arrivals=load.open(1).arrivals, seed=1)
    began = time.process_time()
    served = len(fleet.advance(load.duration_s))
    seconds = time.process_time() - began
    pace = f"{seconds:.1f} | {load.duration_s / seconds:.0f}"
    yield f"{name} | fleet of {replicas} | {served} | {pace} | {fleet.events / seconds:.0f}", seconds
    signals = (replace(SATURATION, scale_up=0.9), KV_CACHE, TTFT)
    pool = policy(slots_per_replica=SLOTS, signals=signals, scale_down_noise=3.0, max_replicas=100)
    began = time.process_time()
    played = run(Setup(pool, spec, HpaSpec(1, 100)), load, replicas=replicas, seed=1)
    seconds = time.process_time() - began
    pace = f"{seconds:.1f} | {load.duration_s / seconds:.0f}"
    yield f"{name} | the whole loop | {len(played.outcomes)} | {pace} |", seconds


if __name__ == "__main__":
    main()
