"""Which pools are kept, for how long, and who is woken when one becomes active."""

import asyncio
from dataclasses import replace

import pytest

from scaler.errors import LimitError
from scaler.policy.decide import advance
from scaler.policy.history import History
from scaler.service.registry import PoolEntry, Registry
from tests.builders import observation, policy
from tests.fakes import ManualClock, eventually, trigger


def published(entry: PoolEntry, *, active: bool) -> None:
    history, decision = advance(policy(), History(), observation(0, 8, 4))
    entry.publish(history, replace(decision, active=active), signalled=active)


def test_a_pool_is_added_on_first_sight_and_found_afterwards(registry: Registry) -> None:
    entry, is_new = registry.ask(trigger())
    again, is_new_again = registry.ask(trigger())
    assert (is_new, is_new_again) == (True, False)
    assert again is entry


def test_another_setting_is_another_pool(registry: Registry) -> None:
    changed = trigger()
    registry.ask(changed)
    registry.ask(replace(changed, key=replace(changed.key, trigger="ffffffff")))
    assert len(registry) == 2


def test_a_pool_beyond_the_limit_is_refused_by_the_setting_s_name(clock: ManualClock) -> None:
    registry = Registry(clock, max_pools=2, idle_timeout_s=600)
    registry.ask(trigger("a"))
    registry.ask(trigger("b"))
    with pytest.raises(LimitError, match=r"already serves 2 pools.*max_pools"):
        registry.ask(trigger("c"))
    assert registry.ask(trigger("a")), "known pools are served all the same"


def test_a_pool_that_nobody_asks_for_is_dropped_and_makes_room(registry: Registry, clock: ManualClock) -> None:
    registry.ask(trigger("left"))
    registry.ask(trigger("asked"))
    clock.advance(590)
    registry.ask(trigger("asked"))
    clock.advance(20)
    assert registry.evict_idle() == 1
    assert [entry.key.scaled_object for entry in registry.entries()] == ["asked"]


def test_an_open_stream_keeps_its_pool(registry: Registry, clock: ManualClock) -> None:
    entry, _ = registry.ask(trigger())
    entry.streams += 1
    clock.advance(100_000)
    assert registry.evict_idle() == 0
    entry.streams -= 1
    assert registry.evict_idle() == 1


def test_setting_the_clock_forward_drops_no_pool(registry: Registry, clock: ManualClock) -> None:
    registry.ask(trigger())
    clock.step(86_400)
    assert registry.evict_idle() == 0


async def test_pools_that_come_together_are_handed_out_together(registry: Registry) -> None:
    waiting = asyncio.create_task(registry.newcomers(0.05))
    for number in range(20):
        registry.ask(trigger(f"pool-{number}"))
    assert len(await waiting) == 20


async def test_a_waiter_wakes_once_for_each_time_a_pool_becomes_active(registry: Registry) -> None:
    entry, _ = registry.ask(trigger())
    seen: list[int] = []

    async def watch() -> None:
        count = 0
        while True:
            count = await entry.activation_after(count)
            seen.append(count)

    watcher = asyncio.create_task(watch())
    for active in (False, True, True, False, True):
        published(entry, active=active)
        await asyncio.sleep(0)
    await eventually(lambda: seen == [1, 2])
    watcher.cancel()


async def test_two_activations_before_the_waiter_runs_wake_it_once(registry: Registry) -> None:
    entry, _ = registry.ask(trigger())
    waiting = asyncio.create_task(entry.activation_after(0))
    await asyncio.sleep(0)
    for active in (True, False, True):
        published(entry, active=active)
    assert await waiting == 2
