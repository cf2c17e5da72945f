"""The programs that render, looked for once."""

from pathlib import Path

import pytest

from tests.conftest import tool
from tests.manifests import CASES


@pytest.fixture(scope="session", params=["helm3", "helm4"])
def helm(request: pytest.FixtureRequest) -> Path:
    return tool(request.param)


@pytest.fixture(scope="session")
def helm4() -> Path:
    return tool("helm4")


@pytest.fixture(scope="session")
def kubectl() -> Path:
    return tool("kubectl")


@pytest.fixture(scope="session", params=CASES)
def case(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name
