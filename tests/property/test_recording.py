"""What is saved of a pool's past is what is read back: missing, no traffic and every number, impossible ones too."""

from dataclasses import fields, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scaler.adapters.recording import Header, Recording, Seen, recording_to
from scaler.model import (
    Absent,
    Extra,
    LabelMatcher,
    Observation,
    PoolLocator,
    Reading,
    ReplicaLoad,
    Workload,
    WorkloadKind,
)
from tests.builders import TICK_S

readings: st.SearchStrategy[Reading] = st.one_of(st.floats(), st.integers(0, 9), st.sampled_from(list(Absent)))
texts = st.text(max_size=12)
replicas = st.builds(ReplicaLoad, texts, st.floats(), st.floats(), readings)
ratios: Any = st.one_of(st.lists(st.floats(), max_size=4).map(tuple), st.sampled_from(list(Absent)))
names = [one.name for one in fields(Observation) if one.type == Reading]
observations = st.builds(
    Observation,
    at=st.just(0.0),
    kv_usage_ratios=ratios,
    replicas=st.lists(replicas, max_size=3).map(tuple),
    extras=st.dictionaries(texts, st.builds(Extra, readings, readings), max_size=3),
    notes=st.lists(texts, max_size=2).map(tuple),
    **dict.fromkeys(names, readings),
)
locators = st.builds(
    PoolLocator,
    namespace=texts,
    model_name=st.one_of(st.none(), texts),
    workload=st.one_of(st.none(), st.builds(Workload, st.sampled_from(WorkloadKind), texts)),
    matchers=st.lists(st.builds(LabelMatcher, texts, st.sampled_from(["=", "!~"]), texts), max_size=2).map(tuple),
    rate_window_s=st.floats(1, 1e4),
    stale_after_s=st.floats(1, 1e4),
    extras=st.lists(texts, max_size=2).map(tuple),
    backend=texts,
)


def shown(seen: list[Seen]) -> list[str]:
    """NaN is not equal to itself, but is written alike; the kind of a mapping does not matter."""
    return [
        repr((one.at, [replace(each, extras=tuple(each.extras.items())) for each in one.observations]))  # type: ignore[arg-type]
        for one in seen
    ]


@given(locators, st.lists(observations, max_size=4), st.sampled_from(["past.jsonl", "past.jsonl.gz"]))
def test_a_recording_is_read_back_as_it_was_written(
    tmp_path_factory: pytest.TempPathFactory, pool: PoolLocator, past: list[Observation], name: str
) -> None:
    path = tmp_path_factory.mktemp("recording") / name
    header = Header(TICK_S, since=30.0, pools=(pool, pool))
    written = [Seen(tick * TICK_S, (_at(one, tick), _at(past[0], tick))) for tick, one in enumerate(past)]
    with recording_to(path, header) as write:
        for one in written:
            write(one)

    recording = Recording(path)

    assert recording.header == header
    assert shown(list(recording.ticks())) == shown(written)
    assert [file.name for file in path.parent.iterdir()] == [name]


def _at(one: Observation, tick: int) -> Observation:
    return replace(one, at=tick * TICK_S)
