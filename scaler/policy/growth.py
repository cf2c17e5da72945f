"""How many more requests are on their way while every replica is full, so that an increase is enough when it serves.

A queue is no measure of the load: it is what has come so far beyond what is served, and by the time a replica has
started it is minutes longer. How fast it grows is one: with R running, u served and g more coming in a second, the load
would keep R (u + g) / u requests running, by Little's law.

Growth is heard only if it is certain, while nobody has room, and among replicas that were there before: what a replica
brings along that was not seen before has not just come.
"""

import math
from collections.abc import Sequence
from typing import Final

from scaler.model import Absent, Observation, PoolPolicy
from scaler.policy.history import NOISE_WINDOWS, History, Tick, rate_windows_in_ticks
from scaler.policy.needs import NO_GROWTH, Growth
from scaler.policy.wedges import has_room

SPANS: Final = (0.5, 0.75, 1.0, 1.25, 1.5)
"""Growth is looked for over each of these shares of the rate window, 30 to 90 s by default: a leap shows at once, a
slower growth above its noise only later. Half a window is two scrapes."""
CERTAIN_DEVIATIONS: Final = 4.0
"""Three would be exceeded by chance several times a day: every tick is a look."""
FEWEST_STARTED: Final = 5.0
"""Fewer first tokens in the rate window do not tell how much is served."""
STILL_GROWING: Final = 0.5
"""What has come at once and does not go on coming is no growth: the shortest span must show at least half of it."""
_DEVIATIONS_PER_MEDIAN: Final = 1.4826
"""Of a normal distribution, the standard deviation by the median of absolute values."""


def growth(policy: PoolPolicy, history: History, observation: Observation) -> Growth:
    """Return how the load of a pool without room grows; ``NO_GROWTH`` unless that is certain.

    Certain is more than four standard deviations, of what chance does to the difference of arrivals and departures or
    of what the requests in flight have done of late, whichever is more. It is known only once most of the noise's span
    has been seen. No growth is taken for more than all that is in flight: what is served may have fallen meanwhile.

    Args:
        policy: The pool.
        history: Its past, without this observation.
        observation: What is seen now, all that waits included.

    Worked: 48 running, 0.8 first tokens/s, and 48 requests more in 30 s, which are 1.6 more a second than are served:
    chance makes sqrt(2 x 0.8 x 30) = 6.9 in 30 s, so it is certain, and 48 x 1.6 / 0.8 = 96 more are on their way.
    """
    running, waiting, started = observation.running, observation.waiting, observation.ttft_samples
    if isinstance(running, Absent) or isinstance(waiting, Absent) or isinstance(started, Absent):
        return NO_GROWTH
    if waiting <= 0 or started < FEWEST_STARTED or has_room(observation, policy.slots_per_replica):
        return NO_GROWTH
    if any(watch.silent_since is not None for watch in history.wedges):
        # What it keeps back is neither served nor new.
        return NO_GROWTH
    window_s = policy.locator.rate_window_s
    served_per_s = started / window_s
    per_s = _certain_growth(policy, history.ticks, observation, running + waiting, served_per_s)
    if per_s <= 0:
        return NO_GROWTH
    seen = [tick.running for tick in history.within(observation.at, window_s) if not isinstance(tick.running, Absent)]
    mean = sum((running, *seen)) / (len(seen) + 1)
    return Growth(per_s, served_per_s, min(running + waiting, mean * per_s / served_per_s))


def _certain_growth(
    policy: PoolPolicy, ticks: Sequence[Tick], observation: Observation, x: float, served_per_s: float
) -> float:
    most = rate_windows_in_ticks(policy, NOISE_WINDOWS)
    recent = ticks[-most:]
    line = [_in_flight(tick) for tick in recent]
    if sum(each is not None for each in line) <= most // 2:
        return 0.0
    # Ticks that are missing between the newest one and this.
    missing = round((observation.at - recent[-1].at) / policy.tick_s) - 1
    fastest = usual = 0.0
    lately: float | None = None
    for span in sorted({rate_windows_in_ticks(policy, windows) for windows in SPANS}):
        # Over a longer span things change no less: traffic that comes in beats would else seem calm over one beat.
        usual = max(usual, _usual_change(line, span))
        back = span - missing
        if not 1 <= back <= len(line):
            continue
        before, serving = line[-back], recent[-back].serving
        if before is None or isinstance(serving, Absent) or isinstance(observation.serving, Absent):
            continue
        span_s = span * policy.tick_s
        per_s = (x - before) / span_s
        lately = per_s if lately is None else lately
        deviation = max(math.sqrt(2 * served_per_s * span_s), usual)
        if observation.serving <= serving and x - before > CERTAIN_DEVIATIONS * deviation:
            fastest = max(fastest, per_s)
    return fastest if lately is not None and lately >= STILL_GROWING * fastest else 0.0


def _usual_change(line: Sequence[float | None], span: int) -> float:
    """Return the standard deviation of the past's changes over so many ticks, by their median; 0 where there is none.

    The median, since the growth itself is among them as soon as it lasts for some ticks.
    """
    pairs = zip(line, line[span:], strict=False)
    changes = sorted(abs(after - before) for before, after in pairs if before is not None and after is not None)
    return _DEVIATIONS_PER_MEDIAN * changes[len(changes) // 2] if changes else 0.0


def _in_flight(tick: Tick) -> float | None:
    running, waiting = tick.running, tick.waiting
    return None if isinstance(running, Absent) or isinstance(waiting, Absent) else running + waiting
