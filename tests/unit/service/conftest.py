"""A service's core without its servers: pools, ticks and a clock that tests move."""

import pytest

from scaler.adapters.telemetry import Telemetry
from scaler.service.registry import Registry
from scaler.service.ticker import Ticker
from tests.builders import TICK_S
from tests.fakes import FakeReader, ManualClock


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def reader() -> FakeReader:
    return FakeReader()


@pytest.fixture
def registry(clock: ManualClock) -> Registry:
    return Registry(clock, max_pools=1000, idle_timeout_s=600)


@pytest.fixture
def telemetry(registry: Registry, clock: ManualClock) -> Telemetry:
    telemetry = Telemetry()
    telemetry.pools, telemetry.now = registry.views, clock.now
    return telemetry


@pytest.fixture
def ticker(registry: Registry, reader: FakeReader, clock: ManualClock, telemetry: Telemetry) -> Ticker:
    return Ticker(registry, reader, clock, telemetry, interval_s=TICK_S, max_hold_age_s=600)
