import logging
from collections.abc import Iterator

import pytest
import structlog


@pytest.fixture(autouse=True)
def logging_as_before() -> Iterator[None]:
    root, configuration = logging.getLogger(), structlog.get_config()
    handlers, level, raising = list(root.handlers), root.level, logging.raiseExceptions
    yield
    root.handlers[:], logging.raiseExceptions = handlers, raising
    root.setLevel(level)
    structlog.configure(**configuration)
