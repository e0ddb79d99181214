"""The checker finds every kind of false row and imports nothing of the engine."""

import ast
from collections.abc import Callable
from copy import deepcopy
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from django.db import connection

from agents.audit.copies import csv_lines
from agents.models import Event
from tests import checker
from tests.checker import CHECKS, Dump, record
from tests.engine.scene import set_scene

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def dump() -> Dump:
    """A refund lowered to 800 by Rita, with its mail; each test gets its own copy."""
    return deepcopy(honest())


@cache
def honest() -> Dump:
    scene = set_scene()
    scene.decided_refund()
    with connection.cursor() as cursor:
        return checker.read(cursor)


def ids(dump: Dump) -> set[str]:
    return {violation.id for check in CHECKS for violation in check(dump)}


@pytest.mark.both
def test_an_honest_run_is_true_in_every_respect(dump: Dump) -> None:
    assert len(dump.effects) == 2
    assert ids(dump) == set()


def row(table: str, number: int, **columns: Any) -> Callable[[Dump], object]:
    return lambda dump: getattr(dump, table)[number].update(columns)


def again(table: str, **columns: Any) -> Callable[[Dump], object]:
    """Add a slightly different copy of a table's first row."""
    return lambda dump: getattr(dump, table).append({**getattr(dump, table)[0], **columns})


def drop(kind: str) -> Callable[[Dump], object]:
    def drop_all(dump: Dump) -> None:
        dump.events = [event for event in dump.events if event["kind"] != kind]

    return drop_all


def forgotten(dump: Dump) -> None:
    charge = dump.refunds[0]["charge_id"]
    next(row for row in dump.charges if row["id"] == charge)["refunded_minor"] = 0


def ask_about(**args: Any) -> Callable[[Dump], object]:
    """Change the requested arguments, so that others were carried out."""
    return lambda dump: dump.escalations[0]["action"]["args"].update(args)


def patch_args(**patch: Any) -> Callable[[Dump], object]:
    """Set a person's patch, in the row and in its effect."""

    def change(dump: Dump) -> None:
        dump.escalations[0]["patch"] = patch
        dump.effects[0]["args"].update(patch)

    return change


def about_nobody(dump: Dump) -> None:
    dump.runs[0]["subject_key"] = dump.effects[0]["subject_key"] = ""
    for effect in dump.effects:
        del effect["args"]["user_id"]


def launched_by_rita(dump: Dump) -> None:
    dump.runs[0]["launched_by_id"] = dump.escalations[0]["decided_by_id"]


def later(dump: Dump) -> None:
    intent = next(event for event in dump.events if event["kind"] == "effect.intended")
    intent["seq"] = 0


def swap(dump: Dump) -> None:
    one, two = dump.events[-2:]
    one["seq"], two["seq"] = two["seq"], one["seq"]


def killed_first(scope: str, target: str, stage: str = "on") -> Callable[[Dump], object]:
    def kill(dump: Dump) -> None:
        facts = {"scope": scope, "target": target}
        switch = {"id": 0, "kind": f"kill_switch.{stage}", "run_id": None, "facts": facts}
        dump.events.insert(0, {**dump.events[-1], **switch})

    return kill


LIES: dict[str, tuple[str, Callable[[Dump], object]]] = {
    "a second effect of a step": ("I1", again("effects", id=99, key="other")),
    "a key used twice": ("I2", again("refunds", id=99)),
    "more paid than intended": ("I2", row("refunds", 0, amount_minor=80001)),
    "a charge that forgot a refund": ("I3", forgotten),
    "a limit that nobody lifted": ("I4", row("effects", 0, escalation_id=None, amount_minor=10**6)),
    "half a cent": ("I5", row("effects", 0, amount_minor=0.5)),
    "another currency": ("I7", row("refunds", 0, currency="EUR")),
    "paid and refused": ("I8", row("effects", 0, state="refused")),
    "a mail before its refund": ("I9", row("effects", 0, state="intended")),
    "a mail to a stranger": ("I9", row("mails", 0, to="eve@example.com")),
    "other arguments than allowed": ("I11", row("effects", 0, args={"user_id": 42})),
    "allowed after it was done": ("I11", later),
    "more than was asked": ("I16", row("escalations", 0, granted_minor=120001)),
    "an amount beside its arguments": ("I2", row("effects", 0, amount_minor=79999)),
    "another reason than the person saw": ("I11", ask_about(reason="a gift")),
    "a grant that its record tells otherwise": ("I11", row("escalations", 0, granted_minor=79999)),
    "a person who chose another customer": ("I16", patch_args(user_id=7)),
    "answered and still open": ("I17", row("escalations", 0, state="open")),
    "a decision without its event": ("I18", drop("escalation.decided")),
    "decided by who launched it": ("I19", launched_by_rita),
    "another customer": ("I20", row("effects", 0, subject_key="7")),
    "a write that is about nobody": ("I20", about_nobody),
    "a tool of which nobody says whom it touches": ("I20", row("effects", 0, tool="transfer")),
    "a claim that is missing": ("I23", drop("run.claimed")),
    "a run that woke up again": ("I23", row("runs", 0, state="queued")),
    "nobody to wait for": ("I24", row("runs", 0, state="waiting")),
    "silence that was a yes": ("I29", row("escalations", 0, state="expired")),
    "a write while writes were stopped": ("I30", killed_first("workspace", "")),
    "a write while its pattern was stopped": ("I30", killed_first("pattern", "supervisor")),
    "a write while its tool was stopped": ("I30", killed_first("tool", "issue_refund")),
    "a write of an old run on trial": ("I30", killed_first("workspace", "", "trial")),
    "an intent that was not told": ("I32", drop("effect.intended")),
    "an event that was changed": ("I33", row("events", -1, actor="eve")),
    "two events that changed places": ("I33", swap),
    "a tail that was cut": ("I33", lambda dump: dump.events.pop()),
    "a yes that came to nothing": ("I41", row("effects", 0, state="refused")),
    "a yes that was done and denied": ("I41", row("escalations", 0, not_carried_out="killed")),
    "another workspace": ("I38", row("escalations", 0, workspace_id=99)),
}


@pytest.mark.parametrize(
    "elsewhere", [("pattern", "routing"), ("tool", "send_reply"), ("workspace", "", "off")]
)
def test_a_switch_of_another_scope_stops_nothing(dump: Dump, elsewhere: tuple[str, ...]) -> None:
    killed_first(*elsewhere)(dump)

    assert "I30" not in ids(dump)


@pytest.mark.proves("I23", "I24", "I41")
@pytest.mark.slow
@pytest.mark.parametrize("lie", LIES)
def test_a_lie_is_found(dump: Dump, lie: str) -> None:
    found, tell = LIES[lie]

    tell(dump)

    assert found in ids(dump)


ASKED = {"employee": "noor", "system": "billing", "role": "editor", "until": "2027-01-21"}
MOVED = {"until": "2026-12-06"}


def as_grant(dump: Dump, *, subject: str = "noor", **done: Any) -> Dump:
    """Turn the refund into the rows of a grant at a desk without money."""
    [effect, *_], [escalation] = dump.effects, dump.escalations
    args = {**ASKED, **MOVED, **done}
    action = {"kind": "tool", "name": "grant_access", "args": args}
    dump.runs[0]["subject_key"] = subject
    escalation["action"] = {**action, "args": ASKED}
    escalation |= {"patch": MOVED, "granted_minor": None, "amount_minor": None}
    effect |= {"tool": "grant_access", "args": args, "args_sha256": checker.sha256(action)}
    effect |= {
        "subject_key": args["employee"],
        "resource": args["system"],
        "amount_minor": None,
        "currency": "",
    }
    dump.step[effect["review_id"]]["reply"] |= {"action": action}
    dump.effects, dump.refunds = [effect], []
    return dump


@pytest.mark.parametrize(
    ("lie", "found"),
    [
        ({}, set()),
        ({"subject": "ben"}, {"I20"}),
        ({"until": "2026-12-07"}, {"I11"}),
        ({"role": "admin"}, {"I11"}),
    ],
)
def test_a_desk_without_money_is_held_to_subject_and_patch(
    dump: Dump, lie: dict[str, Any], found: set[str]
) -> None:
    assert ids(as_grant(dump, **lie)) & {"I2", "I11", "I16", "I20"} == found


@pytest.mark.both
def test_a_day_that_was_moved_away_is_found(dump: Dump) -> None:
    grant = as_grant(dump, until="2027-01-22")
    grant.escalations[0]["patch"] = {"until": "2027-01-22"}

    assert ids(grant) & {"I11", "I16"} == {"I16"}


@pytest.mark.both
def test_an_export_that_lacks_an_event_is_found() -> None:
    dump = honest.__wrapped__()  # whose events are in the database
    events = Event.objects.order_by("pk")
    keys = list(events.values_list("pk", flat=True))

    assert list(record.copy_is_whole("".join(csv_lines(events, keys)), dump)) == []
    assert len(list(record.copy_is_whole("".join(csv_lines(events, keys[1:])), dump))) == 1


def test_it_imports_nothing_of_the_product() -> None:
    modules = set()
    for path in Path(checker.__file__).parent.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                modules |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                modules.add(str(node.module))

    assert not [
        name for name in modules if name.split(".")[0] in ("agents", "opsconsole", "django")
    ]
