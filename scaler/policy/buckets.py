"""The bounds of vLLM's latency histograms, in seconds: a quantile between two of them is an estimate.

They are the same from release 0.8.5 to 0.33. Since 0.32 they can be overridden, which nothing in vLLM's metrics tells.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from scaler.model import SignalName

TTFT_BOUNDS_S: Final = (
    *(0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75),
    *(1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0, 80.0, 160.0, 640.0, 2560.0),
)
INTER_TOKEN_BOUNDS_S: Final = (
    *(0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75),
    *(1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0, 80.0),
)
REQUEST_BOUNDS_S: Final = (
    *(0.3, 0.5, 0.8, 1.0, 1.5, 2.0, 2.5, 5.0, 10.0, 15.0, 20.0, 30.0, 40.0, 50.0, 60.0),
    *(120.0, 240.0, 480.0, 960.0, 1920.0, 7680.0),
)
"""End-to-end and queue times."""
LATENCY_BOUNDS_S: Final[Mapping[SignalName, tuple[float, ...]]] = MappingProxyType(
    {
        SignalName.TTFT_P95: TTFT_BOUNDS_S,
        SignalName.ITL_P95: INTER_TOKEN_BOUNDS_S,
        SignalName.QUEUE_TIME_P95: REQUEST_BOUNDS_S,
        SignalName.E2E_P95: REQUEST_BOUNDS_S,
    }
)
"""The bounds behind each latency."""
