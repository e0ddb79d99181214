"""Commands on policies: publish a version, judge cases by one."""

import json
import sys
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand
from django.utils import timezone
from junitparser import Failure, JUnitXml, TestCase, TestSuite

from agents.core.compat_0_2 import policy_document
from agents.core.json_forms import BadJson, parse
from agents.core.limits import BadPolicy, Limits, read_limits, strict
from agents.core.requests import Json
from agents.management.exit_codes import REFUSED, WAITING, BadUsage
from agents.management.operation_command import refusals, user_named, workspace_named
from agents.models import Workspace
from agents.policies.cases import BadCase, is_as_expected, judge_case, read_cases, shipped_with
from agents.publishing import drafts
from agents.publishing import versions as publishing
from agents.publishing.faults import faults
from agents.sdk.desk import DESKS, offered
from agents.shell.refusal import Refused


class PublishPolicy(BaseCommand):
    help = (
        "Publish a policy version. New runs follow it; open runs keep theirs. "
        "Exit code: 0 published, 4 waits for a second admin, 3 refused, 2 bad usage."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("workspace", help="its short name")
        parser.add_argument("--file", type=Path, help="the whole document, as JSON")
        parser.add_argument("--base", default="", help="what --show said --file is made from")
        parser.add_argument("--rule", action="append", default=[], help="name of a rule to add")
        parser.add_argument("--tool", action="append", default=[], help="name of a tool to add")
        parser.add_argument(
            "--add-desk",
            action="append",
            default=[],
            help="add a desk's rules, tools and limits, or its new ones",
        )
        parser.add_argument(
            "--drop-desk", action="append", default=[], help="remove a desk, for new runs"
        )
        parser.add_argument("--desk", help="desk of --add… (default: the workspace's first)")
        parser.add_argument("--pattern", help="add them for this pattern only")
        parser.add_argument(
            "--show", action="store_true", help="print the document and publish nothing"
        )
        parser.add_argument("--as", dest="actor", help="an admin's user name")
        parser.add_argument("--reason", default="", help="why; everybody sees it")
        parser.add_argument(
            "--alone", default="", metavar="REASON", help="why no second admin publishes it"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        workspace = workspace_named(options["workspace"])
        added = ("rule", "tool", "desk", "pattern", "add_desk", "drop_desk")
        if options["file"] and any(options[name] for name in added):
            raise BadUsage("--file is the whole document.")
        document = _document(workspace, options["file"])
        _add(document, options)
        for name in options["add_desk"]:
            _add_desk(document, name)
        for name in options["drop_desk"]:
            _drop_desk(document, name)
        if options["show"]:
            self.stdout.write(json.dumps(document, ensure_ascii=False, indent=2))
            self.stderr.write(f"--base {publishing.base_of(workspace)}")
            return
        if not options["actor"]:
            raise BadUsage("Say with --as who publishes it.")
        by, at, added = user_named(options["actor"]), timezone.now(), options["add_desk"]
        has_more = any(options[name] for name in ("file", "rule", "tool", "drop_desk"))
        with refusals():
            try:
                version = publishing.publish_policy(
                    workspace=workspace,
                    document=document,
                    by=by,
                    at=at,
                    reason=options["reason"],
                    alone=options["alone"],
                    base=options["base"],
                    brings=() if has_more else added,
                )
            except Refused as no:
                if no.code != "second_admin":
                    raise
                draft = drafts.begin_draft(workspace=workspace, by=by, at=at, document=document)
                why = options["reason"] or "By command."
                drafts.save_draft(draft, document=document, reason=why, by=by, at=at)
                drafts.ask_second(draft, by=by, at=at)
                waits = f"Draft {draft.pk} waits for a second admin, who publishes it on its page."
                self.stdout.write(waits)
                sys.exit(WAITING)
        for fault in faults(version.limits()):
            self.stderr.write(f"As in the version before: {fault}")
        self.stdout.write(f"{workspace.slug}: {version} is published")


def _document(workspace: Workspace, file: Path | None) -> Json:
    """Return the document of the file, by default the published one. Raises CommandError."""
    if file is None:
        return policy_document(workspace.policy.document) if workspace.policy else {}
    try:
        read = parse(file.read_text(encoding="utf-8-sig"))
    except (OSError, UnicodeDecodeError, BadJson) as error:
        raise BadUsage(f"--file {file}: {error}") from None
    if not isinstance(read, dict):
        raise BadUsage(f"--file {file}: a policy is an object.")
    return policy_document(read)


def _add(document: Json, options: dict[str, Any]) -> None:
    """Add rules and tools to a desk's part of the document, or to the part of one pattern.

    Raises CommandError.
    """
    rules, tools, pattern = options["rule"], options["tool"], options["pattern"]
    if not (rules or tools):
        return
    desks = dict(document.get("desks") or {})
    name = options["desk"] or next((name for name in DESKS if name in desks), "")
    if name not in desks:
        raise BadUsage(f"Say with --desk which: {', '.join(desks)}.")
    part = here = desks[name] = dict(desks[name])
    if pattern:
        patterns = part["patterns"] = dict(part.get("patterns", {}))
        here = patterns[pattern] = dict(patterns.get(pattern, {}))
    for key, names in (("rules", rules), ("tools", tools)):
        had = here.get(key, part.get(key, []))
        if new := [name for name in names if name not in had]:
            here[key] = [*had, *new]
    if off := here.get("off", part.get("off")):
        here["off"] = [name for name in off if name not in tools]
    document["desks"] = desks


def _add_desk(document: Json, name: str) -> None:
    """Add a desk's defaults, or what is new in it. Raises CommandError."""
    if name not in offered():
        known = ", ".join(offered()) or "none"
        raise BadUsage(f"There is no desk {name!r}; there is {known}.")
    desks = document.get("desks") or {}
    document["desks"] = {**desks, name: DESKS[name].part(desks.get(name))}


def _drop_desk(document: Json, name: str) -> None:
    """Leave a desk out. Raises CommandError."""
    desks = dict(document.get("desks") or {})
    if desks.pop(name, None) is None:
        raise BadUsage(f"The policy has no desk {name!r}.")
    document["desks"] = desks


class TestPolicy(BaseCommand):
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
            raise BadUsage(str(error)) from None
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
