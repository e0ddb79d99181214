"""An installation with the bank alone: every page and command serves it, and none knows refunds.

tests/suite.py runs this module, with others, where `OPSCONSOLE_DESKS` is `bank`.
"""

import json
import re
from collections.abc import Iterable
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core import mail
from django.core.management import get_commands, load_command_class
from django.db import connection
from django.test import Client
from django.urls import URLPattern, reverse
from django.urls.converters import IntConverter, PathConverter, StringConverter, UUIDConverter

from agents.core.requests import EscalationState, RunState
from agents.models import Escalation, Event, Membership, Role, Run
from agents.sdk.desk import DESKS, offered
from agents.urls import urlpatterns
from tests.commands.calling import command
from tests.database import make_once
from tests.desks import bank
from tests.engine.scene import Scene, go, set_scene
from tests.notifications.telling import prefer, tell, with_addresses
from tests.settings import ALONE
from tests.web.clients import client_of

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.skipif(ALONE != "bank", reason="every desk is installed here"),
]

# What models cost is in dollars, whatever a desk pays in.
COST = re.compile(r"USD 0\.\d+|Cost in USD|\"unit\": \"USD per[^\"]*")
FOREIGN = re.compile(r"refund|customer|\bcharge|dollar|\bUSD\b", re.IGNORECASE)
PAGES = {str(one.name): one for one in urlpatterns}
PATTERNS = ("supervisor", "routing", "orchestrator", "workflow")
PEOPLE = ("ada", "auditor", "omar", "rita", "eve")


def foreign_words(text: str) -> list[str]:
    """Return the words of the desk that is not there, with what stands around them."""
    told = COST.sub("", text)
    return [told[max(0, word.start() - 60) : word.end() + 20] for word in FOREIGN.finditer(told)]


def in_use() -> Scene:
    """Return a workspace where something of every kind has happened, made once."""
    return make_once("bank in use", _use)


def _use() -> Scene:
    scene = set_scene()
    scene.add("ada", Role.ADMIN)
    scene.add("auditor", Role.AUDITOR)
    with_addresses()
    prefer(scene, scene.rita)
    for one in DESKS["bank"].scenarios:
        where: Any = {"pattern": one.pattern, "workflow": one.workflow}
        go(scene.launch(one.goal, desk="bank", subject=one.subject or None, **where))
    first, second, *_ = Escalation.objects.filter(state=EscalationState.OPEN, kind="action")
    go(bank.decide_request(first, scene.rita, comment="as agreed").run)
    bank.decide_request(second, scene.rita, approve=False, comment="not ours")
    return scene


def test_there_are_no_tables_and_commands_of_refunds() -> None:
    with connection.cursor() as cursor:
        tables = connection.introspection.table_names(cursor)

    assert [name for name in tables if name.startswith("desk_")] == ["desk_book"]
    assert "import_customers" not in get_commands()
    assert list(offered()) == ["bank"]


def test_every_scenario_of_every_pattern_ends_as_it_says() -> None:
    in_use()

    runs = Run.objects.order_by("created_at", "pk")
    ended = {(run.pattern, run.state) for run in runs}
    assert {pattern for pattern, _ in ended} == {
        "supervisor",
        "routing",
        "orchestrator",
        "workflow",
    }
    assert all((pattern, RunState.DONE) in ended for pattern, _ in ended)
    assert not runs.filter(state=RunState.FAILED).exists()


def address_of(pattern: URLPattern, run: Run, held: Escalation) -> str:
    """Return an address about this run or request, whatever its pattern takes."""
    hers = Membership.objects.get(user__username="rita").pk
    first = str(pattern.pattern).partition("/")[0]
    text, key = run.desk if first == "subjects" else "rita", run.subject_key or "main"
    taken = {UUIDConverter: run.pk, StringConverter: text, PathConverter: key}
    taken[IntConverter] = {"approvals": held.pk, "members": hers}.get(first, 1)
    args = [taken[type(one)] for one in pattern.pattern.converters.values()]
    return reverse(str(pattern.name), args=args)


@pytest.mark.parametrize("name", sorted(PAGES))
def test_no_address_breaks_or_speaks_of_another_desk(name: str) -> None:
    in_use()
    held = Escalation.objects.filter(state=EscalationState.OPEN, kind="action").latest("pk")
    runs = {run.pattern: run for run in Run.objects.order_by("-state", "pk")}
    at = [address_of(PAGES[name], run, held) for run in (*runs.values(), held.run)]
    people = {name: client_of(User.objects.get(username=name)) for name in PEOPLE}

    told = [people["ada"].get(one) for one in dict.fromkeys(at)]
    told += [client.get(at[-1]) for client in (Client(), *people.values())]
    told += [client.post(at[-1]) for client in people.values()]

    assert {one.status_code for one in told} <= {200, 302, 403, 404, 405, 409, 422, 503}
    assert foreign_words("\n".join(map(_text, told))) == []


def _text(answered: object) -> str:
    parts: Iterable[bytes] = getattr(answered, "streaming_content", None) or [
        getattr(answered, "content", b"")
    ]
    return b"".join(parts).decode("utf-8", "replace") if not hasattr(parts, "__aiter__") else ""


def test_no_help_of_a_command_speaks_of_another_desk() -> None:
    ours = {name: app for name, app in get_commands().items() if str(app).startswith("agents")}

    told = {
        name: load_command_class(str(app), name).create_parser("manage.py", name).format_help()
        for name, app in ours.items()
    }

    assert len(told) > 20
    assert {name: words for name, text in told.items() if (words := foreign_words(text))} == {}


COMMANDS = [
    (0, "check --database default"),
    (0, "makemigrations --check --dry-run"),
    (0, "add_workspace eu --name EU"),
    (0, "publish_policy demo --show"),
    (0, "publish_policy demo --add-desk bank --as ada"),
    (2, "publish_policy demo --add-desk none --as ada"),
    (0, "set_limit demo rita 900.00"),
    (2, "set_limit demo rita 900.00 --desk none"),
    (0, "set_role demo omar operator"),
    (0, "kill --workspace demo --reason looked --as ada"),
    (0, "release --workspace demo --for new-runs --reason seen --as ada"),
    (0, "seal_audit"),
    (0, "verify_audit"),
    (3, "erase_subject demo nowhere --reason asked"),
]


def test_no_command_breaks_or_speaks_of_another_desk() -> None:
    in_use()

    for code, line in COMMANDS:
        ended = command(*line.split())
        told = ended.out + ended.err
        assert (ended.code, line) == (code, line), told
        assert foreign_words(told) == [], line


@pytest.mark.parametrize("pattern", PATTERNS)
def test_a_command_runs_each_pattern_without_naming_a_desk(pattern: str) -> None:
    set_scene()
    one = next(one for one in DESKS["bank"].scenarios if one.pattern == pattern)
    about = ("--subject", one.subject) if one.subject else ()
    follows = ("--workflow", one.workflow) if one.workflow else ()

    ended = command("run_pattern", pattern, "--goal", one.goal, *about, *follows)

    assert (ended.code, Run.objects.get().desk) == (0, "bank")
    assert foreign_words(ended.out + ended.err) == []


def test_nothing_that_is_kept_or_mailed_speaks_of_another_desk() -> None:
    scene = in_use()
    tell()

    kept = [json.dumps([event.kind, event.facts]) for event in Event.objects.all()]
    sent = [f"{one.subject}\n{one.body}" for one in mail.outbox]

    assert foreign_words("\n".join(kept)) == foreign_words("\n".join(sent)) == []
    assert "Enter Atelier Sommer as the payee P-105" in sent[0]
    assert Membership.objects.get(workspace=scene.workspace, user=scene.rita).desk_limits == {}
