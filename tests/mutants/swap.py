"""Plant a mutant in a process that holds the whole program: in a fork, functions get other code.

That spares a mutant the import of program and tests and the start of pytest, which are most of its
cost. What a module does when it is imported has been done by then: a line of that needs a tree of
its own (`plant.lives`). As a program, this file is the process, a session of pytest's that collects
nothing by itself.
"""

import gc
import importlib
import os
import sys
import tempfile
import traceback
from itertools import zip_longest
from pathlib import Path
from types import CodeType, FunctionType
from typing import TextIO

import pytest
from _pytest.runner import runtestprotocol

from tests import processes

CALLED = 2  # CO_OPTIMIZED: the code of a function, and not of a module or a class
Key = tuple[str, int]


def is_code_of_functions(was: str, now: str) -> bool:
    """Tell whether two texts of a module differ in nothing but what its functions do."""
    pairs = _pairs(_compile_text(was), _compile_text(now))
    return all(_alone(one) == _alone(other) or one.co_flags & CALLED for one, other in pairs)


class Bed:
    """A plugin of the session in whose forks mutants' tests run."""

    def __init__(self) -> None:
        self.session: pytest.Session
        self.lines: tuple[TextIO, TextIO]
        self._functions: dict[str, list[FunctionType]] = {}
        self._held = 0  # modules that were there when the functions were listed

    def pytest_collection(self) -> bool:
        return True  # there is nothing to do for other plugins

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        self.session = session
        sys.stdin, sys.stdout = self.lines
        processes.main()
        return True

    def functions(self, path: str) -> list[FunctionType]:
        """Return the functions of a file, whoever holds them."""
        if self._held != len(sys.modules):
            self._held = len(sys.modules)
            self._functions = {}
            for one in gc.get_objects():
                if isinstance(one, FunctionType):
                    self._functions.setdefault(one.__code__.co_filename, []).append(one)
        return self._functions.get(path, [])

    def run(self, file: str, keyword: str) -> int:
        """Run tests until one fails. Return what pytest's exit code would be."""
        self.session.config.option.keyword = keyword
        items = self.session.perform_collect([file])
        for item, following in zip_longest(items, items[1:]):
            reports = runtestprotocol(item, log=False, nextitem=following)
            for report in (report for report in reports if report.failed):
                print(item.nodeid, report.longrepr)
                # A test that could not be set up has found nothing.
                is_found = report.when != "setup"
                return pytest.ExitCode.TESTS_FAILED if is_found else pytest.ExitCode.INTERNAL_ERROR
        return pytest.ExitCode.OK if items else pytest.ExitCode.NO_TESTS_COLLECTED


bed = Bed()


def outcome(path: str, was: str, now: str, tests: str, keyword: str) -> tuple[int, str]:
    """Run a file of tests where a file of the program has another text.

    Return pytest's exit code, and what it printed.
    """
    for file in (tests, path):
        if not file.startswith("scripts/"):  # which tests run as they are
            name = file.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
            importlib.import_module(name)
    home, functions = Path(os.environ["OPSCONSOLE_TEST_DIRECTORY"]), bed.functions(_absolute(path))
    with tempfile.TemporaryFile() as told:
        if not (pid := os.fork()):
            code = 99
            try:
                for fd in (1, 2):
                    os.dup2(told.fileno(), fd)
                sys.stdout = sys.__stdout__
                place = home / Path(path).name
                place.write_text(now, encoding="utf-8")
                _exchange(functions, _codes(was, now))
                _lead_elsewhere(Path(path).absolute(), place)
                code = int(bed.run(tests, keyword))
            except BaseException:  # a fork must not come back as its parent
                traceback.print_exc()
            finally:
                sys.stdout.flush()
                os._exit(code)
        _, status = os.waitpid(pid, 0)
        for left in home.glob("*.sqlite3*"):
            left.unlink()
        told.seek(0)
        return os.waitstatus_to_exitcode(status), told.read().decode(errors="replace")


def _absolute(path: str) -> str:
    return str(Path(path).absolute())


def _exchange(functions: list[FunctionType], codes: dict[Key, CodeType]) -> None:
    """Give each function of a file its other code."""
    for one in functions:
        code = one.__code__
        one.__code__ = codes.get((code.co_qualname, code.co_firstlineno), code)


def _lead_elsewhere(path: Path, place: Path) -> None:
    """Give tests that read a file the other one."""
    for name, module in list(sys.modules.items()):
        if name.startswith("tests."):
            for key in [key for key, value in vars(module).items() if value == path]:
                setattr(module, key, place)


def _codes(was: str, now: str) -> dict[Key, CodeType]:
    """Return the replacement for the code of each function."""
    pairs = _pairs(_compile_text(was), _compile_text(now))
    return {(one.co_qualname, one.co_firstlineno): other for one, other in pairs}


def _compile_text(text: str) -> CodeType:
    return compile(text, "mutant", "exec", dont_inherit=True)


def _pairs(one: CodeType, other: CodeType) -> list[tuple[CodeType, CodeType]]:
    """Return a code object beside its other version, and so all within it that both have."""
    mine, its = (
        [in_it for in_it in code.co_consts if isinstance(in_it, CodeType)] for code in (one, other)
    )
    within = zip(mine, its, strict=True) if len(mine) == len(its) else ()
    return [(one, other), *(pair for both in within for pair in _pairs(*both))]


def _alone(code: CodeType) -> CodeType:
    """Return code without the code within it and without its places in the text."""
    own = tuple("" if isinstance(part, CodeType) else part for part in code.co_consts)
    return code.replace(co_consts=own, co_firstlineno=1, co_linetable=b"", co_exceptiontable=b"")


if __name__ == "__main__":
    from tests.mutants import swap  # the module that is called by its name

    # Lines come and go by the streams that it began with; what pytest prints is nobody's.
    swap.bed.lines = os.fdopen(os.dup(0)), os.fdopen(os.dup(1), "w")
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    sys.exit(pytest.main([*sys.argv[1:], "-s"], plugins=[swap.bed]))
