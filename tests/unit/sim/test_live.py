"""The service's own law in the arena: what it answers is what the service would answer."""

from dataclasses import replace

from scaler.policy.decide import advance
from scaler.policy.history import History
from scaler.sim.hpa import EXACT, HpaSpec
from scaler.sim.law import MEMORY_S
from scaler.sim.live import LiveLaw
from scaler.sim.observe import FleetScrape, observe
from tests.builders import POLICY
from tests.laws import Scene, busy, show

HPA = HpaSpec(1, 100, behavior=EXACT)


def test_it_answers_with_the_law_s_own_decisions_over_the_same_observations() -> None:
    law, history = LiveLaw(POLICY, HPA), History()
    scrapes: tuple[FleetScrape, ...] = ()
    for tick in range(8):
        scene = Scene(15.0 * tick, None, "", busy(2, running=4, waiting=tick, kv=0.3))
        seen = show(scene, scrapes)
        bare = {
            name: replace(one, ttft_buckets=(0,) * 23, generation_tokens=1000 * tick)
            for name, one in seen.live.replicas.items()
        }
        live = replace(seen.live, replicas=bare)
        scrapes = (*seen.scraped[:-1], live)
        seen = replace(seen, live=live, scraped=scrapes)
        history, decision = advance(POLICY, history, observe(POLICY.locator, seen.scraped, seen.workload, seen.at))
        assert law.answer(seen) == (decision.reported_value,)
        assert law.decision == decision
    assert law.decision is not None
    # 8 run and 14 wait, of which 8 count: as many as two replicas have slots.
    assert law.decision.target == 4


def test_it_answers_nothing_while_nothing_is_known() -> None:
    seen = replace(show(Scene(0.0, None, "")), scraped=(), workload=None)
    assert LiveLaw(POLICY, HPA).answer(seen) == (None,)


def test_a_law_sees_no_more_of_the_past_than_it_asks_for() -> None:
    scrapes: tuple[FleetScrape, ...] = ()
    for tick in range(4):
        seen = show(Scene(15.0 * tick, None, "", busy(1)), scrapes)
        scrapes = tuple(seen.scraped)
    assert [each.at for each in seen.since(15.0)] == [30.0, 45.0]
    assert seen.newest is seen.scraped[-1]
    assert replace(seen, scraped=()).newest is None
    assert MEMORY_S >= 300
