"""After a test, every ruling in its database is judged again from what is stored with it."""

from collections.abc import Generator
from contextlib import ExitStack
from dataclasses import fields
from typing import Any
from unittest.mock import patch

import pytest

from agents.models import Run
from agents.publishing.whatif import EMPTIED, LOCKED, rulings_again
from agents.sdk.desk import DESKS, Desk


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None]:
    """Judge again, but for a test that changes what is stored: it is marked `judged_otherwise`."""
    with ExitStack() as stack:
        read = {desk.name: _watch(desk, stack) for desk in DESKS.values()}
        yield
    for name, names in read.items():
        assert not names, f"{name}: limit(…, gathered=True) is missing: {names}"
    if item.get_closest_marker("django_db") and not item.get_closest_marker("judged_otherwise"):
        runs = Run.objects.select_related("policy")
        if odd := [told for run in runs for told in _odd(run)]:
            raise AssertionError("\n".join(odd))


def _odd(run: Run) -> list[str]:
    found = rulings_again(run, list(run.steps.order_by("position")))
    reasons = [(step.key, no) for step, no in found if isinstance(no, str)]
    return [f"{run} {key}: {no}" for key, no in reasons if no not in (EMPTIED, LOCKED)]


def _watch(desk: Desk, stack: ExitStack) -> set[str]:
    """Return the limits that a desk's facts are gathered by and that do not say so."""
    kind: Any = desk.limits_type
    said = {one.name for one in fields(kind) if one.metadata.get("gathered")} if kind else set()
    read = set[str]()

    class Watched:
        def __init__(self, limits: Any) -> None:
            self.limits = limits

        def __getattr__(self, name: str) -> Any:
            read.update({name} - said)
            return getattr(self.limits, name)

    def watched(gather: Any) -> Any:
        def call(subject: str, asked: Any) -> Any:
            with patch.object(asked, "limits", Watched(asked.limits)):
                return gather(subject, asked)

        return call

    for name in ("gather", "send"):
        if own := getattr(desk, name):
            stack.enter_context(patch.object(desk, name, watched(own)))
    return read
