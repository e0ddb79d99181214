"""The checker finds each kind of lie, and knows nothing of the engine that it watches."""

from __future__ import annotations

import ast
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.db import connection

from agents.models import Event
from agents.web.audit.log import as_csv
from tests import checker
from tests.checker import CHECKS, Dump, record
from tests.engine.scene import go, set_scene

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.both]


@pytest.fixture
def dump() -> Dump:
    """A refund of which Rita let 800 pass, and its mail."""
    scene = set_scene()
    run = go(scene.launch())
    scene.decide(run)
    go(run)
    with connection.cursor() as cursor:
        return checker.read(cursor)


def ids(dump: Dump) -> set[str]:
    return {violation.id for check in CHECKS for violation in check(dump)}


def test_an_honest_run_is_true_in_every_respect(dump: Dump) -> None:
    assert len(dump.effects) == 2
    assert ids(dump) == set()


def row(table: str, number: int, **columns: Any) -> Callable[[Dump], object]:
    return lambda dump: getattr(dump, table)[number].update(columns)


def again(table: str, **columns: Any) -> Callable[[Dump], object]:
    """Write the first row of a table down a second time, a little different."""
    return lambda dump: getattr(dump, table).append({**getattr(dump, table)[0], **columns})


def drop(kind: str) -> Callable[[Dump], object]:
    def dropped(dump: Dump) -> None:
        dump.events = [event for event in dump.events if event["kind"] != kind]

    return dropped


def forgotten(dump: Dump) -> None:
    charge = dump.refunds[0]["charge_id"]
    next(row for row in dump.charges if row["id"] == charge)["refunded_minor"] = 0


def launched_by_rita(dump: Dump) -> None:
    dump.runs[0]["launched_by_id"] = dump.escalations[0]["decided_by_id"]


def later(dump: Dump) -> None:
    intent = next(event for event in dump.events if event["kind"] == "effect.intended")
    intent["seq"] = 0


def swap(dump: Dump) -> None:
    one, two = dump.events[-2:]
    one["seq"], two["seq"] = two["seq"], one["seq"]


def killed_first(scope: str, target: str, stage: str = "on") -> Callable[[Dump], object]:
    def killed(dump: Dump) -> None:
        facts = {"scope": scope, "target": target}
        switch = {"id": 0, "kind": f"kill_switch.{stage}", "run_id": None, "facts": facts}
        dump.events.insert(0, {**dump.events[-1], **switch})

    return killed


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
    "answered and still open": ("I17", row("escalations", 0, state="open")),
    "a decision without its event": ("I18", drop("escalation.decided")),
    "decided by who launched it": ("I19", launched_by_rita),
    "another customer": ("I20", row("effects", 0, customer=7)),
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


@pytest.mark.parametrize("lie", LIES)
def test_a_lie_is_found(dump: Dump, lie: str) -> None:
    found, tell = LIES[lie]

    tell(dump)

    assert found in ids(dump)


def test_an_export_that_lacks_an_event_is_found(dump: Dump) -> None:
    events = list(Event.objects.order_by("pk"))

    assert list(record.copied(as_csv(events), dump)) == []
    assert len(list(record.copied(as_csv(events[1:]), dump))) == 1


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
