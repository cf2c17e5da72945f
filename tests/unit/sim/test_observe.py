"""What the service would see of a simulated fleet."""

from collections import deque
from dataclasses import replace

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


def test_readings_that_a_pool_asks_for_are_worked_out_of_the_same_scrapes() -> None:
    names = ("e2e_p95", "gpu", "itl_p95", "prompt_tokens", "queue_time_p95")
    fleet = Fleet(
        FLEET,
        replicas=2,
        arrivals=(Request(float(at), prompt_tokens=400, output_tokens=100) for at in range(300)),
        seed=1,
    )
    seen = observe(replace(LOCATOR, extras=names), scraped(fleet, until=300), None, 300.0).extras

    assert set(seen) == set(names)
    # A request a second, of 400 prompt tokens: some 60 ended in the minute, after some 9 s each.
    assert seen["prompt_tokens"].value == pytest.approx(400.0, rel=0.05)
    assert seen["e2e_p95"].support == pytest.approx(60.0, abs=4)
    assert seen["e2e_p95"].value == pytest.approx(9.75, abs=0.3), "within the bucket from 5 to 10 s"
    assert seen["itl_p95"].value == pytest.approx(0.1, abs=0.02)
    assert seen["queue_time_p95"].value == pytest.approx(0.285)
    assert seen["gpu"].value is Absent.MISSING


def test_before_two_scrapes_no_reading_is_known() -> None:
    seen = observe(replace(LOCATOR, extras=("itl_p95", "prompt_tokens")), scraped(fleet_of(1, 4), until=15), None, 15.0)

    assert {extra.value for extra in seen.extras.values()} == {Absent.MISSING}
