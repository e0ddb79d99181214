"""The examples of docs/extending.md are in place while these tests run."""

from collections.abc import Iterator

import pytest

from agents.engine.runtime import crashpoints
from tests.extending.dropped import load_examples


@pytest.fixture(autouse=True)
def _in_place() -> Iterator[None]:
    with load_examples():
        yield
    crashpoints.watch(None)
