"""What goes into a simulated fleet (requests) and what comes out of it (outcomes). Lengths in tokens, times in s."""

import math
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Request:
    """One call of a client: when it arrives at the fleet, and how long its prompt and its answer are."""

    arrived_at: float
    prompt_tokens: int
    output_tokens: int

    def __post_init__(self) -> None:
        if self.prompt_tokens < 1 or self.output_tokens < 1:
            raise ValueError(f"a request has at least one prompt token and one output token, not {self}")

    @property
    def total_tokens(self) -> int:
        """Tokens that the request holds in the KV cache at its end, at most."""
        return self.prompt_tokens + self.output_tokens


@dataclass(frozen=True, slots=True)
class Outcome:
    """How one request ended, as its client saw it: times count from its arrival at the fleet."""

    request: Request
    replica: str
    """The pod that served it; empty when none ever did."""
    ended_at: float
    completed: bool
    """False when it was refused, or cut off with its replica."""
    ttft_s: float | None
    """Time to first token; None when there never was one."""
    preemptions: int

    @property
    def e2e_s(self) -> float:
        """Time from arrival to the end."""
        return self.ended_at - self.request.arrived_at

    @property
    def tpot_s(self) -> float | None:
        """Mean time per output token after the first; None without a first token, 0 for an answer of one token."""
        if self.ttft_s is None:
            return None
        return (self.e2e_s - self.ttft_s) / max(1, self.request.output_tokens - 1)

    def meets(self, slo: "Slo") -> bool:
        """Tell whether it was served within every objective; a request that was refused or cut off never is."""
        if not self.completed or self.ttft_s is None or self.tpot_s is None:
            return False
        return self.ttft_s <= slo.ttft_s and self.tpot_s <= slo.tpot_s and self.e2e_s <= slo.e2e_s


@dataclass(frozen=True, slots=True)
class Slo:
    """Objectives that one request meets jointly, in seconds; infinity = none."""

    ttft_s: float = math.inf
    tpot_s: float = math.inf
    """Mean time per output token after the first."""
    e2e_s: float = math.inf

    def __post_init__(self) -> None:
        if not min(self.ttft_s, self.tpot_s, self.e2e_s) > 0:
            raise ValueError(f"objectives are above zero: {self}")
