"""What every scaling law looks like here: what it sees, when it looks, and what it answers.

A law that scales through KEDA and the HPA answers with its metrics; one that is a controller of its own answers with
the count that it sets. Both are in replicas, so one form does for all.
"""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from scaler.sim.fleet import DeploymentStatus
from scaler.sim.hpa import HpaSpec
from scaler.sim.observe import FleetScrape, WorkloadScrape

Answer: TypeAlias = tuple[float | None, ...]
"""Each metric divided by its target, so in replicas; None = it cannot be had. Without an HPA one value, the count."""
NO_ANSWER: Answer = (None,)
"""Nothing is known, so nothing changes."""
MEMORY_S = 300.0
"""How far back a law can look in what was scraped: the longest window of any of them."""


@dataclass(frozen=True, slots=True)
class Seen:
    """Everything that can be known of a fleet at one moment. A law looks at the part that it has in reality."""

    at: float
    live: FleetScrape
    """The replicas' pages and the router's counters now, for laws that read them themselves."""
    scraped: Sequence[FleetScrape]
    """What Prometheus has of them, at most ``MEMORY_S`` old, the oldest first."""
    workload: WorkloadScrape | None
    """What Prometheus has of kube-state-metrics."""
    status: DeploymentStatus
    """The Deployment now, for laws that ask Kubernetes."""

    @property
    def newest(self) -> FleetScrape | None:
        """What Prometheus has now; None when it has nothing, or nobody answered the last scrape."""
        return self.scraped[-1] if self.scraped and self.scraped[-1].replicas else None

    def since(self, at: float) -> list[FleetScrape]:
        """Return what Prometheus has from after a moment."""
        return list(itertools.takewhile(lambda each: each.at > at, reversed(self.scraped)))[::-1]


class Law(Protocol):
    """A scaling law with what it remembers: one instance scales one fleet."""

    @property
    def tick_s(self) -> float | None:
        """How often it looks, in seconds; None = anew at each of the HPA's syncs."""

    @property
    def hpa(self) -> HpaSpec | None:
        """The HPA that carries its answers out; None = it does so itself, at each of its ticks."""

    def answer(self, seen: Seen) -> Answer:
        """Look, remember, and say how many replicas there should be."""
