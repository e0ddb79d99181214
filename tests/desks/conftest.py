"""The access desk of docs/desks.md, registered for one test."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from agents.engine.desk import registry
from agents.sdk.desk import DESKS, Desk
from tests.desks import page
from tests.judged import pytest_runtest_call as pytest_runtest_call


@pytest.fixture
def no_desk_left() -> Iterator[None]:
    """Unregister whatever a test registers."""
    before = dict(DESKS)
    yield
    DESKS.clear()
    DESKS.update(before)
    for name in [
        name
        for name in sys.modules
        if name.partition(".")[0] in ("acme_access", "acme_coding", "rooms", "samples", "tea")
    ]:
        del sys.modules[name]


@pytest.fixture
def access(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, no_desk_left: None) -> Desk:
    page.write(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    from acme_access.desk import desk  # type: ignore[import-not-found]

    registry.enter_desk(desk)
    return desk
