"""Plant mutants: break one guard at a time, and see the tests find it.

Each mutant is a line of ours that must matter; the files `.toml` beside this one list them. It is
exchanged and the named tests run: in a fork of a process that has imported everything where the
line is a function's (`swap`), else in a tree of links. A mutant that they let live fails this
script. Run it alone with

    python -m tests.mutants.plant [NAME ...]
"""

import atexit
import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from tests import nursery
from tests.mutants import swap
from tests.processes import Contenders

ROOT = Path(__file__).parent.parent.parent
FOLDERS = ("agents", "opsconsole", "templates", "static", "scripts", "bench", "tests")
USED = (*FOLDERS, "pyproject.toml", "manage.py", "requirements-dev.lock")
# Libraries with plugins for pytest were imported before it begins. What nobody collected is the
# suite's business: looking for it takes a third of a session's end. Nobody reads a traceback.
QUICK = (
    *("-W", "ignore::pytest.PytestAssertRewriteWarning"),
    *("-p", "no:unraisableexception", "--tb=native"),
)
HELD = (
    *("_hypothesis_pytestplugin", "anyio.pytest_plugin", "hypothesis", "pytest", "time_machine"),
    *("pytest_django.fixtures", "unittest.mock", "xdist.looponfail", "xdist.plugin"),
)
LONGEST = 600  # seconds for the tests of one mutant


@dataclass(frozen=True)
class Mutant:
    """One guard, broken."""

    name: str
    path: str
    was: str
    now: str
    tests: str  # what must fail


MUTANTS = [
    Mutant(name, **one)
    for file in sorted(Path(__file__).parent.glob("*.toml"))
    for name, one in tomllib.loads(file.read_text(encoding="utf-8")).items()
]


def lives(mutant: Mutant) -> bool:
    """Tell whether the tests let a mutant live. Raises ValueError if its line is gone."""
    was = (ROOT / mutant.path).read_text(encoding="utf-8")
    if was.count(mutant.was) != 1:
        raise ValueError(f"{mutant.name}: its line is not in {mutant.path} exactly once")
    now = was.replace(mutant.was, mutant.now)
    if mutant.path.endswith(".py") and swap.is_code_of_functions(was, now):
        file, _, keyword = mutant.tests.partition(" -k ")
        given = [mutant.path, was, now, file, keyword]
        [[code, told]] = _bed().meet("tests.mutants.swap:outcome", [given])
    else:
        code, told = _in_a_tree(mutant, now, [*mutant.tests.split(), "-q", "-x", *QUICK])
    if code not in (0, 1):
        raise ValueError(f"{mutant.name}: its tests did not run\n{told}")
    return bool(code == 0)


@cache
def _bed() -> Contenders:
    """Return the process that mutants' forks are of."""
    env = {**os.environ, "DJANGO_SETTINGS_MODULE": "tests.settings"}
    pipes: Any = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    command = [sys.executable, "-m", "tests.mutants.swap", *QUICK]
    bed = nursery.Program(command, cwd=ROOT, env=env, libraries=HELD, **pipes)
    atexit.register(bed.communicate)
    return Contenders([bed])


def _in_a_tree(mutant: Mutant, now: str, arguments: list[str]) -> tuple[int, str]:
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder)
        for name in USED:
            # Templates are found beside the settings, wherever a link to these leads.
            is_beside = name == "opsconsole" and mutant.path.startswith("templates/")
            if mutant.path.startswith(f"{name}/") or is_beside:
                # Compiled files come along: a copy keeps the times that they are checked by.
                shutil.copytree(ROOT / name, tree / name)
            else:
                (tree / name).symlink_to(ROOT / name)
        (tree / mutant.path).write_text(now, encoding="utf-8")
        env = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
        ended = nursery.run(
            ["-m", "pytest", *arguments], cwd=tree, env=env, timeout=LONGEST, libraries=HELD
        )
        return ended.returncode, ended.stdout


def main(names: list[str]) -> int:
    """Plant every mutant, or those named. Return how many lived."""
    chosen = [m for m in MUTANTS if not names or m.name in names]
    alive = 0
    for mutant in chosen:
        alive += (lived := lives(mutant))
        print(f"{'LIVES' if lived else 'found'}: {mutant.name}", flush=True)
    print(f"{len(chosen) - alive} of {len(chosen)} mutants found")
    return alive


if __name__ == "__main__":
    sys.exit(1 if main(sys.argv[1:]) else 0)
