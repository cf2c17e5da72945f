"""Hypothesis for this folder: enough examples to find what there is to find, few enough for every run of the tests.

``HYPOTHESIS_PROFILE=thorough`` looks ten times as hard.
"""

import os

from hypothesis import HealthCheck, settings

_COMMON = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow, HealthCheck.data_too_large]}
settings.register_profile("quick", max_examples=80, **_COMMON)  # type: ignore[arg-type]  # one dict for both profiles
settings.register_profile("thorough", max_examples=800, **_COMMON)  # type: ignore[arg-type]  # as above
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "quick"))
