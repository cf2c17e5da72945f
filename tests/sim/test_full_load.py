"""The experiment that this project began with: constant full load from clients who wait for their answers."""

import pytest

from scaler.sim.closed_loop import reversals
from scaler.sim.fleet import Routing
from scaler.sim.full_load import CLIENTS, RateLaw, by_rate, by_saturation, fixed, served
from tests.builders import POLICY

SEED = 1
CROWDED = [clients for clients in CLIENTS if clients > 4]
QUEUEING = [clients for clients in CLIENTS if clients >= 16]


def test_a_request_takes_about_33_seconds() -> None:
    assert fixed(1, 4, seed=SEED).median_s == pytest.approx(33, abs=1)


@pytest.mark.parametrize("clients", CLIENTS)
@pytest.mark.parametrize("down_rate", [0.05, 0.5])
def test_a_law_on_the_request_rate_swings_at_constant_full_load(clients: int, down_rate: float) -> None:
    changes = by_rate(RateLaw(up_rate=0.5, down_rate=down_rate), clients, seed=SEED)

    # Each change goes against the one before, all along, whatever there is to do.
    assert len(changes) >= 20
    assert reversals(changes) == len(changes) - 1
    assert {change.after for change in changes} == {1, 2}


def test_the_live_law_leaves_one_replica_alone_that_is_full_and_has_no_queue() -> None:
    _, changes = by_saturation(POLICY, 4, seed=SEED)

    assert changes == ()


@pytest.mark.parametrize("clients", CROWDED)
def test_the_live_law_changes_once_where_requests_wait_and_stays(clients: int) -> None:
    found, changes = by_saturation(POLICY, clients, seed=SEED)

    assert [(change.before, change.after) for change in changes] == [(1, 2)]
    assert changes[0].at < 60
    assert found.unserved == 0


@pytest.mark.parametrize("clients", QUEUEING)
def test_two_replicas_double_the_throughput_and_halve_the_median(clients: int) -> None:
    one, two = fixed(1, clients, seed=SEED), fixed(2, clients, seed=SEED)

    # Seen: +98 to +99 %, -50 %.
    assert two.requests_per_s / one.requests_per_s == pytest.approx(1.98, abs=0.03)
    assert two.median_s / one.median_s == pytest.approx(0.5, abs=0.01)


@pytest.mark.parametrize("clients", QUEUEING)
def test_the_live_law_gets_most_of_it_and_pays_for_the_start_with_throughput(clients: int) -> None:
    one = fixed(1, clients, seed=SEED)
    found = served(by_saturation(POLICY, clients, seed=SEED)[0].outcomes)

    # Seen: +87 %. For 38 s (a tick, the HPA, a cold start) one replica serves alone, and what queued there stays there.
    assert found.requests_per_s / one.requests_per_s == pytest.approx(1.87, abs=0.03)
    assert found.median_s / one.median_s <= 0.51


@pytest.mark.parametrize("clients", CROWDED)
def test_random_routing_hurts_the_tail_and_not_the_median(clients: int) -> None:
    least, chance = fixed(2, clients, seed=SEED), fixed(2, clients, seed=SEED, routing=Routing.RANDOM)

    # Seen: P95 +11 % with 64 clients to +88 % with 8. The median falls by a tenth with 64: once the shorter queue is
    # done, its replica serves at once what comes.
    assert chance.p95_s > 1.08 * least.p95_s
    assert chance.median_s < 1.02 * least.median_s
