"""What several integration tests ask for."""

from dataclasses import replace
from typing import Any

import pytest

from scaler.model import Decision
from scaler.policy.decide import advance


@pytest.fixture
def changed_decisions(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Fields that every decision of a running service gets, on top of what the law says."""
    fields: dict[str, Any] = {}

    def altered(*args: Any) -> tuple[Any, Decision]:
        history, decision = advance(*args)
        return history, replace(decision, **fields)

    monkeypatch.setattr("scaler.service.ticker.advance", altered)
    return fields
