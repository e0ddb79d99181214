"""A server process for the pages, and a real browser to open them."""

import os
import socket
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import connection
from playwright.sync_api import Browser, Error, Page, Response, expect, sync_playwright

from agents.models import Run
from tests import browsers
from tests.engine.scene import go
from tests.live.watching import cookie_of
from tests.ports import free_port
from tests.processes import LONGEST, running

# Playwright runs an event loop in this thread, where Django would refuse its ORM.
os.environ["DJANGO_ALLOW_ASYNC_UNSAFE"] = "true"

FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
PATIENT = 60_000  # milliseconds to wait for a state, on a busy machine
expect.set_options(timeout=PATIENT)
INTERRUPTED = ("interrupted by another navigation", "net::ERR_ABORTED")
PASSWORD = "a-password-of-the-test"
CUT = ("Failed to load resource", "Failed to fetch", "network error", "ERR_", "reconnect failed")
Desk = Callable[..., Page]


class Card:
    """What people see and use on a card, whatever it is called there."""

    AMOUNT = "[name='set.amount_minor']"
    REASON, WHY_NOT, COMMENT = "#comment", "#refusal", "#text"
    SEND = "#dform .acts button:visible"
    CLAIM, RELEASE = (f"#claim form[action*='/{verb}/'] button" for verb in ("claim", "release"))


def is_up(port: int) -> bool:
    """Tell whether a server answers on this machine."""
    try:
        socket.create_connection(("127.0.0.1", port), 0.2).close()
    except OSError:
        return False
    return True


@contextmanager
def serve(port: int = 0, **more: str) -> Iterator[str]:
    """Serve the pages from a separate process; yield the address."""
    with serving(port, **more) as (site, _):
        yield site


@contextmanager
def serving(port: int = 0, **more: str) -> Iterator[tuple[str, int]]:
    """Do so; yield the address and the process's id."""
    port = port or free_port()
    more = {"DJANGO_SETTINGS_MODULE": "tests.settings", **more}
    with running("manage.py", "serve", "--port", str(port), **more) as server:
        end = time.monotonic() + LONGEST
        while not is_up(port):
            assert time.monotonic() < end, "the server did not come up"
            time.sleep(0.05)
        yield f"http://127.0.0.1:{port}", server.pid


@contextmanager
def chromium() -> Iterator[Browser]:
    """Open this machine's browser; skip the test if there is none."""
    path = browsers.find()
    if not path:
        pytest.skip(browsers.MISSING)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=FLAGS)
        try:
            yield browser
        except Exception as error:
            note_pages(error, browser)
            raise
        browser.close()


def note_pages(error: BaseException, browser: Browser) -> None:
    """Add to a failure what each open page shows, and what its browser complained about."""
    for page in [page for context in browser.contexts for page in context.pages]:
        said = [f"{one.type}: {one.text}" for one in page.console_messages() if one.type == "error"]
        said += map(str, page.page_errors())
        for part in ("title", "h1", "#card h2", "[role=alert]:visible", ":focus"):
            with suppress(Error):  # it has none
                said.append(f"{part}: {page.locator(part).first.text_content(timeout=2000)!r}")
        error.add_note("\n  ".join([f"Open page: {page.url}", *said[-9:]]))


def open_page(browser: Browser, **context: Any) -> Page:
    """Open a page in its own browser context, without animations.

    A pulsing mark redraws a page sixty times a second. Playwright enables motion in each
    context that does not say otherwise, whatever the browser's flags are.
    """
    page = browser.new_context(reduced_motion="reduce", **context).new_page()
    page.set_default_timeout(PATIENT)
    page.goto = partial(_go, page, page.goto)  # type: ignore[method-assign]
    return page


def _go(page: Page, goto: Callable[..., Response | None], url: str, **how: Any) -> Response | None:
    """Go to an address, after whatever navigation is still under way has ended."""
    for _ in range(20):
        try:
            return goto(url, **how)
        except Error as error:
            if not any(why in str(error) for why in INTERRUPTED):
                raise
            page.wait_for_timeout(100)
    return goto(url, **how)


def own_page(browser: Browser, name: str, complaints: list[str], **context: Any) -> Page:
    """Return a separate browser in which nobody has signed in yet."""
    page = open_page(browser, **context)

    def hear(text: str) -> None:
        # The browser rightly reports connections that a test cuts, and refusals.
        if not any(cut in text for cut in CUT):
            complaints.append(f"{name}: {text}")

    page.on("console", lambda message: hear(message.text))
    page.on("pageerror", lambda error: hear(str(error)))
    return page


def desk_of(browser: Browser, site: str, name: str, complaints: list[str], **context: Any) -> Page:
    """Return a separate browser for a person who has signed in."""
    page = own_page(browser, name, complaints, **context)
    sign_in(page, site, name)
    return page


def is_live(*pages: Page) -> None:
    """Wait until pages show what comes live, and answer keys."""
    for page in pages:
        expect(page.locator("#live:not(.stale)")).to_be_attached()


def go_by_key(page: Page, key: str, address: str) -> None:
    """Press a key that leads to another page, once this one answers keys."""
    is_live(page)
    page.keyboard.press(key)
    page.wait_for_url(address)


@contextmanager
def console() -> Iterator[str]:
    """Serve the pages, with a worker beside them."""
    with serve() as site, running("manage.py", "work"):
        yield site


def advance_run(run: Run) -> Run:
    """Advance a run once in a thread, as this one has the browser's event loop."""

    def work() -> Run:
        try:
            return go(run)
        finally:
            connection.close()

    with ThreadPoolExecutor(1) as pool:
        return pool.submit(work).result()


def with_passwords(*people: User) -> None:
    """Let people sign in by the form."""
    for user in people:
        user.set_password(PASSWORD)
        user.save()


def sign_in(page: Page, site: str, name: str) -> None:
    """Give a person's browser a session, without opening a page."""
    cookie, _, value = cookie_of(User.objects.get(username=name)).partition("=")
    page.context.add_cookies([{"name": cookie, "value": value, "url": site}])


def sign_in_by_form(page: Page, site: str, name: str, password: str = PASSWORD) -> None:
    page.goto(f"{site}/sign-in/")
    page.get_by_label("Name").fill(name)
    page.get_by_label("Password").fill(password)
    page.get_by_role("button", name="Sign in").click()
    page.wait_for_url(f"{site}/")
