"""The requests of a run by their lengths: who misses the SLO, and who makes the work."""

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

LENGTH_BOUNDS: Final = (64, 256, 1024, 4096, 16384, 65536)
"""Upper bounds in tokens, each four times the last, and one more bucket without a bound."""


@dataclass(frozen=True, slots=True)
class Bucket:
    """Requests whose prompts, and whose answers, are of similar length."""

    prompt_bound: int | None
    """Prompts of at most so many tokens, and more than the bound before; None = longer than all bounds."""
    output_bound: int | None
    requests: int
    met: int
    """Those within the SLO."""
    work_share: float
    """Share of all attention work, 0 to 1."""

    @property
    def attainment(self) -> float:
        """Share within the SLO."""
        return self.met / self.requests


def attention_work(prompt_tokens: int, output_tokens: int) -> float:
    """Return the attention of one request, in pairs of tokens: each token looks at all before it and at itself.

    A prompt of p and an answer of o tokens make (p + o)^2 / 2: 64 and 64 make 8192, 1024 and 64 make 591872.
    """
    return (prompt_tokens + output_tokens) ** 2 / 2


def by_length(requests: Iterable[tuple[int, int, bool]]) -> tuple[Bucket, ...]:
    """Sort requests into buckets, short ones first.

    Args:
        requests: Prompt and output tokens of each, and whether it was within the SLO.
    """
    counted: dict[tuple[int, int], tuple[int, int, float]] = {}
    # Benchmarks repeat lengths, so equal requests are counted first.
    for (prompt_tokens, output_tokens, met), alike in Counter(requests).items():
        key = bisect_left(LENGTH_BOUNDS, prompt_tokens), bisect_left(LENGTH_BOUNDS, output_tokens)
        count, within, work = counted.get(key, (0, 0, 0.0))
        added = alike * attention_work(prompt_tokens, output_tokens)
        counted[key] = count + alike, within + alike * met, work + added
    # Requests that all failed may show no tokens, and then no work.
    total = sum(work for _, _, work in counted.values()) or 1.0
    bounds = (*LENGTH_BOUNDS, None)
    return tuple(
        Bucket(bounds[prompt], bounds[output], count, within, work / total)
        for (prompt, output), (count, within, work) in sorted(counted.items())
    )
