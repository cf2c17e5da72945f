"""Many ticks of many signals into two counts: any signal, sustained, may scale up; all must agree to scale down.

    up(t)   = max over signals of  min of its up-need   over its up window     (OR)
    down(t) = max over signals of  max of its down-need over its down window   (AND)

One tick in four of the up window may be out of line, so that one jittered sample does not start the wait again; the
newest may not, so that nothing scales up which no longer asks for it. A down-need must be known now and on 90 % of its
window's ticks, or the signal has no vote and nothing scales down.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

from scaler.policy.history import Tick
from scaler.policy.needs import Need

TICKS_PER_OUTLIER: Final = 4
"""One tick out of line is forgiven for each four of the up window."""
PRESENT_SHARE: Final = 0.9
"""The share of the down window's ticks on which a signal must have been there to be trusted."""


class Sustained(NamedTuple):
    """What one signal asks for over its windows; None = no vote. ``*_met`` and ``*_present`` count ticks."""

    up: int | None
    down: int | None
    up_met: int
    down_met: int
    down_present: int


def sustain(ticks: Sequence[Tick], signal: int, *, up_window: int, down_window: int, requested: int) -> Sustained:
    """Combine one signal over its windows.

    Args:
        ticks: The pool's past, oldest first, the newest included.
        signal: The signal's place in ``Tick.needs``.
        up_window: Ticks an up-need must last.
        down_window: Ticks a down-need must last.
        requested: n, to count for how many ticks the signal has asked for more, or could do with fewer.
    """
    newest = ticks[-1].needs[signal]
    ups = [tick.needs[signal].up or 0 for tick in ticks[-up_window:]]
    downs = [down for tick in ticks[-down_window:] if (down := tick.needs[signal].down) is not None]
    return Sustained(
        up=None if newest.up is None else min(newest.up, _lowest_but_outliers(ups, up_window)),
        down=max(downs) if _is_trusted(newest, len(downs), down_window) else None,
        up_met=len([up for up in ups if up > requested]),
        down_met=len([down for down in downs if down < requested]),
        down_present=len(downs),
    )


def _lowest_but_outliers(ups: list[int], window: int) -> int:
    """Return the smallest need of a window, but for those forgiven; a tick that is not there asks for nothing."""
    forgiven = window // TICKS_PER_OUTLIER
    padded = sorted([0] * (window - len(ups)) + ups)
    return padded[forgiven]


def _is_trusted(newest: Need, present: int, window: int) -> bool:
    return newest.down is not None and present >= PRESENT_SHARE * window
