"""A browser for a module's tests, and people who are signed in with it."""

from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, Page

from tests.processes import running
from tests.web.serving import Desk, chromium, desk_of, note_pages, serve


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_makereport(item: Any, call: pytest.CallInfo[None]) -> None:
    """Add what the pages of a failed test show, before its report is made."""
    if call.excinfo and "browser" in item.funcargs:
        note_pages(call.excinfo.value, item.funcargs["browser"])


@pytest.fixture(scope="module")
def open_browser() -> Iterator[Browser]:
    with chromium() as found:
        yield found


@pytest.fixture
def browser(open_browser: Browser) -> Iterator[Browser]:
    """Lend the module's browser, and close what a test opens in it."""
    yield open_browser
    for context in open_browser.contexts:
        context.close()


@pytest.fixture
def complaints() -> Iterator[list[str]]:
    """Collect the browsers' complaints, of which none may be left at the end."""
    found: list[str] = []
    yield found
    assert not found


@pytest.fixture
def site() -> Iterator[str]:
    """Serve the pages. Ask for it after what fills the database."""
    with serve() as address:
        yield address


@pytest.fixture
def worker(site: str) -> Iterator[None]:
    """Run a worker beside the pages."""
    with running("manage.py", "work"):
        yield


@pytest.fixture
def desk(site: str, browser: Browser, complaints: list[str]) -> Desk:
    """Return what opens a page in the browser of a person who has signed in."""

    def open_desk(name: str, path: str = "/", **context: Any) -> Page:
        page = desk_of(browser, site, name, complaints, **context)
        page.goto(site + path)
        return page

    return open_desk
