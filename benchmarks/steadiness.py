"""Does the law keep still under a steady load, and follow a step of the load without swinging?

Prints one line for each run of the live law in a simulated cluster: Poisson arrivals, a 120 s cold start, one hour.
"""

import argparse
import math

from scaler.sim.closed_loop import Run, reversals
from tests.steadiness import rush

LOADS = (0.1, 0.5, 1.0, 2.0, 3.0, 5.0, 10.0, 20.0, 50.0)
STEPS = ((2.0, 0.4), (2.0, 4.0), (2.0, 10.0), (2.0, 20.0), (5.0, 1.0), (5.0, 2.5), (10.0, 2.0))
OBJECTIVE_S = 2.5


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--quick", action="store_true", help="loads up to 5 only")
    options = parser.parse_args()
    loads = [load for load in LOADS if not options.quick or load <= 5]  # noqa: PLR2004 - as the help says
    print("constant load | from | seed | changes | after 15 min | reversals then | at the end | TTFT met | hours")
    for load in loads:
        for seed in range(1, options.seeds + 1):
            replicas = max(1, math.ceil(load / 0.9))
            seen = rush((3600.0, load), replicas=replicas, seed=seed)
            late = seen.changes_from(900.0)
            print(
                f"{load:g} | {replicas} | {seed} | {len(seen.changes)} | {len(late)} | {reversals(late)} | {_end(seen)}"
            )
    print("step | seed | increases | decreases | reversals | at the end | TTFT met | hours")
    for before, after in STEPS[: 3 if options.quick else None]:
        for seed in range(1, options.seeds + 1):
            seen = rush((1800.0, before), (3600.0, after), replicas=math.ceil(before / 0.9) + 1, seed=seed)
            late = seen.changes_from(1800.0)
            ups = sum(change.is_up for change in late)
            print(f"{before:g} to {after:g} | {seed} | {ups} | {len(late) - ups} | {reversals(late)} | {_end(seen)}")


def _end(seen: Run) -> str:
    return f"{seen.replicas} | {seen.attainment(OBJECTIVE_S):.3f} | {seen.replica_hours:.1f}"


if __name__ == "__main__":
    main()
