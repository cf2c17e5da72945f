import itertools
import statistics

import pytest

from scaler.sim.request import Outcome, Request, Slo
from scaler.sim.workload import (
    ClosedLoop,
    InSequence,
    LoadPhase,
    LoadProfile,
    TokenLengths,
    Traffic,
    diurnal,
    flash_crowd,
    gamma_arrivals,
    poisson_arrivals,
    ramp,
    steps,
)

PROFILE = LoadProfile((LoadPhase("low", 1000.0, 2.0, 2.0), LoadPhase("rise", 1000.0, 2.0, 10.0)))
PROMPT = TokenLengths(median=100, spread=0.5, longest=400)
OUTPUT = TokenLengths(median=50, spread=0.0, longest=400)


def test_the_rate_follows_the_phases() -> None:
    assert [PROFILE.rate_at(at) for at in (-1.0, 0.0, 999.0, 1000.0, 1500.0, 2000.0)] == [0, 2, 2, 2, 6, 0]
    assert PROFILE.phase_at(999.0) == (PROFILE.phases[0], 0.0)
    assert PROFILE.phase_at(9999.0) == (PROFILE.phases[1], 1000.0)
    assert (PROFILE.peak_rate, PROFILE.duration_s) == (10.0, 2000.0)
    assert [phase.steady for phase in PROFILE.phases] == [True, False]


def test_arrivals_are_poisson_at_the_profiles_rate() -> None:
    times = [each.arrived_at for each in poisson_arrivals(PROFILE, prompt=PROMPT, output=OUTPUT, seed=3)]

    assert times == sorted(times)
    low = [at for at in times if at < 1000]
    # 2000 arrivals expected, give or take three standard deviations (of sqrt(2000) = 45).
    assert len(low) == pytest.approx(2000, abs=135)
    assert len(times) - len(low) == pytest.approx(6000, abs=235)
    gaps = [after - before for before, after in itertools.pairwise(low)]
    assert statistics.stdev(gaps) == pytest.approx(statistics.mean(gaps), rel=0.1)


def test_lengths_scatter_around_the_median_and_stay_within_their_limit() -> None:
    lengths = [each.prompt_tokens for each in poisson_arrivals(PROFILE, prompt=PROMPT, output=OUTPUT, seed=3)]

    assert statistics.median(lengths) == pytest.approx(100, rel=0.05)
    assert 1 <= min(lengths) < 60
    assert 200 < max(lengths) <= 400


def test_a_seed_repeats_the_traffic_and_another_does_not() -> None:
    first, second, other = (list(poisson_arrivals(PROFILE, prompt=PROMPT, output=OUTPUT, seed=n)) for n in (1, 1, 2))

    assert first == second != other


def test_no_load_is_no_requests() -> None:
    silent = LoadProfile((LoadPhase("none", 100.0, 0.0, 0.0),))

    assert list(poisson_arrivals(silent, prompt=PROMPT, output=OUTPUT, seed=1)) == []


def test_impossible_traffic_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one phase"):
        LoadProfile(())
    with pytest.raises(ValueError, match="at least one prompt token"):
        Request(0.0, prompt_tokens=0, output_tokens=1)


@pytest.mark.parametrize("variation", [0.3, 1.0, 4.0])
def test_gaps_scatter_as_much_as_they_are_told_to_and_the_rate_is_kept(variation: float) -> None:
    profile = steps((4000.0, 2.0))
    times = [
        each.arrived_at for each in gamma_arrivals(profile, variation=variation, prompt=PROMPT, output=OUTPUT, seed=5)
    ]
    gaps = [after - before for before, after in itertools.pairwise(times)]

    assert times == sorted(times)
    # The count scatters with the gaps: three standard deviations of 8000 gaps.
    assert len(times) == pytest.approx(8000, abs=3 * variation * 8000**0.5)
    assert statistics.stdev(gaps) / statistics.mean(gaps) == pytest.approx(variation, rel=0.15)


def test_bursts_follow_a_rate_that_rises_from_nothing() -> None:
    profile = LoadProfile((LoadPhase("none", 100.0, 0.0, 0.0), LoadPhase("rise", 1000.0, 0.0, 20.0)))
    times = [each.arrived_at for each in gamma_arrivals(profile, variation=0.2, prompt=PROMPT, output=OUTPUT, seed=5)]

    assert min(times) > 100
    # A quarter of all comes in the first half of a rise from zero.
    assert sum(at < 600 for at in times) / len(times) == pytest.approx(0.25, abs=0.01)
    assert len(times) == pytest.approx(10_000, rel=0.01)


def test_shapes_are_where_they_say() -> None:
    day, crowd = diurnal(4800.0, 1.0, 3.0), flash_crowd(1.0, 9.0, quiet_s=100.0, rise_s=10.0, hold_s=50.0, ebb_s=40.0)

    assert [day.rate_at(at) for at in (0.0, 1200.0, 2400.0, 3600.0)] == pytest.approx([1.0, 2.0, 3.0, 2.0])
    assert [crowd.rate_at(at) for at in (99.0, 105.0, 130.0, 180.0, 250.0)] == pytest.approx([1, 5, 9, 5, 1])
    assert ramp(100.0, 2.0, 4.0).rate_at(50.0) == 3.0
    assert (crowd.duration_s, steps((5.0, 1.0), (7.0, 2.0)).duration_s) == (300.0, 12.0)


def test_parts_follow_one_another() -> None:
    one = Traffic(steps((100.0, 5.0)), PROMPT, OUTPUT)
    load = InSequence((one, Traffic(steps((50.0, 5.0)), TokenLengths(399, 0.0, 400), OUTPUT)))
    found = list(load.open(1).arrivals)

    assert load.duration_s == 150.0
    assert [each for each in found if each.arrived_at < 100] == list(one.open(1).arrivals)
    assert {each.prompt_tokens for each in found if each.arrived_at >= 100} == {399}


def ended(request: Request, at: float) -> Outcome:
    return Outcome(request, "pod", at, completed=True, ttft_s=0.5, preemptions=0)


def test_clients_send_all_their_requests_and_never_more_at_once_than_there_are_clients() -> None:
    stream = ClosedLoop(3, 5, PROMPT, OUTPUT, duration_s=100.0, think_s=2.0).open(1)
    first = list(stream.arrivals)
    assert stream.follow_up is not None
    following = [stream.follow_up(ended(request, 10.0)) for request in first]

    assert [each.arrived_at for each in first] == [0.0] * 3
    assert [None if each is None else each.arrived_at for each in following] == [12.0, 12.0, None]


def test_after_its_end_a_closed_loop_sends_nothing() -> None:
    stream = ClosedLoop(1, 5, PROMPT, OUTPUT, duration_s=100.0).open(1)
    assert stream.follow_up is not None

    assert stream.follow_up(ended(next(stream.arrivals), 100.5)) is None


def test_a_closed_loop_cannot_be_a_part() -> None:
    loop = ClosedLoop(1, 5, PROMPT, OUTPUT, duration_s=100.0)

    with pytest.raises(ValueError, match="only open loops"):
        InSequence((loop, loop)).open(1)


def test_the_mean_of_scattered_lengths() -> None:
    assert TokenLengths(100, 1.0, 10**6).mean == pytest.approx(164.9, abs=0.1)


@pytest.mark.parametrize("wrong", [{"clients": 0}, {"requests": 0}, {"duration_s": 0.0}, {"think_s": -1.0}])
def test_an_impossible_closed_loop_is_refused(wrong: dict[str, float]) -> None:
    fields = {"clients": 1, "requests": 1, "duration_s": 1.0, "think_s": 0.0} | wrong

    with pytest.raises(ValueError, match="a closed loop has"):
        ClosedLoop(prompt=PROMPT, output=OUTPUT, **fields)  # type: ignore[arg-type]


@pytest.mark.parametrize("variation", [0.0, -1.0, float("inf"), float("nan")])
def test_gaps_that_cannot_scatter_so_are_refused(variation: float) -> None:
    with pytest.raises(ValueError, match="variation"):
        Traffic(PROFILE, PROMPT, OUTPUT, variation)


@pytest.mark.parametrize(
    ("slo", "met"),
    [
        (Slo(), True),
        (Slo(ttft_s=0.5, tpot_s=0.1, e2e_s=1.5), True),
        (Slo(ttft_s=0.49), False),
        (Slo(tpot_s=0.099), False),
        (Slo(e2e_s=1.49), False),
    ],
)
def test_a_request_meets_objectives_jointly(slo: Slo, met: bool) -> None:  # noqa: FBT001 - a column of the table
    answered = ended(Request(10.0, prompt_tokens=5, output_tokens=11), 11.5)

    assert answered.tpot_s == pytest.approx(0.1)
    assert answered.meets(slo) is met


def test_what_was_cut_off_meets_nothing_and_an_objective_of_nothing_is_refused() -> None:
    request = Request(10.0, prompt_tokens=5, output_tokens=11)
    cut = Outcome(request, "pod", 11.0, completed=False, ttft_s=0.5, preemptions=0)

    assert not cut.meets(Slo())
    assert Outcome(request, "", 11.0, completed=False, ttft_s=None, preemptions=0).tpot_s is None
    with pytest.raises(ValueError, match="above zero"):
        Slo(ttft_s=0.0)
