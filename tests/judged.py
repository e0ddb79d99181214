"""After a test, every ruling in its database is judged again from what is stored with it."""

from collections.abc import Generator

import pytest

from agents.engine.again import EMPTIED, LOCKED, rulings_again
from agents.models import Run


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None]:
    """Judge again, but for a test that changes what is stored: it is marked `judged_otherwise`."""
    yield
    if item.get_closest_marker("django_db") and not item.get_closest_marker("judged_otherwise"):
        runs = Run.objects.select_related("policy")
        if odd := [told for run in runs for told in _odd(run)]:
            raise AssertionError("\n".join(odd))


def _odd(run: Run) -> list[str]:
    found = rulings_again(run, list(run.steps.order_by("position")))
    reasons = [(step.key, no) for step, no in found if isinstance(no, str)]
    return [f"{run} {key}: {no}" for key, no in reasons if no not in (EMPTIED, LOCKED)]
