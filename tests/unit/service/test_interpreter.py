import gc
import sys
from collections.abc import Iterator

import pytest

from scaler.service.interpreter import prepare_interpreter


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    interval, thresholds = sys.getswitchinterval(), gc.get_threshold()
    yield
    sys.setswitchinterval(interval)
    gc.set_threshold(*thresholds)
    gc.unfreeze()


def test_a_thread_that_computes_gives_way_ten_times_sooner_than_by_default() -> None:
    prepare_interpreter()
    assert sys.getswitchinterval() <= 0.0005


def test_cycles_are_looked_for_less_often_but_still_are() -> None:
    prepare_interpreter()
    assert gc.isenabled()
    assert gc.get_threshold()[0] >= 10_000
