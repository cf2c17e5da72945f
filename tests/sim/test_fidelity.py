"""The simulator beside recorded runs of a real vLLM: how near it comes, and where it does not."""

from pathlib import Path

import pytest

from scaler.sim.performance import PRESETS
from tests import fidelity
from tests.fidelity import recorded_benchmark, recorded_burst, simulated_benchmark, simulated_burst

PAGE = Path(__file__).parents[2] / "docs/concepts/simulator.md"


def test_the_page_shows_what_is_measured_here() -> None:
    assert fidelity.table() in PAGE.read_text(encoding="utf-8")


def test_the_page_shows_where_every_engine_comes_from() -> None:
    rows = [f"| `{name}` | {each.engine.slots} | {each.source} |" for name, each in PRESETS.items()]

    assert "\n".join(rows) in PAGE.read_text(encoding="utf-8")


def test_a_queue_of_a_burst_is_worked_off_wave_by_wave_as_in_the_recording() -> None:
    recorded = recorded_burst().timeline
    simulated = {row.at: row for row in simulated_burst().timeline}
    differences = [abs(row.waiting - simulated[row.at].waiting) for row in recorded]

    # Seen: one wave of four late on 4 lines of 49.
    assert max(differences) <= 4
    assert sum(difference > 0 for difference in differences) <= 6
    assert [simulated[row.at].running for row in recorded if row.at >= 28] == [
        row.running for row in recorded if row.at >= 28
    ]


def test_first_tokens_of_a_burst_come_as_late_as_in_the_recording() -> None:
    recorded, simulated = recorded_burst(), simulated_burst()

    assert simulated.ttft_median_s == pytest.approx(recorded.ttft_median_s, rel=0.10)
    assert simulated.ttft_longest_s == pytest.approx(recorded.ttft_longest_s, rel=0.05)


def test_the_quantile_lingers_as_long_and_as_high_as_it_did() -> None:
    recorded, simulated = recorded_burst(), simulated_burst()

    assert simulated.lingering_s == pytest.approx(recorded.lingering_s, abs=4)
    tops = [max(row.ttft_p95_s for row in one.timeline if row.at > 100) for one in (recorded, simulated)]
    assert tops == [78.0, pytest.approx(78.0, abs=0.1)]


def test_a_cache_that_is_too_small_preempts_as_often_and_wastes_as_many_steps() -> None:
    recorded, simulated = fidelity.recorded_small_cache(), fidelity.simulated_small_cache()

    assert simulated.steps == pytest.approx(recorded.steps, rel=0.005)
    # 10 to 14, as the ten prompts share the 538 tokens that are known of them.
    assert simulated.preemptions == pytest.approx(recorded.preemptions, abs=2)
    assert simulated.e2e_total_s == pytest.approx(recorded.e2e_total_s, rel=0.10)
    assert simulated.ttft_total_s == pytest.approx(recorded.ttft_total_s, rel=0.20)


def test_a_cache_that_is_too_small_fills_as_it_did_and_the_batch_shrinks_with_it() -> None:
    engine = fidelity.small_cache_engine()
    seen = []
    for tenths in range(1, 292):
        engine.advance(tenths / 10)
        seen.append((round(engine.kv_usage_ratio, 2), engine.running, engine.running + engine.waiting))

    # Seen at the real one: usage 0.21, 0.63, 0.95 and 1.0, running 4, 3, 1 and 3, and all of them in flight.
    assert {usage for usage, *_ in seen} >= {0.21, 0.63, 0.95, 1.0}
    assert {running for _, running, _ in seen} >= {4, 3, 1}
    assert sorted((in_flight for *_, in_flight in seen), reverse=True) == [in_flight for *_, in_flight in seen]


@pytest.mark.parametrize("rate", fidelity.RATES)
def test_as_many_requests_are_served_a_second(rate: int) -> None:
    recorded, simulated = recorded_benchmark(rate), simulated_benchmark(rate)

    assert simulated.throughput == pytest.approx(recorded.throughput, rel=0.06)


@pytest.mark.parametrize(("rate", "within"), [(1, 0.05), (4, 0.10), (30, 0.16)])
def test_requests_take_as_long(rate: int, within: float) -> None:
    recorded, simulated = recorded_benchmark(rate), simulated_benchmark(rate)

    assert simulated.e2e_median_s == pytest.approx(recorded.e2e_median_s, rel=within)


def test_far_above_capacity_the_queue_is_that_of_the_recording() -> None:
    recorded, simulated = recorded_benchmark(30), simulated_benchmark(30)

    assert simulated.ttft_p95_s == pytest.approx(recorded.ttft_p95_s, rel=0.05)
    assert simulated.most_in_flight == pytest.approx(recorded.most_in_flight, rel=0.10)


def test_at_the_edge_of_capacity_a_tenth_of_speed_decides_and_the_recording_lies_between() -> None:
    recorded = recorded_benchmark(12)
    as_fast_as_that_run, a_tenth_slower, fitted = (
        simulated_benchmark(12, factor=factor) for factor in (0.81, 0.9, 1.0)
    )

    # That run's mean inter-token latency, 4.59 ms, is that of a machine which takes 0.81 times as long.
    assert as_fast_as_that_run.ttft_median_s == pytest.approx(recorded.ttft_median_s, rel=0.15)
    assert a_tenth_slower.ttft_median_s > 2 * as_fast_as_that_run.ttft_median_s
    assert as_fast_as_that_run.ttft_p95_s < recorded.ttft_p95_s < fitted.ttft_p95_s
