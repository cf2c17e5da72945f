from collections.abc import Callable

import pytest

from scaler.config.trigger import Trigger, parse_trigger
from scaler.errors import ConfigError

Parse = Callable[..., Trigger]
Problems = Callable[..., tuple[str, ...]]

GOOD = {"deployment": "vllm", "slotsPerReplica": "16"}
QUERIES = ("gateway_queue", "embedding_backlog")


@pytest.fixture
def parse() -> Parse:
    """Parse a good trigger with further keys, where two queries are named; a key given as None is left out."""

    def parse_with(**keys: str | None) -> Trigger:
        metadata = {key: value for key, value in {**GOOD, **keys}.items() if value is not None}
        return parse_trigger("serving", "vllm", metadata, tick_s=15.0, queries=QUERIES)

    return parse_with


@pytest.fixture
def problems(parse: Parse) -> Problems:
    """Return the problems of a good trigger with further keys."""

    def problems_with(**keys: str | None) -> tuple[str, ...]:
        with pytest.raises(ConfigError) as caught:
            parse(**keys)
        return caught.value.problems

    return problems_with
