"""Every kind of event has a sentence, whatever the event holds."""

import ast
import re
from pathlib import Path
from typing import Any

import pytest
from django.db.migrations.loader import MigrationLoader
from django.db.models import Q

from agents.core.states import EffectState, RunState
from agents.models import Event, Run
from agents.models.outside import SwitchStage
from agents.models.people import InvitationState
from agents.record.event_kinds import EVENTS, FREQUENT, LEDGER
from agents.shell.event_words import (
    ASK_REASONS,
    EventContext,
    tell_events,
)

ROOT = Path(__file__).resolve().parents[2]
# Kinds that the code composes.
COMPOSED = {
    *(f"run.{state}" for state in RunState if state is not RunState.RUNNING),
    *(f"effect.{state}" for state in EffectState),
    *(f"kill_switch.{stage}" for stage in SwitchStage),
    *(f"invitation.{state}" for state in InvitationState if state is not InvitationState.OPEN),
}
NAMED = re.compile(r'(?:Entry|_say|say|_record)\(\s*(?:\w+, )*(?:at, )?"([a-z_]+\.[a-z_]+)"')


def kinds_in_code() -> set[str]:
    texts = [path.read_text() for path in (ROOT / "agents").rglob("*.py")]
    found = {kind for text in texts for kind in NAMED.findall(text)}
    constants = re.compile(r'^(?:LATE|ERASURE) = "([a-z_.]+)"', re.MULTILINE)
    said = re.compile(r'"((?:convergence|step|audit|escalation)\.[a-z_]+)"')
    more = {kind for text in texts for form in (constants, said) for kind in form.findall(text)}
    return {kind for kind in found | more | COMPOSED if not kind.endswith(".py")}


def test_every_kind_that_the_code_writes_has_a_sentence() -> None:
    written = kinds_in_code()

    assert len(written) > 35
    assert sorted(written - set(EVENTS)) == []
    others = [p for p in (ROOT / "agents").rglob("*.py") if not p.stem.startswith("event_")]
    quoted = {kind for p in others for kind in re.findall(r'"([a-z_]+\.[a-z_]+)"', p.read_text())}
    assert sorted(set(EVENTS) - written - quoted) == []


def test_every_reason_to_ask_a_person_has_words() -> None:
    found = set()
    of_desks = ("agents/engine/desk/rules.py", "agents/desks/refunds/rules.py")
    for path in (*(ROOT / "agents/policies").glob("*.py"), *(ROOT / one for one in of_desks)):
        for node in ast.walk(ast.parse(path.read_text())):
            made = ast.unparse(node) if isinstance(node, ast.Call) else ""
            if made.startswith(("Ruling(RulingKind.ESCALATE, '", "escalate('")):
                found.add(made.split("'")[1])

    assert len(found) > 5
    assert found == set(ASK_REASONS)


def test_an_index_has_the_kinds_that_its_migration_names() -> None:
    migrated = MigrationLoader(None).project_state().apps.get_model("agents.Event")._meta.indexes
    conditions = {index.name: str(index.condition) for index in migrated}

    assert conditions["event_ledger"] == str(Q(kind__in=LEDGER))
    assert conditions["event_kind"] == str(~Q(kind__in=FREQUENT))


ODD: list[Any] = [{}, [], "text", None, 7, {"decision": [], "key": {}}, {"key": None, "step": []}]


@pytest.mark.parametrize("kind", [*sorted(EVENTS), "of.a_later_release", "", "x"])
def test_no_facts_are_too_odd_to_be_told(kind: str, monkeypatch: Any) -> None:
    monkeypatch.setattr("agents.shell.event_words._context", lambda events: EventContext())
    monkeypatch.setattr(
        "agents.shell.event_words.facts_of", lambda event: dict(event.facts.items())
    )
    run = Run(subject_key="no number")
    events = [Event(pk=1, kind=kind, facts=facts, run=run, at="2026-11-21") for facts in ODD]

    for event in events:
        (line,) = tell_events([event])
        assert line.sentence, event.facts


def test_a_minute_of_silence_is_one(monkeypatch: Any) -> None:
    monkeypatch.setattr("agents.shell.event_words._context", lambda events: EventContext())
    monkeypatch.setattr(
        "agents.shell.event_words.facts_of", lambda event: dict(event.facts.items())
    )
    facts = {"team_name": "Leads", "team": "leads", "silent_minutes": 1}
    event = Event(pk=1, kind="escalation.assigned", facts=facts, run=Run(), at="2026-11-21")

    (line,) = tell_events([event])

    assert "Passed on to the team Leads, because nobody decided within 1 min." in line.sentence
