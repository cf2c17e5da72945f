"""Scenes for scaling laws: what is seen at each moment, what they should say, and why."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from scaler.sim.fleet import DeploymentStatus
from scaler.sim.law import Answer, Law, Seen
from scaler.sim.observe import FleetScrape, ReplicaScrape, WorkloadScrape


@dataclass(frozen=True, slots=True)
class Scene:
    """What is seen at a moment, the answer that is expected, and why."""

    at: float
    expected: Answer | float | None
    why: str
    pods: tuple[tuple[int, int, float], ...] = ()
    """Running, waiting and KV usage of each serving replica."""
    requested: int | None = None
    """Where it differs from the serving ones."""
    arrived: int = 0
    unrouted: int = 0
    queue_time_s: float = 0.0
    """What each replica's ended requests had waited for, added up."""
    ended: int = 0


def busy(replicas: int, *, running: int = 0, waiting: int = 0, kv: float = 0.0) -> tuple[tuple[int, int, float], ...]:
    """Return replicas that are all alike."""
    return ((running, waiting, kv),) * replicas


def play(law: Law, scenes: Sequence[Scene]) -> None:
    """Show a law the scenes, each scraped at its moment, and check each answer."""
    scrapes: list[FleetScrape] = []
    for scene in scenes:
        seen = show(scene, scrapes)
        scrapes = list(seen.scraped)
        expected = scene.expected if isinstance(scene.expected, tuple) else (scene.expected,)
        assert law.answer(seen) == expected, f"at {scene.at:g} s: {scene.why}"


def show(scene: Scene, before: Sequence[FleetScrape] = ()) -> Seen:
    """Return what there is to see in a scene, after what was scraped before."""
    pods = {
        f"pod-{index}": ReplicaScrape(
            running=running,
            waiting=waiting,
            kv_usage_ratio=kv,
            ttft_buckets=(),
            generation_tokens=0,
            preemptions=0,
            queue_time_s=scene.queue_time_s,
            ended=scene.ended,
        )
        for index, (running, waiting, kv) in enumerate(scene.pods)
    }
    live = FleetScrape(scene.at, pods, arrived=scene.arrived, unrouted=scene.unrouted)
    requested = len(pods) if scene.requested is None else scene.requested
    status = DeploymentStatus(requested, requested, len(pods), generation=1)
    return Seen(scene.at, live, (*before, live), WorkloadScrape(scene.at, status), status)


def without_metrics(seen: Seen) -> Seen:
    """Return the same moment as it looks when Prometheus has lost the replicas and none of them answers."""
    nothing = replace(seen.live, replicas={})
    return replace(seen, live=nothing, scraped=(*seen.scraped, nothing))
