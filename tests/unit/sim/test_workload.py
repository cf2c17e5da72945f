import itertools
import statistics

import pytest

from scaler.sim.request import Request
from scaler.sim.workload import LoadPhase, LoadProfile, TokenLengths, poisson_arrivals

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
