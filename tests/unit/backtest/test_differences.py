from scaler.backtest.differences import Differences, Period
from scaler.policy.narrate import narrate
from tests.builders import observation, policy, run

NEED = run(policy(), [observation(tick, 18, 4) for tick in range(4)])[-1]
BAND = run(policy(), [observation(tick, 14, 4) for tick in range(4)])[-1]


def differences(pairs: list[tuple[int | None, int | None]], most: int = 10) -> Differences:
    """Ours and theirs, tick by tick; each period begins with a need, and goes on in the dead band."""
    found = Differences(15.0, most)
    open_sign = 0
    for tick, (ours, theirs) in enumerate(pairs):
        sign = 0 if ours is None or theirs is None else (ours > theirs) - (ours < theirs)
        decision = NEED if sign and sign != open_sign else BAND
        found.see(15.0 * tick, ours, theirs, cause=decision, newest=decision)
        open_sign = sign
    return found


def spans(found: Differences) -> list[tuple[float, float, tuple[int, int], tuple[int, int], float]]:
    return [(one.start, one.end, one.ours, one.theirs, one.replica_s) for one in found.periods]


def test_consecutive_ticks_with_more_or_with_fewer_are_one_period() -> None:
    found = differences([(4, 4), (6, 4), (8, 4), (8, 5), (5, 5), (4, 5), (6, 5)])
    assert spans(found) == [
        (15.0, 60.0, (6, 8), (4, 5), 15.0 * (2 + 4 + 3)),
        (75.0, 90.0, (4, 4), (5, 5), -15.0),
        (90.0, 105.0, (6, 6), (5, 5), 15.0),
    ]
    assert (found.more_s, found.fewer_s) == (60.0, 15.0)


def test_a_period_says_why_it_began_and_what_decided_for_how_long() -> None:
    (period,) = differences([(6, 4), (6, 4), (6, 4)]).periods
    assert (period.reason, period.story) == ("need_above", narrate(NEED))
    assert period.reasons_s.longest_first() == [("dead_band", 30.0), ("need_above", 15.0)]
    assert isinstance(period, Period)
    assert period.seconds == 45.0


def test_what_is_not_known_is_no_difference_and_ends_one() -> None:
    found = differences([(6, 4), (None, 4), (6, None), (6, 4)])
    assert [(one.start, one.end) for one in found.periods] == [(0.0, 15.0), (45.0, 60.0)]


def test_periods_beyond_the_bound_are_counted_and_their_time_too() -> None:
    found = differences([(6, 4), (4, 4)] * 5, most=2)
    assert (len(found.periods), found.left_out, found.more_s) == (2, 3, 75.0)
