"""The browser that tests drive: the machine's Chromium or Chrome, or a downloaded one.

Playwright's own download if its server is reachable; as root, Debian's package.
"""

import os
import subprocess
import sys
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from shutil import which

VARIABLE = "OPSCONSOLE_TEST_BROWSER"
COMMANDS = (
    "chromium-headless-shell",  # the same engine without windows: two thirds of the time
    *("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome"),
    *("microsoft-edge", "microsoft-edge-stable"),
)
MAC = "/Applications/{0}.app/Contents/MacOS/{0}"
MISSING = "no Chromium or Chrome that Playwright can drive was found"
# Playwright brings its own Node, which needs a library that a small Debian lacks.
PACKAGES = ("chromium-headless-shell", "libatomic1")
ADVICE = (
    f"{MISSING} and none could be fetched. Install one (Debian: apt install {' '.join(PACKAGES)}; "
    f"elsewhere: .venv/bin/playwright install --with-deps chromium) or name it by {VARIABLE}."
)
PLAYWRIGHT = (sys.executable, "-m", "playwright")
LONGEST = 600  # seconds for a download


@cache
def find() -> str:
    """Return the path of a browser that starts, or "". A configured one is the only candidate."""
    given = os.environ.get(VARIABLE)
    candidates: Iterable[str] = [given] if given else _candidates()
    if not _succeeds([*PLAYWRIGHT, "--version"], 60):
        return ""
    return next((path for path in candidates if _starts(path)), "")


def fetch() -> str:
    """Download a browser if no permission is needed. Return its path, or ""."""
    print(f"{MISSING}; fetching one (once)", flush=True)
    ways = [[*PLAYWRIGHT, "install", "chromium"]]
    if which("apt-get") and os.geteuid() == 0:
        ways += [["apt-get", "update", "-qq"]]
        ways += [["apt-get", "install", "-y", "-qq", "--no-install-recommends", *PACKAGES]]
    for way in ways:
        if not find() and _succeeds(way, LONGEST):
            find.cache_clear()
    return find()


def _candidates() -> Iterator[str]:
    yield from filter(None, map(which, COMMANDS))
    yield from (MAC.format(name) for name in ("Google Chrome", "Chromium"))
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        path = playwright.chromium.executable_path
    yield path


def _starts(path: str) -> bool:
    """Tell whether a program exists and starts."""
    return Path(path).is_file() and _succeeds([path, "--version"], 60)


def _succeeds(command: list[str], seconds: int) -> bool:
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    try:
        ended = subprocess.run(
            command, env=environment, capture_output=True, timeout=seconds, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return ended.returncode == 0
