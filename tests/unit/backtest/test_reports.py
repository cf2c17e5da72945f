"""What the reports show: the same figures as text, as a page and as JSON."""

import json
import math
from dataclasses import replace

import pytest

from scaler.backtest import web_page as pages
from scaler.backtest.assumptions import ADVICE, assumptions
from scaler.backtest.counterfactual import Replica
from scaler.backtest.machine import to_json
from scaler.backtest.replay import Backtest, Case
from scaler.backtest.tables import Table, differences, every_table, totals
from scaler.model import Observation, PoolPolicy
from tests.builders import TICK_S, observation, policy

PAID = policy(replica_hourly_cost=2.0, max_hourly_cost=12.0)


def backtest(*cases: Case, past: list[Observation] | None = None) -> Backtest:
    seen = past or [observation(tick, 30, 4) for tick in range(240)]
    found = Backtest(cases, since=0.0)
    for each in seen:
        found.see([each] * (1 + max(case.pool for case in cases)))
    return found


def row(table: Table, label: str) -> tuple[str, ...]:
    return next((cells[1:] for cells in table.rows if cells[0] == label), ())


def test_totals_stand_beside_what_was_recorded() -> None:
    found = totals(backtest(Case("paid", PAID), Case("own", policy(), replica=Replica(4, 60.0))))
    assert found.headers == ("", "recorded", "paid", "own")
    # Four replicas for an hour; six are what 12 an hour pays for; ours are eight after a minute.
    assert row(found, "replica-hours") == ("4.00", "6.00", "7.98")
    assert row(found, "against recorded") == ("-", "+50.0 %", "+99.6 %")
    assert row(found, "cost") == ("-", "12", "-")
    assert row(found, "time with a queue") == ("1 h", "-", "1 min 15 s")
    assert row(found, "in protection") == ("-", "1 h", "-")
    assert row(found, "replicas not known") == ()


def test_what_only_one_side_knows_is_not_compared() -> None:
    past = [observation(tick, 30, 4) for tick in range(100)]
    lost = [replace(each, at=each.at + 100 * TICK_S, requested=math.nan, serving=math.nan) for each in past]
    found = totals(backtest(Case("advice", policy(max_replicas=4)), past=[*past, *lost]))
    assert row(found, "against recorded") == ("-", "+0.0 %")
    assert row(found, "replicas not known") == ("25 min", "-")


def test_pools_that_differ_are_named() -> None:
    other = replace(policy(), locator=replace(policy().locator, namespace="batch"))
    found = totals(backtest(Case("a", policy()), Case("b", other, pool=1)))
    assert found.headers[1:3] == ("recorded serving/deployment/vllm", "recorded batch/deployment/vllm")


def test_the_largest_differences_are_shown_in_the_order_of_time_and_the_rest_counted() -> None:
    loads = [2, 30, 2, 60, 2, 16, 2]
    past = [observation(tick, loads[tick // 40], 4) for tick in range(280)]
    trial = backtest(Case("advice", policy()), past=past).trials[0]
    every, most = differences(trial), differences(trial, 2)
    assert len(every.rows) > 3
    assert every.note == ""
    assert len(most.rows) == 2
    assert most.note == f"{len(every.rows) - 2} smaller differences are in --html FILE and in --json."
    assert [cells[0] for cells in most.rows] == sorted(cells[0] for cells in most.rows)
    largest = sorted((abs(float(cells[4])) for cells in every.rows), reverse=True)[:2]
    assert sorted((abs(float(cells[4])) for cells in most.rows), reverse=True) == largest


def test_tables_without_rows_are_left_out() -> None:
    calm = backtest(Case("advice", policy()), past=[observation(tick, 12, 4) for tick in range(10)])
    assert [table.title for table in every_table(calm)] == ["Totals", "Reasons, and for how long each decided"]


@pytest.mark.parametrize(
    ("measured", "text"),
    [
        ([], "A new replica serves after 1 min (as given); one that is removed goes at once."),
        ([60.0], "A new replica serves after 1 min (the only start in the history); one"),
        ([60.0, 60.0], "A new replica serves after 1 min (as all 2 starts in the history); one"),
        ([30.0, 60.0, 90.0], "1 min (the median of 3 starts in the history, of 30 s to 1 min 30 s); one"),
    ],
)
def test_what_the_figures_rest_on_is_said(measured: list[float], text: str) -> None:
    own = backtest(Case("own", policy(), replica=Replica(4, 60.0)))
    assert text in assumptions(own, measured)[-1]
    assert assumptions(backtest(Case("advice", policy()))) == ADVICE


def test_json_has_every_figure_and_no_number_that_json_has_not() -> None:
    report = to_json(backtest(Case("paid", PAID, warnings=("odd",)), Case("own", policy())), ["rests on"])
    assert json.loads(json.dumps(report, allow_nan=False)) == report
    assert (report["mode"], report["ticks"], report["tick_s"]) == ("advice", 240, TICK_S)
    assert (report["from"], report["to"]) == ("1970-01-01T00:00:00.000Z", "1970-01-01T01:00:00.000Z")
    paid = report["policies"][0]
    assert paid["warnings"] == ["odd"]
    assert paid["ours"]["cost"] == 12.0
    assert paid["limits_s"]["cost_limit"] == 3600.0
    assert paid["differences"][0]["ours"] == [6, 6]
    assert paid["differences"][0]["reason"] == "burst"
    assert "8 replicas are wanted; maxHourlyCost 12 pays for 6 at 2 each" in paid["differences"][0]["story"]


def page_of(pool: PoolPolicy, past: list[Observation], replica: Replica | None = None) -> str:
    return pages.web_page(backtest(Case("a<b", pool, replica=replica, warnings=("c<d",)), past=past), ["e<f"])


def test_a_page_shows_names_as_they_are_written() -> None:
    text = page_of(policy(), [observation(tick, 30, 4) for tick in range(10)])
    assert [part in text for part in ("a<b", "c<d", "e<f")] == [False] * 3
    assert [part in text for part in ("a&lt;b", "c&lt;d", "e&lt;f")] == [True] * 3


@pytest.mark.parametrize("replica", [None, Replica(4, 60.0)])
def test_a_pool_of_which_nothing_is_known_can_be_drawn(replica: Replica | None) -> None:
    assert page_of(policy(), [Observation(at=tick * TICK_S) for tick in range(3)], replica).count("<svg") == 1


def test_a_long_history_makes_no_larger_picture() -> None:
    loads = [float(tick * 7 % 40) for tick in range(6000)]
    found = Backtest([Case("advice", policy())], since=0.0)
    for tick, load in enumerate(loads):
        found.recorded[0].see(observation(tick, load, 4))
    assert found.recorded[0].in_flight.ticks_per_span == 4
    assert len(pages.web_page(found, [])) < 1_000_000


def test_differences_beyond_the_bound_are_said_to_be_in_the_totals_alone() -> None:
    trial = backtest(Case("advice", policy())).trials[0]
    trial.differences.left_out = 7
    assert differences(trial).note == "7 later differences are in the totals alone."
