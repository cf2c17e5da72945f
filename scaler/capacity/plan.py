"""What to measure: the commands of a sweep as a shell script, coarse at first and dense within the bracket.

Flags are those that ``vllm bench serve`` has in 2026. One ``--seed`` draws both arrivals and prompts, so runs with the
same seed at different rates are pairs, and a difference between them is the rate's. The seeds are the outer loop:
whatever drifts during the hours of a sweep drifts for all rates alike.
"""

import math
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from scaler.capacity.findings import FEW_REQUESTS, FILLED
from scaler.capacity.results import CACHE_RESET, OFFERED_RATE, REPLICAS, SEED
from scaler.capacity.slo import Slo
from scaler.capacity.sweep import DEFAULT_REPETITIONS
from scaler.capacity.traces import Lengths

COARSE_FACTOR: Final = 1.6
"""From one coarse rate to the next: six of them cover a tenfold range."""
DENSE_RATES: Final = 5
COARSE_SEEDS: Final = DEFAULT_REPETITIONS
DENSE_SEEDS: Final = 12
WARMUP_REQUESTS: Final = 20
_MOST_RATES: Final = 40


@dataclass(frozen=True, slots=True)
class Plan:
    """A sweep."""

    model: str
    slo: Slo
    lengths: Lengths
    rates: tuple[float, ...]
    seeds: int
    """Runs at each rate, with the seeds 1, 2 and so on."""
    base_url: str = "http://127.0.0.1:8000"
    results: str = "results"
    """Folder for the results."""
    run_s: float = 120.0
    """The least time for which each run sends."""
    tokenizer: str = ""
    deployment: str = ""
    """Whose replicas are counted before and after each run; none: it is taken to be one replica."""
    namespace: str = ""
    traces: str = ""
    """Folder of timed traces, one for each rate and seed; none: vLLM draws the arrivals."""
    chunk_tokens: int = 0
    """Prompt tokens that a hash of the traces stands for."""

    def requests(self, rate: float) -> int:
        """Return how many requests one run sends: enough for a steady share, for the time, and to fill the server."""
        sent_s = max(self.run_s, FILLED * (self.slo.e2e_s or 0.0))
        return max(FEW_REQUESTS, math.ceil(rate * sent_s))

    @property
    def seconds(self) -> float:
        """How long all runs send."""
        return sum(self.requests(rate) / rate for rate in self.rates) * self.seeds


def trace_name(rate: float, seed: int) -> str:
    """Return the file of one trace in its folder."""
    return f"rate{rate:g}-seed{seed}.jsonl"


def coarse_rates(low: float, high: float) -> tuple[float, ...]:
    """Return rates from low to high, each about 1.6 times the one before. Worked: 1 to 10 are 1, 1.6, 2.5, 4, 6.3, 10.

    Raises:
        ValueError: The range is not two rising, finite rates above 0, or is too wide.
    """
    _check_range(low, high)
    steps = max(1, math.ceil(math.log(high / low) / math.log(COARSE_FACTOR) - 0.1))
    if steps >= _MOST_RATES:
        raise ValueError(f"from {low:g} to {high:g} is too wide a range: narrow it")
    between = (float(f"{low * (high / low) ** (step / steps):.2g}") for step in range(1, steps))
    return (low, *between, high)


def dense_rates(low: float, high: float) -> tuple[float, ...]:
    """Return five evenly spaced rates of a bracket, its ends included. Worked: 4 to 6 are 4, 4.5, 5, 5.5, 6.

    Raises:
        ValueError: The bracket is not two rising, finite rates above 0.
    """
    _check_range(low, high)
    return tuple(float(f"{low + (high - low) * step / (DENSE_RATES - 1):.4g}") for step in range(DENSE_RATES))


def _check_range(low: float, high: float) -> None:
    if not 0 < low < high < math.inf:
        raise ValueError(f"a range is two rates above 0, the lower one first, not {low:g} to {high:g}")


def script(plan: Plan) -> str:
    """Return the shell script that makes the runs and then fits the results."""
    return "\n".join(_lines(plan)) + "\n"


def _lines(plan: Plan) -> Iterator[str]:
    hours = plan.seconds / 3600
    yield "#!/bin/sh"
    yield f"# {len(plan.rates)} rates x {plan.seeds} seeds; sends for {hours:.1f} h in all, and waits for answers."
    yield "# Before: switch scaling off, so that one replica answers all along, and start vLLM with"
    yield "# VLLM_SERVER_DEV_MODE=1, which makes it take /reset_prefix_cache. Nothing else may use the server."
    yield "set -eu"
    if plan.traces:
        yield "# Without it each process makes other prompts of the same hashes."
        yield "export PYTHONHASHSEED=0"
    yield f"url={shlex.quote(plan.base_url)}"
    yield f"results={shlex.quote(plan.results)}"
    yield 'mkdir -p "$results"'
    yield ""
    yield from _replicas(plan)
    yield ""
    yield "# run RATE REQUESTS SEED"
    yield "run() {"
    yield '  curl --fail --silent --show-error --request POST "$url/reset_prefix_cache" > /dev/null'
    yield "  before=$(replicas)"
    yield '  file="rate$1-seed$3.json"'
    flags = list(_flags(plan))
    yield "  vllm bench serve \\"
    yield from (f"    {flag} \\" for flag in flags[:-1])
    yield f"    {flags[-1]}"
    yield '  if [ "$(replicas)" != "$before" ]; then'
    yield '    echo "replicas changed during $file: set aside as $file.replicas-changed" >&2'
    yield '    mv "$results/$file" "$results/$file.replicas-changed"'
    yield "  fi"
    yield "}"
    yield ""
    for seed in range(1, plan.seeds + 1):
        yield from (f"run {rate:g} {plan.requests(rate)} {seed}" for rate in plan.rates)
    yield ""
    # The first requests of a run find an empty server.
    warmup = ["--warmup-requests", str(FEW_REQUESTS // 10)]
    yield shlex.join(["vllm-scaler", "capacity", "fit", plan.results, *slo_flags(plan.slo), *warmup])


def _replicas(plan: Plan) -> Iterator[str]:
    if not plan.deployment:
        yield "replicas() { echo 1; }"
        return
    namespace = f" --namespace {shlex.quote(plan.namespace)}" if plan.namespace else ""
    what = f"kubectl get deployment {shlex.quote(plan.deployment)}{namespace}"
    yield f"replicas() {{ {what} --output 'jsonpath={{.status.readyReplicas}}'; }}"


def _flags(plan: Plan) -> Iterator[str]:
    yield '--backend openai --base-url "$url" --endpoint /v1/completions'
    tokenizer = f" --tokenizer {shlex.quote(plan.tokenizer)}" if plan.tokenizer else ""
    yield f"--model {shlex.quote(plan.model)}{tokenizer}"
    lengths = plan.lengths
    if plan.traces:
        yield f"--dataset-name timed_trace --dataset-path {shlex.quote(plan.traces)}/rate$1-seed$3.jsonl --self-timed"
        yield f"--timed-trace-chunk-hash-size {plan.chunk_tokens} --timed-trace-sec-multiplier 1"
    else:
        yield f"--dataset-name random --random-input-len {lengths.prompt} --random-output-len {lengths.output}"
        yield f"--random-range-ratio {lengths.spread:g} --request-rate $1"
    yield f"--ignore-eos --num-prompts $2 --seed $3 --num-warmups {WARMUP_REQUESTS}"
    goodput = " ".join(f"{name}:{bound * 1000:g}" for name, bound in plan.slo.bounds())
    yield f"--goodput {goodput}"
    yield "--percentile-metrics ttft,tpot,itl,e2el --metric-percentiles 50,95,99"
    yield f'--metadata {SEED}=$3 {OFFERED_RATE}=$1 {REPLICAS}="$before" {CACHE_RESET}=yes'
    yield '--save-result --save-detailed --result-dir "$results" --result-filename "$file" --disable-tqdm'


def slo_flags(slo: Slo) -> Sequence[str]:
    """Return the flags of ``vllm-scaler capacity fit`` for an SLO."""
    flags = {"ttft": "--ttft", "tpot": "--tpot", "e2el": "--e2e"}
    bounds = [word for name, bound in slo.bounds() for word in (flags[name], f"{bound * 1000:g}ms")]
    return [*bounds, "--attainment", f"{slo.attainment:g}"]
