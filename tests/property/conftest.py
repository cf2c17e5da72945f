"""Hypothesis for this folder: enough examples to find what there is to find, few enough for every run of the tests.

``HYPOTHESIS_PROFILE=thorough`` looks ten times as hard, and shrinks what it finds, which can take minutes.
"""

import os

from hypothesis import HealthCheck, Phase, settings

_SLOW = [HealthCheck.too_slow, HealthCheck.data_too_large]
settings.register_profile(
    "quick",
    max_examples=60,
    deadline=None,
    suppress_health_check=_SLOW,
    phases=[Phase.explicit, Phase.reuse, Phase.generate],
)
settings.register_profile("thorough", max_examples=800, deadline=None, suppress_health_check=_SLOW)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "quick"))
