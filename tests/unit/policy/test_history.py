from dataclasses import replace

from scaler.policy.decide import advance
from scaler.policy.history import History, changed
from tests.builders import observation, policy


def test_a_changed_history_differs_in_the_changes_alone() -> None:
    history = advance(policy(), History(), observation(0, 8, 4))[0]
    assert changed(history, target=7, outdated=2.0) == replace(history, target=7, outdated=2.0)
    assert changed(history) == history
