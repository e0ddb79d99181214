"""Judge cases by a policy, without a database: for a company's own checks."""

from __future__ import annotations

import sys
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from junitparser import Failure, JUnitXml, TestCase, TestSuite

from agents.core.json_forms import BadJson, parse
from agents.core.limits import BadPolicy, Limits, read_limits, strict
from agents.management.exit_codes import BAD_USAGE, REFUSED
from agents.policies.cases import BadCase, is_as_expected, judge_case, read_cases, shipped_with
from agents.sdk.desk import DESKS, offered


class Command(BaseCommand):
    help = (
        "Judge cases by a policy: JSON lines of name, desk, pattern, action, facts, consent and "
        "expect. No database is needed. "
        "Exit code: 0 each is as expected, 3 one is not, 2 a file cannot be read."
    )
    requires_system_checks = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("file", nargs="*", type=Path, help="default: the desks' own cases")
        parser.add_argument("--policy", type=Path, help="a whole document (default: the desks')")
        parser.add_argument("--junit", type=Path, help="write the results there, as JUnit XML")

    def handle(self, *args: Any, **options: Any) -> None:
        shipped = [shipped_with(DESKS[name]) for name in offered()]
        files = options["file"] or [file for file in shipped if file]
        results, count, failed = JUnitXml(), 0, 0
        try:
            limits = _policy(options["policy"])
            for file in files:
                suite = TestSuite(str(file))
                for case in read_cases(file.read_text(encoding="utf-8")):
                    count, judged = count + 1, judge_case(case, limits)
                    result = TestCase(case.name, classname=case.desk)
                    if not is_as_expected(case, judged):
                        failed += 1
                        came = f"{judged.decision} {judged.deciding.reason}"
                        text = f"expected {case.expect}, got {came}: {judged.deciding.sentence}"
                        result.result = [Failure(text)]
                        self.stderr.write(f"{file}:{case.line}: {case.name}: {text}")
                    suite.add_testcase(result)
                results.add_testsuite(suite)
        except (OSError, UnicodeDecodeError, BadJson, BadPolicy, BadCase) as error:
            raise CommandError(str(error), returncode=BAD_USAGE) from None
        if options["junit"]:
            results.write(str(options["junit"]))
        self.stdout.write(f"{count} cases, {failed} not as expected")
        if failed:
            sys.exit(REFUSED)


def _policy(file: Path | None) -> Limits:
    """Return the policy of a file, by default of each desk as it ships. Raises BadPolicy."""
    if file is None:
        return strict({name: DESKS[name].part() for name in offered()})
    return read_limits(parse(file.read_text(encoding="utf-8-sig")))
