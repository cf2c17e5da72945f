"""What the service would see of a simulated fleet."""

from collections import deque

import pytest

from scaler.model import Absent, PoolLocator
from scaler.sim.fleet import Fleet
from scaler.sim.observe import FleetScrape, WorkloadScrape, observe, scrape
from scaler.sim.request import Request
from tests.steadiness import FLEET

LOCATOR = PoolLocator("serving", "llama", None)


def scraped(fleet: Fleet, *, until: float) -> deque[FleetScrape]:
    found: deque[FleetScrape] = deque()
    for at in range(15, int(until) + 1, 15):
        fleet.advance(float(at))
        found.append(scrape(fleet))
    return found


def fleet_of(replicas: int, requests: int) -> Fleet:
    arrivals = (Request(1.0, prompt_tokens=400, output_tokens=570) for _ in range(requests))
    return Fleet(FLEET, replicas=replicas, arrivals=arrivals, seed=1)


def test_load_is_seen_replica_by_replica() -> None:
    fleet = fleet_of(2, 40)
    seen = observe(LOCATOR, scraped(fleet, until=30), WorkloadScrape(30.0, fleet.status()), 30.0)
    assert (seen.running, seen.waiting, seen.serving, seen.requested, seen.ready) == (32.0, 8.0, 2.0, 2.0, 2.0)
    assert [(one.running, one.waiting) for one in seen.replicas] == [(16.0, 4.0), (16.0, 4.0)]
    assert isinstance(seen.kv_usage_ratios, tuple)
    assert len(seen.kv_usage_ratios) == 2


def test_first_tokens_are_counted_in_the_window_and_lagging_ones_are_not_there_yet() -> None:
    seen = observe(LOCATOR, scraped(fleet_of(2, 40), until=45), None, 45.0)
    assert seen.ttft_samples == pytest.approx(0.0)
    assert seen.ttft_p95_s is Absent.NO_TRAFFIC  # all first tokens came before the first scrape


def test_before_two_scrapes_nothing_is_known_of_rates() -> None:
    seen = observe(LOCATOR, scraped(fleet_of(1, 4), until=15), None, 15.0)
    assert (seen.ttft_samples, seen.generation_tokens_per_s, seen.requested) == (Absent.MISSING,) * 3


def test_a_scrape_that_is_too_old_is_no_serving_replica() -> None:
    seen = observe(LOCATOR, scraped(fleet_of(1, 4), until=30), None, 200.0)
    assert (seen.serving, seen.running) == (0.0, Absent.MISSING)
