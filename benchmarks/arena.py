"""Our law against those of others, on the same requests.

    make arena                        (ARENA_ARGS='--quick' for shorter workloads, ARENA_ARGS='--help' for more)

Each law scales the same simulated fleet, with the same cold starts, as it is carried out in reality: through KEDA and
the HPA, or by itself. Printed are what the users got and what it cost; a page with plots is written beside the results.
Runs that are kept from before are not done again.

Exit status: 0 = all workloads, and every verdict holds; 1 = a verdict does not hold; 3 = workloads were left out.
"""

import argparse
import os
import signal
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from functools import cache
from multiprocessing import get_context
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from benchmarks.arena_report import html_page, markdown, verdicts, with_section
from benchmarks.arena_results import Result, Results, code_fingerprint, points
from scaler.config.trigger import parse_trigger
from scaler.model import PoolPolicy
from scaler.sim.arena import OURS, Workload, compete, contestants
from scaler.sim.arena_workloads import recorded, synthetic
from scaler.sim.scoring import score

ROOT: Final = Path(__file__).parents[1]
TICK_S: Final = 15.0
SEEDS: Final = 3
QUICK_SEEDS: Final = 2
LEFT_OUT: Final = 3
_TERMINATED: Final = 128 + signal.SIGTERM
DOCS: Final = ROOT / "docs/benchmarks.md"


@dataclass(frozen=True, slots=True)
class Job:
    """One run to do; a process makes its workload itself, by name."""

    workload: str
    law: str
    seed: int
    quick: bool
    traces: Path


def policy_of(workload: Workload) -> PoolPolicy:
    """Return the policy of the trigger that a user would write: what the replica is, the objective, the bounds."""
    metadata = {
        "deployment": "vllm",
        "slotsPerReplica": str(workload.slots),
        "ttftP95Seconds": f"{workload.slo.ttft_s:g}",
        "maxReplicas": str(workload.max_replicas),
        "hpaTolerance": "0",
    }
    return parse_trigger("serving", "vllm", metadata, tick_s=TICK_S).policy


LAWS: Final = contestants(policy_of)


@cache
def catalogue(*, quick: bool, traces: Path) -> Mapping[str, Workload]:
    """Return the workloads that can be had, by name."""
    known = (*synthetic(quick=quick), *recorded(traces, quick=quick).workloads)
    return {workload.name: workload for workload in known}


def main() -> int:
    """Run, print and write."""
    options = _options()
    console = Console(soft_wrap=True)
    workloads = catalogue(quick=options.quick, traces=options.traces)
    left_out = recorded(options.traces, quick=options.quick).left_out
    unknown = [*_unknown(options.workload, workloads), *_unknown(options.law, LAWS)]
    if unknown:
        console.print(f"unknown: {', '.join(unknown)}. Workloads: {', '.join(workloads)}. Laws: {', '.join(LAWS)}.")
        return 2
    jobs = [
        Job(workload, law, seed, options.quick, options.traces)
        for workload in options.workload or workloads
        for law in ([OURS, *(law for law in options.law if law != OURS)] if options.law else LAWS)
        for seed in range(1, (options.seeds or (QUICK_SEEDS if options.quick else SEEDS)) + 1)
    ]
    results = Results(options.results, code_fingerprint(ROOT))
    place = {(job.workload, job.law, job.seed): index for index, job in enumerate(jobs)}
    done = sorted(
        _all(jobs, results, processes=options.jobs, console=console),
        key=lambda result: place[result.workload, result.law, result.seed],
    )
    results.prune()
    needs = {name: workloads[name].needs(seed=1).replicas for name in {result.workload for result in done}}
    texts = {
        options.results / "arena.md": markdown(done, left_out),
        options.results / "arena.html": html_page(done, left_out, needs),
    }
    if options.docs:
        texts[DOCS] = with_section(DOCS.read_text(encoding="utf-8"), done)
    for path, text in texts.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    console.print(texts[options.results / "arena.md"], markup=False, highlight=False)
    console.print(f"Written: {', '.join(str(path) for path in texts)}")
    if any(not verdict.holds for verdict in verdicts(done)):
        return 1
    return LEFT_OUT if left_out else 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="shorter workloads, fewer seeds")
    parser.add_argument("--seeds", type=int, help=f"runs of each law on each workload (default {SEEDS})")
    parser.add_argument("--workload", action="append", help="only this one; may be given again")
    parser.add_argument("--law", action="append", help=f"only this one beside {OURS}; may be given again")
    parser.add_argument("--traces", type=Path, default=ROOT / "traces", help="folder of the recorded traffic")
    parser.add_argument("--results", type=Path, default=ROOT / "arena-results", help="where runs are kept")
    parser.add_argument("--docs", action="store_true", help="write the tables into docs/benchmarks.md too")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes")
    return parser.parse_args()


def _unknown(asked: Sequence[str] | None, known: Iterable[str]) -> list[str]:
    return [name for name in asked or () if name not in known]


def _all(jobs: Sequence[Job], results: Results, *, processes: int, console: Console) -> Iterator[Result]:
    """Yield the results of all jobs, those that are kept first."""
    missing: dict[Job, Path] = {}
    for job in jobs:
        path = results.path(*_settings(job))
        kept = results.read(path)
        if kept is None:
            missing[job] = path
        else:
            yield kept
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    pool = ProcessPoolExecutor(max(1, processes), mp_context=get_context("spawn"))
    try:
        with Progress(*columns, TimeRemainingColumn(), console=console) as progress:
            task = progress.add_task("runs", total=len(jobs), completed=len(jobs) - len(missing))
            running = {pool.submit(work, job): job for job in missing}
            for future in as_completed(running):
                result = future.result()
                results.keep(missing[running[future]], result)
                progress.advance(task)
                yield result
    finally:
        # Whoever stops it does not wait for the runs that have not begun.
        pool.shutdown(cancel_futures=True)


def work(job: Job) -> Result:
    """Do one run."""
    workload = catalogue(quick=job.quick, traces=job.traces)[job.workload]
    run = compete(workload, LAWS[job.law], job.seed)
    scored = score(run, workload.slo, step_at_s=workload.step_at_s)
    return Result(job.workload, job.law, job.seed, scored, points(run))


def _settings(job: Job) -> tuple[str, ...]:
    workload = catalogue(quick=job.quick, traces=job.traces)[job.workload]
    policy = repr(policy_of(workload)) if job.law == OURS else ""
    return repr(workload), job.law, policy, str(job.seed)


if __name__ == "__main__":
    # As an interrupt, so that no process is left behind.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(_TERMINATED))
    sys.exit(main())
