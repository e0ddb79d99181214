"""The examples of docs/extending.md are in place while these tests run."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from agents.engine import crashpoints
from tests.extending.dropped import dropped_in


@pytest.fixture(autouse=True)
def _in_place() -> Iterator[None]:
    with dropped_in():
        yield
    crashpoints.watch(None)
