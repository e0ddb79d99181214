"""Real processes against the database of the test that starts them.

`together` runs functions in processes of their own, all let go at the same moment, and returns
what each returned. Run as a program it is one such process.
"""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
LONGEST = 60  # seconds for one process


def environment(**more: str) -> dict[str, str]:
    """Return what a process needs to find the test's database."""
    return {
        **os.environ,
        "DJANGO_SETTINGS_MODULE": "opsconsole.settings",
        "DATABASE_URL": database_url(),
        "PYTHONUNBUFFERED": "1",
        **more,
    }


def database_url() -> str:
    """Return the address of the database that this test uses."""
    from django.db import connection

    given = connection.settings_dict
    if connection.vendor == "sqlite":
        return f"sqlite:///{given['NAME']}"
    who = f"{given['USER']}:{given['PASSWORD']}" if given["PASSWORD"] else given["USER"]
    return f"postgresql://{who}@{given['HOST']}:{given['PORT']}/{given['NAME']}"


def together(function: str, arguments: Sequence[Sequence[Any]]) -> list[Any]:
    """Call `function` ("module:name") once for each list of arguments, all at the same moment."""
    children = [
        subprocess.Popen(
            [sys.executable, "-m", "tests.processes", function, json.dumps(list(given))],
            cwd=ROOT,
            env=environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for given in arguments
    ]
    for child in children:
        assert child.stdout is not None
        assert child.stdout.readline() == "ready\n"
    for child in children:
        assert child.stdin is not None
        child.stdin.write("go\n")
        child.stdin.flush()
    said = [child.communicate(timeout=LONGEST)[0] for child in children]
    assert [child.returncode for child in children] == [0] * len(children)
    return [json.loads(line) for line in said]


@contextmanager
def running(*arguments: str, **more: str) -> Iterator[subprocess.Popen[bytes]]:
    """Run a program of Python's while the block runs; then end it."""
    child = subprocess.Popen([sys.executable, *arguments], cwd=ROOT, env=environment(**more))
    try:
        yield child
    finally:
        if child.poll() is None:
            child.terminate()
        child.wait(LONGEST)


def main(function: str, arguments: str) -> None:
    """Be one process: get ready, wait for the word, do it, say what came of it."""
    import django

    django.setup()
    module, _, name = function.partition(":")
    call = getattr(importlib.import_module(module), name)
    print("ready", flush=True)
    sys.stdin.readline()
    print(json.dumps(call(*json.loads(arguments))), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
