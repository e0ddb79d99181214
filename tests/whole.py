"""Checks on a complete run: each promise's tests passed, each crash point and golden file was used.

Skipped for a part of the suite: with a path, -k, -m, or when interrupted. Where
pytest-xdist distributes the tests, each worker sends what it used, and the controller judges.
"""

import re
from pathlib import Path
from typing import Any

import pytest

from tests import browsers, golden, proofs
from tests.settings import ON_POSTGRES

ELSEWHERE = "only PostgreSQL can show it"  # why a test is skipped on SQLite
# Not the mutants: each process that has some has to load all that they are planted in.
ALONE = ("conformance/test_patterns.py",)
CODE = (Path(__file__).parent.parent / "agents").rglob("*.py")
POINTS = {point for one in CODE for point in re.findall(r'crashpoint\("(.+)"\)', one.read_text())}
died_at: set[str] = set()  # the crash points at which a test has made a worker die
USED = {"died_at": died_at, "compared": golden.compared}  # what each process sends


class Whole:
    """A pytest plugin that watches a session."""

    def __init__(self) -> None:
        self.passed: set[str] = set()
        self.processes: dict[str, set[str]] = {}  # in which each share of the tests ran
        self.said: list[str] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        # PostgreSQL-only proofs run in the suite's second pass; if no
        # browser was found, the suite's last lines say so.
        reasons = (ELSEWHERE, browsers.MISSING)
        is_excused = report.skipped and any(one in str(report.longrepr) for one in reasons)
        if (report.when == "call" and report.passed) or is_excused:
            self.passed.add(report.nodeid.partition("[")[0])
        if worker := getattr(report, "node", None):  # of xdist's, on the controller
            self.processes.setdefault(unit_of(report.nodeid), set()).add(worker.gateway.id)

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any, error: object) -> None:
        """Collect what an xdist worker's tests used."""
        for name, used in USED.items():
            used.update(getattr(node, "workeroutput", {}).get(name, ()))

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        """Fail a complete run that left out a promise's test, a crash point or a golden file.

        Said beside failed tests too: else it shows only once all of them pass.
        """
        output = getattr(session.config, "workeroutput", None)  # only an xdist worker has it
        if output is not None:
            output.update({name: sorted(used) for name, used in USED.items()})
            return
        ended = (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED)
        if exitstatus not in ended or not is_whole(session.config):
            return
        self.said = missing(self.passed, died_at)
        self.said += [f"no test compares {name}" for name in golden.uncompared(golden.compared)]
        self.said += [
            f"{unit} was shared out to {len(names)} processes, each with fixtures of its own"
            for unit, names in sorted(self.processes.items())
            if len(names) > 1
        ]
        if self.said:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if self.said:
            terminalreporter.section("the whole suite", red=True)
        for line in self.said:
            terminalreporter.line(line)


def is_whole(config: pytest.Config) -> bool:
    """Tell whether all tests were requested, on the database that runs them all."""
    option = config.option
    chosen = option.keyword or option.markexpr or getattr(option, "proves", None)
    narrowed = chosen or option.collectonly or option.deselect
    again = getattr(option, "lf", False) or getattr(option, "stepwise", False) or option.maxfail
    everywhere = list(config.args) == list(config.getini("testpaths"))
    return everywhere and not (narrowed or again or option.ignore or ON_POSTGRES)


def unit_of(nodeid: str) -> str:
    """Return the unit that one xdist process takes: a module or a single test."""
    module = nodeid.partition("::")[0]
    return nodeid if is_alone(module) else module


def is_alone(module: str) -> bool:
    """Tell whether a module's tests are distributed one by one, as they share no fixtures."""
    return module.endswith(ALONE)


def missing(passed: set[str], died: set[str]) -> list[str]:
    """Return what a complete run should have shown but did not, a line each."""
    unproved = proofs.missing_proofs(proofs.promises(), passed)
    lines = [f"did not pass, and shows {line}" for line in unproved]
    alive = [point for point in sorted(POINTS) if point not in died]
    return lines + [f"no test has made a worker die at {point}" for point in alive]
