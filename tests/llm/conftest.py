"""A scripted server for the whole package of tests; each test has a script of its own."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.conformance.harness import replaying
from tests.conformance.replay_server import ReplayServer


@pytest.fixture(scope="session")
def replay() -> Iterator[ReplayServer]:
    with replaying() as server:
        yield server


@pytest.fixture
def nothing_is_configured(settings: Any) -> None:
    settings.OPENAI_API_KEY = settings.OPENAI_BASE_URL = ""
