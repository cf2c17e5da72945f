"""What a request must keep to, and which share of them must."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from scaler.units import format_duration

DEFAULT_ATTAINMENT: Final = 0.95
DEFAULT_ERROR_RATE: Final = 0.01
"""Failed requests count as misses anyway; more of them than this means that something other than load is wrong."""


@dataclass(frozen=True, slots=True)
class Slo:
    """Bounds that one request keeps all together, in seconds; None = no such bound. Shares are from 0 to 1."""

    ttft_s: float | None = None
    tpot_s: float | None = None
    e2e_s: float | None = None
    attainment: float = DEFAULT_ATTAINMENT
    """The least share of all requests that keep to the bounds; failed ones do not."""
    error_rate: float = DEFAULT_ERROR_RATE
    """The most that may fail."""

    def __post_init__(self) -> None:
        bounds = tuple(self.bounds())
        if not bounds or any(not 0 < bound < math.inf for _, bound in bounds):
            raise ValueError(f"an SLO has at least one bound, and each is above 0 and finite: {self!r}")
        if not (0 < self.attainment <= 1 and 0 <= self.error_rate < 1):
            raise ValueError(f"an attainment is above 0 and at most 1, an error rate from 0 to below 1: {self!r}")

    def bounds(self) -> Iterator[tuple[str, float]]:
        """Yield the bounds there are, by vLLM's name of each: ttft, tpot, e2el."""
        for name, bound in (("ttft", self.ttft_s), ("tpot", self.tpot_s), ("e2el", self.e2e_s)):
            if bound is not None:
                yield name, bound

    def __str__(self) -> str:
        """Say it in words: "95 % of requests with TTFT <= 0.5 s and E2E <= 2 s"."""
        names = {"ttft": "TTFT", "tpot": "TPOT", "e2el": "E2E"}
        bounds = " and ".join(f"{names[name]} <= {format_duration(bound)}" for name, bound in self.bounds())
        return f"{percent(self.attainment)} of requests with {bounds}"


def percent(share: float) -> str:
    """Write a share as per cent with at most two decimals, never rounded up to 100: 0.98853 -> "98.85 %"."""
    shown = math.floor(share * 10_000 + 1e-6) / 100 if share > 0.9999 else round(share * 100, 2)  # noqa: PLR2004
    return f"{shown:g} %"
