"""Real processes on the database of the test that starts them.

`contenders` are processes that wait for calls, start them at the same moment, and report what
each returned; `together` runs one such round. As a program, this file is one of them.
"""

import importlib
import io
import json
import os
import select
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path
from typing import IO, Any

from tests.nursery import READ_LATER, Program

ROOT = Path(__file__).parent.parent
LONGEST = 600  # seconds for one process on a busy machine
SIX = 6  # of a race
_begun: set[tuple[str, ...]] = set()  # the environments in which programs have begun


# Set by browser tests for themselves; our processes must not have it.
UNSAFE = "DJANGO_ALLOW_ASYNC_UNSAFE"
# Names the running test: with it, each test's processes would have Django set up anew for them.
OF_ONE_TEST = "PYTEST_CURRENT_TEST"


def environment(**more: str) -> dict[str, str]:
    """Return what a process needs to find the test's database."""
    kept = {k: v for k, v in os.environ.items() if k not in (UNSAFE, OF_ONE_TEST)}
    return {
        **kept,
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


class Contenders:
    """Processes that act at the same moment, any number of times."""

    def __init__(self, children: Sequence[subprocess.Popen[str]]) -> None:
        self.children = children

    def meet(self, function: str, arguments: Sequence[Sequence[Any]]) -> list[Any]:
        """Call `function` ("module:name") once for each list of arguments, all at once.

        Return what each call returned. There are as many processes as lists, or more.
        """
        called = self.children[: len(arguments)]
        for child, given in zip(called, arguments, strict=True):
            _tell(child, json.dumps([function, list(given)]))
        assert [_next_line(child) for child in called] == ["ready"] * len(called)
        for child in called:
            _tell(child, "go")
        return [json.loads(_next_line(child)) for child in called]


@contextmanager
def contenders(count: int, env: Mapping[str, str] | None = None) -> Iterator[Contenders]:
    """Keep processes for the block, as starting one takes longer than most races."""
    children = [
        Program(
            [sys.executable, "-m", "tests.processes"],
            cwd=ROOT,
            env=environment() if env is None else env,
            is_set_up=env is None,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(count)
    ]
    try:
        yield Contenders(children)
        for child in children:
            child.communicate(timeout=LONGEST)  # the end of input tells it to end
        assert [child.returncode for child in children] == [0] * count
    finally:
        for child in children:
            child.kill()
            child.communicate(timeout=LONGEST)  # also closes its pipes after a failure


def together(function: str, arguments: Sequence[Sequence[Any]]) -> list[Any]:
    """Call `function` once for each list of arguments, each in a process of its own."""
    with contenders(len(arguments)) as crowd:
        return crowd.meet(function, arguments)


def _tell(child: subprocess.Popen[str], line: str) -> None:
    assert child.stdin is not None
    child.stdin.write(line + "\n")
    child.stdin.flush()


def _next_line(child: subprocess.Popen[str]) -> str:
    """Return the next line of a process, which writes one per request."""
    assert child.stdout is not None
    said, _, _ = select.select([child.stdout], [], [], LONGEST)
    assert said, "a process says nothing"
    return child.stdout.readline().rstrip("\n")


@contextmanager
def running(*arguments: str, **more: str) -> Iterator[subprocess.Popen[bytes]]:
    """Run a Python program within the block, then end it."""
    with logging_to(None, *arguments, **more) as child:
        yield child


@contextmanager
def logging_to(
    stderr: IO[bytes] | None, /, *arguments: str, **more: str
) -> Iterator[subprocess.Popen[bytes]]:
    """Run a Python program within the block, then end it; its log goes to a file, if any."""
    command, env = [sys.executable, *arguments], environment(**more)
    child = Program(command, cwd=ROOT, env=env, stderr=stderr, is_set_up=_is_usual(env, more))
    try:
        yield child
    finally:
        if child.poll() is None:
            child.terminate()
        child.wait(LONGEST)


def _is_usual(env: Mapping[str, str], more: Mapping[str, str]) -> bool:
    """Tell whether other programs have this environment, so that Django is set up once for all."""
    own = tuple(f"{name}={value}" for name, value in env.items() if name not in READ_LATER)
    is_known = own in _begun or set(more) <= {"DJANGO_SETTINGS_MODULE"}
    _begun.add(own)
    return is_known


def run_command(*arguments: str) -> tuple[int, str, str]:
    """Run manage.py in this process. Return its exit code, and what it wrote."""
    import manage

    sys.argv = ["manage.py", *arguments]
    out, err, code = io.StringIO(), io.StringIO(), 0
    with redirect_stdout(out), redirect_stderr(err):
        try:
            manage.main()
        except SystemExit as end:
            code = int(end.code or 0)
    return code, out.getvalue(), err.getvalue()


def main() -> None:
    """Be one process: prepare each call, wait for the signal, report the outcome."""
    import django

    django.setup()
    for line in sys.stdin:
        function, arguments = json.loads(line)
        module, _, name = function.partition(":")
        call = getattr(importlib.import_module(module), name)
        print("ready", flush=True)
        sys.stdin.readline()
        print(json.dumps(call(*arguments)), flush=True)


if __name__ == "__main__":
    main()
