"""Make the pictures under docs/images: start the demo on data of its own and look at it.

It takes the demo's own people and scenarios, so the pictures show what anyone sees. Run it with
`make screenshots`; it needs Chromium.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from playwright.sync_api import Browser, Locator, Page, expect, sync_playwright

from tests import browsers

expect.set_options(timeout=60_000)  # milliseconds for a state to come: a machine may be busy

ROOT = Path(__file__).resolve().parents[1]
IMAGES = ROOT / "docs" / "images"
LOOKS = {"light": (1440, 900), "dark": (1440, 900), "phone": (390, 844)}
FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-sync"]
LAUNCHED = (
    "Refund under the limit is paid at once",
    "Refund to somebody else is blocked",
    "Two specialists decline, the third answers",
)
AT_TOP = """() => new Promise((done) => {
    const look = () => requestAnimationFrame(scrollY ? look : () => requestAnimationFrame(done));
    look();
})"""
SHOWN = "Refund over the limit waits for approval"


def free_port() -> int:
    with closing(socket.socket()) as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def demo() -> Iterator[tuple[str, dict[str, str]]]:
    """Serve the demo; yield its address and its passwords by name."""
    with tempfile.TemporaryDirectory() as data:
        port = free_port()
        env = {**os.environ, "OPSCONSOLE_DATA_DIR": data, "OPSCONSOLE_ENV_FILE": ""}
        command = [sys.executable, "manage.py", "demo", "--port", str(port)]
        child = subprocess.Popen(command, cwd=ROOT, env=env, stdout=subprocess.DEVNULL)  # noqa: S603
        try:
            end = time.monotonic() + 300
            while True:
                try:
                    socket.create_connection(("127.0.0.1", port), 0.2).close()
                    break
                except OSError:
                    if time.monotonic() > end:
                        raise
                    time.sleep(0.1)
            sign_ins = Path(data, "demo-sign-ins.json")
            yield f"http://127.0.0.1:{port}", json.loads(sign_ins.read_text())
        finally:
            child.send_signal(signal.SIGINT)
            child.wait(20)


def signed_in(browser: Browser, site: str, name: str, password: str, look: str) -> Page:
    width, height = LOOKS[look]
    page = browser.new_context(
        viewport={"width": width, "height": height},
        color_scheme="dark" if look == "dark" else "light",
        reduced_motion="reduce",
    ).new_page()
    page.goto(f"{site}/sign-in/")
    page.get_by_label("Name").fill(name)
    page.get_by_label("Password").fill(password)
    page.get_by_role("button", name="Sign in").click()
    page.wait_for_url(f"{site}/")
    return page


def launch(page: Page, site: str, title: str) -> str:
    """Launch a scenario; return the address of its run."""
    page.goto(f"{site}/launch/")
    page.get_by_role("button", name=f"Launch: {title}", exact=True).click()
    expect(page.locator("#run h2").first).to_be_visible()
    return page.url


def request_of(page: Page) -> str:
    """Wait until the run of a page asks for approval; return the address of its request."""
    link = page.locator("#run .runhead a[href^='/approvals/']")
    expect(link).to_be_visible()
    return link.get_attribute("href") or ""


def fill_in(page: Page) -> Locator:
    """Type an amount and a reason into the form of a request; return its button."""
    page.locator("#set-amount_minor").fill("800")
    page.locator("#comment").fill("Team used four seats for ten days; refund the rest.")
    return page.get_by_role("button", name="Pay USD 800.00")


def main() -> None:
    IMAGES.mkdir(parents=True, exist_ok=True)
    chromium = browsers.find() or browsers.fetch()
    with demo() as (site, passwords), sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=FLAGS)
        omar = signed_in(browser, site, "omar", passwords["omar"], "light")
        for title in LAUNCHED:
            launch(omar, site, title)
        decided = launch(omar, site, SHOWN)
        rita = signed_in(browser, site, "rita", passwords["rita"], "light")
        rita.goto(site + request_of(omar))
        fill_in(rita).click()
        expect(omar.locator("#run[data-ended]")).to_be_visible()
        launch(omar, site, SHOWN)
        card = site + request_of(omar)
        for look in LOOKS:
            page = signed_in(browser, site, "rita", passwords["rita"], look)
            pictures = {"approval": card, "run": decided, "overview": f"{site}/"}
            for name, address in pictures.items():
                page.goto(address)
                expect(page.locator("#live")).to_have_text("Live")
                if address == card:
                    expect(fill_in(page)).to_be_enabled()
                    page.mouse.wheel(0, -5000)
                    page.evaluate(AT_TOP)  # a picture of a scroll under way is half empty
                page.screenshot(path=IMAGES / f"{name}-{look}.png")
        browser.close()


if __name__ == "__main__":
    main()
