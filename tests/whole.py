"""What only the whole suite can tell: that every proof passed and every crash point killed.

A part of the suite says nothing here: with a path, -k, -m, or stopped on the way. Where
pytest-xdist shares the tests out, each worker sends where one died there, and the controller
judges.
"""

from __future__ import annotations

from typing import Any

import pytest

from agents.engine import crashpoints
from tests import browsers, proofs
from tests.settings import ON_POSTGRES

ELSEWHERE = "only PostgreSQL can show it"  # why a test is skipped on SQLite
ALONE = ("conformance/test_patterns.py", "mutants/test_mutants.py")
_DIED_AT = "died_at"
died_at: set[str] = set()  # the crash points at which a test has made a worker die


class Whole:
    """Watches a session. pytest calls it by its hooks' names."""

    def __init__(self) -> None:
        self.passed: set[str] = set()
        self.processes: dict[str, set[str]] = {}  # that each share of the tests ran in
        self.said: list[str] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        # What only PostgreSQL can show is shown by the suite's second pass, on that; where no
        # browser could be had the suite's last lines say so.
        reasons = (ELSEWHERE, browsers.MISSING)
        is_excused = report.skipped and any(one in str(report.longrepr) for one in reasons)
        if (report.when == "call" and report.passed) or is_excused:
            self.passed.add(report.nodeid.partition("[")[0])
        if worker := getattr(report, "node", None):  # of xdist's, on the controller
            self.processes.setdefault(unit_of(report.nodeid), set()).add(worker.gateway.id)

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any, error: object) -> None:
        """Take over where tests of an xdist worker made a worker of ours die."""
        died_at.update(getattr(node, "workeroutput", {}).get(_DIED_AT, ()))

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        """Fail a whole run that passed and yet left a proof or a crash point out."""
        output = getattr(session.config, "workeroutput", None)  # only a worker of xdist has it
        if output is not None:
            output[_DIED_AT] = sorted(died_at)
            return
        if exitstatus != pytest.ExitCode.OK or not is_whole(session.config):
            return
        self.said = missing(self.passed, died_at)
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
    """Tell whether everything that there is was asked for, on the database that runs it all."""
    option = config.option
    narrowed = option.keyword or option.markexpr or option.collectonly or option.deselect
    again = getattr(option, "lf", False) or getattr(option, "stepwise", False)
    everywhere = list(config.args) == list(config.getini("testpaths"))
    return everywhere and not (narrowed or again or option.ignore or ON_POSTGRES)


def unit_of(nodeid: str) -> str:
    """Return what of the suite one process of xdist's takes: a module, or one of its tests."""
    module = nodeid.partition("::")[0]
    return nodeid if is_alone(module) else module


def is_alone(module: str) -> bool:
    """Tell whether a module's tests are shared out one by one: they have no fixtures in common."""
    return module.endswith(ALONE)


def missing(passed: set[str], died: set[str]) -> list[str]:
    """Return, a line each, what a whole run should have shown and did not."""
    table = proofs.rows(proofs.TABLES.read_text(encoding="utf-8"))
    lines = [
        f"did not pass, and is a proof of {line}" for line in proofs.missing_proofs(table, passed)
    ]
    alive = [point for point in crashpoints.POINTS if point not in died]
    return lines + [f"no test has made a worker die at {point}" for point in alive]
