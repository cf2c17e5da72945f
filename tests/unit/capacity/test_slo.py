import math
from typing import Any

import pytest

from scaler.capacity.slo import Slo, percent


def test_an_slo_reads_as_a_sentence() -> None:
    assert str(Slo(0.5, 0.05, 2.0)) == "95 % of requests with TTFT <= 0.5 s and TPOT <= 0.05 s and E2E <= 2 s"


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"ttft_s": 0.0},
        {"ttft_s": math.nan},
        {"e2e_s": math.inf},
        {"ttft_s": 1.0, "attainment": 0.0},
        {"ttft_s": 1.0, "attainment": math.nan},
        {"ttft_s": 1.0, "attainment": 1.01},
        {"ttft_s": 1.0, "error_rate": 1.0},
    ],
)
def test_an_slo_without_bounds_or_with_impossible_ones_is_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"an SLO has at least one bound|an attainment is above 0"):
        Slo(**changes)


@pytest.mark.parametrize(
    ("share", "text"), [(1.0, "100 %"), (0.99999, "99.99 %"), (0.98853, "98.85 %"), (0.5, "50 %"), (0.0, "0 %")]
)
def test_a_share_is_never_rounded_up_to_all(share: float, text: str) -> None:
    assert percent(share) == text
