"""What Python's interpreter is told, so that KEDA is answered while thousands of pools are read and decided on."""

import gc
import sys
from typing import Final

SWITCH_INTERVAL_S: Final = 0.0005
"""A thread that computes gives way after so long: a call passes through the event loop some ten times, so that at the
default of 5 ms it would wait 50 ms while answers of Prometheus are decoded."""
GC_THRESHOLDS: Final = (50_000, 20, 100)
"""A tick makes millions of values that live until the next and are in no cycle. With the default of (700, 10, 10) they
are searched for cycles again and again, and all that the service remembers with them, while nothing else runs."""


def prepare_interpreter() -> None:
    """Set what holds for the whole process. For whoever owns the process; nobody else calls it."""
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    gc.collect()
    # Modules, classes and settings stay for good.
    gc.freeze()
    gc.set_threshold(*GC_THRESHOLDS)
