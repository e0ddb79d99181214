"""Named places where tests can make a worker die.

A no-op unless OPSCONSOLE_CRASH_AT=name[:n] is set: then the process ends as by kill -9 when it
reaches that point for the n-th time (from 1).
"""

import os
from collections import Counter
from collections.abc import Callable

_reached: Counter[str] = Counter()
_hook: Callable[[str], None] | None = None


def crashpoint(name: str) -> None:
    """End the process here if a test asks for it."""
    if _hook:
        _hook(name)
    wanted = os.environ.get("OPSCONSOLE_CRASH_AT")
    if not wanted:
        return
    point, _, count = wanted.partition(":")
    if point == name:
        _reached[name] += 1
        if _reached[name] == int(count or 1):
            os._exit(137)


def watch(hook: Callable[[str], None] | None) -> None:
    """Call `hook` with the name of each point this process reaches; None stops that."""
    global _hook
    _hook = hook
