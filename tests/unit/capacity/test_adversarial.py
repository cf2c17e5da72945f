"""Whatever stands in a result, it is refused by name or judged; nothing else happens."""

import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from scaler.capacity import summary
from scaler.capacity.recommend import Server, recommend, snippet
from scaler.capacity.results import ResultError, parse_result
from scaler.capacity.slo import Slo
from scaler.capacity.sweep import fit
from tests.bench_results import steady

SLO = Slo(0.5, 0.05, 2.0)
BASE = steady(count=6) | {"p95_ttft_ms": 100.0, "mean_e2el_ms": 900.0, "request_goodput": 3.9, "itls": [[0.1]] * 6}
NUMBERS = st.one_of(st.integers(-2, 8), st.floats(), st.sampled_from([0.0, 1e-320, 1e15, 10**400, 4.0]))
VALUES: st.SearchStrategy[Any] = st.one_of(
    NUMBERS,
    st.none(),
    st.booleans(),
    st.text(max_size=5),
    st.sampled_from(["inf", "yes", "1"]),
    st.lists(NUMBERS, max_size=7),
    st.lists(NUMBERS, min_size=6, max_size=6),
    st.lists(st.text(max_size=2), min_size=6, max_size=6),
    st.dictionaries(st.text(max_size=2), NUMBERS, max_size=2),
)
CHANGES = st.dictionaries(
    st.sampled_from([*BASE, "offered_rate", "ramp_up_strategy", "p99_e2el_ms"]), VALUES, max_size=4
)
DROPPED = st.sets(st.sampled_from(list(BASE)), max_size=4)


@given(files=st.lists(st.tuples(CHANGES, DROPPED), min_size=1, max_size=4), warmup=st.integers(0, 7))
@settings(max_examples=150, deadline=None)
def test_any_result_is_refused_or_judged_and_can_be_shown(files: list[tuple[Any, set[str]]], warmup: int) -> None:
    parsed = []
    for changes, dropped in files:
        written = {name: value for name, value in (BASE | changes).items() if name not in dropped}
        try:
            parsed.append(parse_result(written, "run.json"))
        except ResultError:
            continue
    try:
        sweep = fit(parsed, SLO, warmup=warmup, repetitions=1)
    except ResultError:
        return
    advice = None
    if sweep.capacity is not None:
        advice = recommend(sweep.capacity, SLO, server=Server(max_num_seqs=4, kv_cache_tokens=1000, hourly_cost=1.0))
    trigger = "" if advice is None else snippet(advice, deployment="d", model="m", scaler_address="a:1")
    assert summary.text(sweep, advice, trigger, details=True)
    json.dumps(summary.as_json(sweep, advice, trigger), allow_nan=False)
