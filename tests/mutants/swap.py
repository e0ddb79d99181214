"""Plant a mutant in a process that holds the whole program: in a fork, functions get other code.

That spares a mutant the import of program and tests, which is most of its cost. What a module does
when it is imported has been done by then: a line of that needs a tree of its own (`plant.lives`).
"""

from __future__ import annotations

import gc
import importlib
import os
import sys
import tempfile
import traceback
from pathlib import Path
from types import CodeType, FunctionType

import pytest

CALLED = 2  # CO_OPTIMIZED: the code of a function, and not of a module or a class
Key = tuple[str, int]


def is_code_of_functions(was: str, now: str) -> bool:
    """Tell whether two texts of a module differ in nothing but what its functions do."""
    pairs = _pairs(_compile_text(was), _compile_text(now))
    return all(_alone(one) == _alone(other) or one.co_flags & CALLED for one, other in pairs)


def outcome(path: str, was: str, now: str, tests: str, *options: str) -> tuple[int, str]:
    """Run a file of tests where a file of the program has another text.

    Return pytest's exit code, and what it printed.
    """
    for file in ("tests/conftest.py", tests, path):
        if not file.startswith("scripts/"):  # which tests run as they are
            name = file.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
            importlib.import_module(name)
    home = Path(os.environ["OPSCONSOLE_TEST_DIRECTORY"])
    with tempfile.TemporaryFile() as told:
        if not (pid := os.fork()):
            code = 99
            try:
                for fd in (1, 2):
                    os.dup2(told.fileno(), fd)
                place = home / Path(path).name
                place.write_text(now, encoding="utf-8")
                _exchange(str(Path(path).absolute()), place, _codes(was, now))
                gc.freeze()  # what the bed holds stays
                code = int(pytest.main([tests, *options, f"--basetemp={home / 'tmp'}"]))
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


def _exchange(path: str, place: Path, codes: dict[Key, CodeType]) -> None:
    """Give each function of a file its other code, and tests that read the file the other one."""
    for one in gc.get_objects():
        if isinstance(one, FunctionType) and one.__code__.co_filename == path:
            code = one.__code__
            one.__code__ = codes.get((code.co_qualname, code.co_firstlineno), code)
    for name, module in list(sys.modules.items()):
        if name.startswith("tests."):
            for key in [key for key, value in vars(module).items() if value == Path(path)]:
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
