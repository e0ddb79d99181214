"""A customer is erased everywhere, and the record still verifies."""

import json
import logging
import re
import subprocess
import sys
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import DatabaseError, connection, transaction
from django.test import Client, override_settings
from django.urls import reverse
from django.utils import timezone

from agents.audit import copies, erasing
from agents.core.requests import RunState
from agents.desks.refunds.models import Charge, Customer, Refund, SentMail
from agents.external import sessions
from agents.live import topics
from agents.models import (
    AgentCall,
    Effect,
    Escalation,
    Event,
    EventText,
    Role,
    Run,
    Step,
    Workspace,
)
from agents.models.record import Entry, facts_of
from agents.people import workspaces
from agents.requests import sharing
from agents.requests.sharing import COMMENTED
from agents.runs import launching
from agents.shell import refusal
from tests.audit.conftest import heads_file  # noqa: F401 - each test has its own
from tests.commands.test_run_pattern import command
from tests.conformance.replay_server import ReplayServer
from tests.engine.aborting import breaking
from tests.engine.scene import REFUND_1200, Scene, decide_request, go, payments
from tests.engine.test_external import LOOK, Session, held
from tests.privacy.searching import contents, places_of, texts_in_files
from tests.processes import ROOT
from tests.settings import ON_POSTGRES
from tests.web.test_pages import client_of

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.both, pytest.mark.slow]

VERIFIER = Path(__file__).parents[2] / "scripts" / "verify_bundle.py"
NAME, MAIL, COUNTRY = "Canaria Gelb", "canaria@canary.example", "QX"
SAID, COMMENT, LETTER = "canary-in-the-goal", "canary-in-a-comment", "canary-in-a-letter"
REFERENCE = "canary-in-a-reference"
CARD = "4111 1111 1111 1111"
CANARIES = (NAME, MAIL, SAID, COMMENT, LETTER, REFERENCE, CARD)
NOWHERE: dict[str, list[str]] = {canary: [] for canary in CANARIES}


@pytest.fixture
def run(scene: Scene) -> Run:
    """A finished refund to Anna, 42, with a canary in every place for people's texts."""
    launched = scene.launch(f"{REFUND_1200} {SAID} {CARD}")
    anna = Customer.objects.filter(book=launched.book, number=42)
    anna.update(name=NAME, email=MAIL, country=COUNTRY)
    Charge.objects.filter(customer__in=anna).update(reference=REFERENCE)
    waiting = go(launched)
    assert waiting.state == RunState.WAITING, (waiting.state, waiting.outcome)
    held = Escalation.objects.get(run=waiting)
    decide_request(held, scene.rita, patch={"amount_minor": 800_00}, comment=COMMENT)
    ended = go(launched)
    SentMail.objects.filter(book=ended.book).update(body=f"{NAME}, {LETTER}")
    assert ended.state == RunState.DONE
    return ended


def erase(*, number: int = 42) -> erasing.Erasure:
    return erasing.erase_subject(
        desk="refunds",
        workspace=Workspace.objects.get(),
        key=str(number),
        reason="asked for by letter 7",
        at=timezone.now(),
        actor="command line",
    )


def test_the_canaries_are_there_before(run: Run) -> None:
    found = {canary: places_of(canary) for canary in CANARIES}

    assert found.pop(CARD) == []  # masked when it was stored
    assert [canary for canary, places in found.items() if not places] == []


def test_no_search_finds_a_run_by_what_was_erased(scene: Scene, run: Run) -> None:
    client = client_of(scene.rita)

    def finds(text: str) -> bool:
        return str(run.pk) in client.get(reverse("runs"), {"text": text}).text

    assert finds("canary goal")
    assert finds(run.pk.hex)
    if connection.vendor == "sqlite":  # a separate index, which is updated late
        assert _words_on_sqlite() >= {"canary", "1200"}

    erase()

    assert not finds("canary goal")
    assert finds(run.pk.hex)
    if connection.vendor == "sqlite":
        assert not _words_on_sqlite() & {"canary", "1200"}


def _words_on_sqlite() -> set[str]:
    """Return the words in the index of runs, from its pages."""
    with connection.cursor() as cursor:
        cursor.execute(
            "CREATE VIRTUAL TABLE temp.told USING fts5vocab(main, agents_run_words, row)"
        )
        cursor.execute("SELECT term FROM told")
        told = {term for (term,) in cursor.fetchall()}
        cursor.execute("DROP TABLE temp.told")
    return told


def test_money_stays(run: Run) -> None:
    books = [model.objects.order_by("pk") for model in (Charge, Refund, Effect)]
    kept = [list(rows.values_list("amount_minor")) for rows in books]

    erase()

    after = [list(rows.values_list("amount_minor")) for rows in books]
    held = Escalation.objects.get(run=run)
    assert (after, payments(run)) == (kept, [800_00])
    assert (held.amount_minor, held.granted_minor, held.decided_by_id) == (
        1200_00,
        800_00,
        User.objects.get(username="rita").pk,
    )


@pytest.mark.proves("I37")
def test_the_record_holds_as_it_was_sealed(run: Run, settings: Any, tmp_path: Path) -> None:
    heads = str(settings.OPSCONSOLE_HEADS_FILE)
    assert command("seal_audit").code == 0
    before = list(Event.objects.order_by("pk").values_list("hash", flat=True))

    erase()

    checked = command("verify_audit", "--head", heads)
    after = list(Event.objects.order_by("pk").values_list("hash", flat=True))
    assert (checked.code, after[: len(before)]) == (0, before)
    copy = tmp_path / "record.jsonl"
    assert command("export_audit", "--output", str(copy)).code == 0
    ended = subprocess.run(
        [sys.executable, "-I", "-S", str(VERIFIER), str(copy), "--head", heads],
        capture_output=True,
        text=True,
        timeout=30,
    )
    held = Event.objects.count()  # a slow model has one event more: its step is begun early
    assert ended.stdout.startswith(f"{held} events in 2 chains hold"), ended.stdout
    assert ended.returncode == 4, ended.stdout  # unproved: after the last seal, and without keys
    for rows, change in (
        (Run.objects.filter(pk=run.pk), {"outcome": {"answer": "USD 5.00 was refunded."}}),
        (Escalation.objects.filter(run=run), {"comment": "as agreed"}),
        (Step.objects.filter(escalation__run=run), {"reply": {"decision": "rejected"}}),
    ):
        [gone] = rows.values(*change)
        rows.update(**change)
        assert "has texts is True; the record says False" in command("verify_audit").out
        rows.update(**gone)
    assert [canary for canary in CANARIES if canary in copy.read_text()] == []


def test_the_erasure_is_on_record_in_both_chains(run: Run) -> None:
    erase()

    told = Event.objects.filter(kind="person.erased").order_by("pk")
    assert [(event.run_id, event.actor) for event in told] == [
        (run.pk, "command line"),
        (None, "command line"),
    ]
    assert told[1].facts == {
        "desk": "refunds",
        "subject_key": "42",
        "reason": "asked for by letter 7",
        "runs": 1,
    }
    decided = run.events.get(kind="escalation.decided")
    assert facts_of(decided)["comment"] == f"erased on {timezone.now():%Y-%m-%d}"


def test_no_page_shows_anything_or_breaks(run: Run) -> None:
    admin = client_of(member("anton", Role.ADMIN))
    held = Escalation.objects.get(run=run)
    said = Entry(COMMENTED, {"escalation": held.pk, "comment": COMMENT}, "rita")
    run.tell([said], at=timezone.now())
    erase()

    pages = [
        *(reverse("run", args=[run.pk]), reverse("run-json", args=[run.pk])),
        *(reverse("approval", args=[held.pk]), reverse("decided"), reverse("approvals")),
        *(reverse("runs"), "/", reverse("audit"), "/metrics"),
        *(reverse("case", args=[run.pk]), reverse("audit") + "?all=1"),
    ]
    shown = {page: text_of(admin, page) for page in pages}

    found = [(page, canary) for page in pages for canary in CANARIES if canary in shown[page]]
    assert found == []
    today = f"{timezone.now():%Y-%m-%d}"
    assert f"Erased on {today}" in shown[reverse("run", args=[run.pk])]
    assert f"Erased on {today}" in shown[reverse("runs")]
    assert f"erased on {today}" in shown[reverse("approval", args=[held.pk])]
    told = [page for page in pages if f"The text was erased on {today}." in shown[page]]
    assert told == [pages[index] for index in (2, 7, 9, 10)]
    assert [page for page in pages if f"“erased on {today}”" in shown[page]] == []


def test_no_copy_and_no_live_frame_shows_anything(run: Run) -> None:
    admin = client_of(member("anton", Role.ADMIN))
    held = Escalation.objects.get(run=run)
    erase()

    table = admin.post(reverse("export")).getvalue().decode()
    copy = "".join(copies.lines(Workspace.objects.all(), at=timezone.now()))
    watched: list[topics.Topic] = [topics.RunTopic(run.pk), topics.CardTopic(held.pk)]
    frames = "".join(str(topics.read_update(topic, "1").lines) for topic in watched)

    shown = table + copy + frames
    assert "Erased on" in frames
    assert [canary for canary in CANARIES if canary in shown] == []


@pytest.mark.proves("I36")
def test_nothing_personal_is_logged(scene: Scene, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    launched = scene.launch(f"{REFUND_1200} {SAID}")
    Customer.objects.filter(book=launched.book, number=42).update(name=NAME, email=MAIL)
    go(launched)
    scene.decide(launched)
    go(launched)

    ours = [record for record in caplog.records if not record.name.startswith("django.db")]

    said = "\n".join(record.getMessage() for record in ours)
    assert [canary for canary in CANARIES if canary in said] == []


def test_a_run_that_is_going_refuses(scene: Scene) -> None:
    run = go(scene.launch())

    with pytest.raises(refusal.Refused, match="1 run about customer 42 is still going"):
        erase()

    run.refresh_from_db()
    assert (run.goal, run.erased_at) == (REFUND_1200, None)
    assert Customer.objects.get(book=run.book, number=42).name == "Anna"


def test_a_write_of_unknown_outcome_refuses(run: Run) -> None:
    Effect.objects.filter(run=run, tool="send_refund_email").update(state="unknown")

    with pytest.raises(refusal.Refused, match="whether 1 write for customer 42 took effect"):
        erase()

    Effect.objects.filter(run=run, tool="send_refund_email").update(state="done")


def test_an_erasure_that_breaks_off_erases_nothing(run: Run) -> None:
    before = contents()
    broke_at = []

    for number in count(1):
        with breaking(number, Cut) as broken, suppress(Cut):
            erase()
        if not broken.broke_at:
            break
        broke_at.append(broken.broke_at)
        assert contents() == before

    assert len(broke_at) > 10
    assert {canary: places_of(canary) for canary in CANARIES} == NOWHERE


class Cut(Exception):
    """Aborts an erasure."""


def test_nobody_else_is_forgotten(scene: Scene, run: Run) -> None:
    other = go(scene.launch())
    launching.cancel(run_id=other.pk, by=scene.omar, reason="twice", at=timezone.now())
    Run.objects.filter(pk=other.pk).update(subject_key="7")

    erase()

    other.refresh_from_db()
    assert (other.goal, other.erased_at) == (REFUND_1200, None)
    assert Customer.objects.get(book=run.book, number=7).name == "Max"


def test_the_command_says_what_it_did(run: Run) -> None:
    first = command("erase_subject", "demo", "42", "--reason", "asked for by letter 7")
    again = command("erase_subject", "demo", "42", "--reason", "asked for by letter 8")
    nobody = command("erase_subject", "demo", "99", "--reason", "asked for by letter 9")

    assert (first.code, first.out) == (0, "Customer 42 is forgotten, with 1 run.\n")
    assert "Erased before: 1." in again.out
    assert (nobody.code, nobody.err.strip()) == (3, "Demo knows no customer 99.")


def test_respelled_number_erases_nobody_partly(run: Run) -> None:
    for key in ("042", "٤٢", "4" * 5000):
        refused = command("erase_subject", "demo", key, "--reason", "asked for by letter 7")

        assert (refused.code, "knows no customer" in refused.err) == (3, True), key
    assert Customer.objects.get(book=run.book, number=42).name == NAME


@pytest.mark.proves("I37")
def test_a_table_that_is_imported_again_brings_nobody_back(scene: Scene, tmp_path: Path) -> None:
    eu = workspaces.add_workspace(desks=["refunds"], slug="eu", name="EU", at=timezone.now())
    table = tmp_path / "customers.csv"
    line = "number,name,email,country,tier,plan,amount,currency,paid_on\n"
    line += f"42,{NAME},{MAIL},{COUNTRY},,annual,5.00,USD,2025-01-15\n"
    table.write_text(line + "7,Max Weber,max@example.com,DE,,,,,\n")
    assert command("import_customers", "eu", str(table)).code == 0
    assert command("erase_subject", "eu", "42", "--reason", "asked for by letter 7").code == 0
    # A number in another spelling, and a charge that is not in the book.
    table.write_text(table.read_text() + line.splitlines()[1].replace("42", "0042", 1) + "\n")
    table.write_text(table.read_text().replace("5.00", "6.00", 1))

    again = command("import_customers", "eu", str(table))

    assert again.code == 0
    assert "Erased, and stay so: 42 (lines left out: 2)." in again.out
    assert (places_of(NAME), places_of(MAIL)) == ([], [])
    assert Charge.objects.get(customer__book=eu.book, customer__number=42).amount_minor == 500
    assert Customer.objects.get(book=eu.book, number=7).name == "Max Weber"


@pytest.fixture
def text(run: Run) -> EventText:
    return EventText.objects.filter(event__run=run, name="comment").get()


@pytest.mark.proves("I37")
@pytest.mark.parametrize(
    "change",
    [
        "UPDATE agents_eventtext SET text = '\"no\"' WHERE id = {pk}",
        "UPDATE agents_eventtext SET text = '' WHERE id = {pk}",
        "UPDATE agents_eventtext SET salt = 'x' WHERE id = {pk}",
        "UPDATE agents_eventtext SET name = 'other' WHERE id = {pk}",
        "UPDATE agents_eventtext SET text = 'x', erased_at = CURRENT_TIMESTAMP WHERE id = {pk}",
        "DELETE FROM agents_eventtext WHERE id = {pk}",
    ],
)
def test_the_database_lets_a_text_be_emptied_and_nothing_else(text: EventText, change: str) -> None:
    with pytest.raises(DatabaseError), transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(change.format(pk=text.pk))

    text.refresh_from_db()
    assert text.text == f'"{COMMENT}"'


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE agents_run SET stop_reason = 'other'",
        "UPDATE agents_run SET erased_at = NULL",
        "UPDATE agents_escalation SET action_sha256 = 'other'",
    ],
)
def test_what_was_erased_stays_so(run: Run, change: str) -> None:
    erase()

    with pytest.raises(DatabaseError), transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(change)


def test_a_hash_is_not_emptied_without_an_erasure(run: Run) -> None:
    with pytest.raises(DatabaseError), transaction.atomic():
        Escalation.objects.filter(run=run).update(action_sha256="")


@pytest.mark.proves("I37")
@pytest.mark.breaks("I37")
def test_a_text_that_vanished_without_an_erasure_is_found(text: EventText) -> None:
    EventText.objects.filter(pk=text.pk).update(text="", salt="", erased_at=timezone.now())

    checked = command("verify_audit")

    assert checked.code == 3
    assert f"event {text.event.seq}: its text was erased, and no erasure is on record" in (
        checked.out
    )


def member(name: str, role: Role) -> User:
    user = User.objects.create_user(name)
    at, workspace = timezone.now(), Workspace.objects.get()
    workspaces.add_member(workspace=workspace, user=user, role=role, at=at)
    return user


def text_of(client: Client, page: str) -> str:
    answer = client.get(page)
    assert answer.status_code == 200, page
    return answer.content.decode()


# Fields of the API and of forms in which no words about a subject stay, or that are planted below.
KEPT = {
    **dict.fromkeys(("OpenRun.reference", "MoveOn.reference"), "an agent's name for a session"),
    "OpenRun.subject": "the key of a subject",
    "form {{ field.name }}": "an argument of a call: as ProposeCall.arguments",
    **dict.fromkeys(("form {{ id }}", "form reason"), "a draft of a policy, about no subject"),
    "form {{ name }}": "the comment of an answer: as form comment",
}
PLANTED: dict[str, str] = {}  # texts, by field


def planted(field: str) -> str:
    words = re.findall("[a-z]+", field.lower())
    return PLANTED.setdefault(field, f"quxley-{'-'.join(words)}")


def plant_as_agent(scene: Scene) -> None:
    """Have an agent elsewhere and the people around it write into every field that they have."""
    claims = {name: planted(f"OpenRun.{name}") for name in ("framework", "link", "summary")}
    session, at = Session(scene, goal=planted("OpenRun.goal")), timezone.now()
    session.end(planted("EndRun.answer"))
    own: dict[str, Any] = {"agent": session.agent, "at": at}
    about: dict[str, Any] = {
        "reference": "case-2",
        "goal": planted("OpenRun.goal"),
        "subject": "42",
    }
    session.run = sessions.open_session(**own, **about, claims=claims)
    session.propose("look", LOOK)
    session.propose("tool", (planted("ProposeCall.tool"), {}))
    session.propose("name", ("issue_refund", {planted("an argument’s name"): 1}))
    args: dict[str, Any] = {"user_id": 42, "amount_usd": 1200}
    sources = {"reason": planted("ProposeCall.sources"), planted("a source’s name"): "x"}
    args["reason"] = planted("ProposeCall.arguments")
    put: dict[str, Any] = {"run_id": session.run.pk, "name": "issue_refund", "args": args}
    sessions.propose(**own, **put, key="pay", sources=sources)
    session.drive()
    request = held(session)
    mara, note = scene.add("mara", Role.REVIEWER), planted("form note")
    sharing.assign(escalation_id=request.pk, by=scene.rita, to_user=mara, note=note, at=at)
    said = planted("form text")
    sharing.comment(escalation_id=request.pk, by=scene.rita, text=said, at=at)
    decide_request(request, scene.rita, approve=False, comment=planted("a rejection’s comment"))
    session.drive()
    for key, choices in (("choose", ["x", planted("AskPerson.choices")]), ("ask", [])):
        asked: dict[str, Any] = {"question": planted("AskPerson.question"), "choices": choices}
        sessions.ask_person(**own, run_id=session.run.pk, key=key, **asked)
        session.drive()
        said = planted("AskPerson.choices" if choices else "form correction")
        decide_request(held(session), scene.rita, correction=said)
        session.drive()
    session.end(planted("EndRun.answer"))
    report = {"executed": True, "result": {"said": planted("ReportCall.result")}}
    AgentCall.objects.filter(key="pay").update(reported=report)


def plant_as_model(scene: Scene, server: ReplayServer) -> None:
    """Have models and launchers write into every field that they have."""

    def act(script: str, *replies: str, **more: Any) -> Run:
        server.load(script, [*replies, *[replies[-1]] * 5], {"sticky_last": True})
        run = scene.launch(planted("form goal"), **more)
        with override_settings(OPENAI_BASE_URL=server.base_url(script), OPENAI_API_KEY="any"):
            return go(run)

    def tool(name: str, **args: Any) -> str:
        return json.dumps({"kind": "tool", "name": name, "args": args})

    assert act("tool", tool(planted("a model’s tool"))).stop_reason.startswith("invalid_action")
    refund = {"user_id": 42, "amount_usd": 1200, "reason": planted("a model’s argument")}
    look = tool("get_refund_context", user_id=42)
    asks = (look, tool("issue_refund", **refund))
    act("answer", look, json.dumps({"kind": "final", "answer": planted("a model’s answer")}))
    run = act("pay", *asks)
    request, no = Escalation.objects.get(run=run), planted("form comment")
    decide_request(request, scene.rita, approve=False, comment=no)
    go(run)
    why = planted("a stop’s reason")
    launching.cancel(run_id=act("stop", *asks).pk, by=scene.omar, reason=why, at=timezone.now())
    route = {"kind": "route", "target": planted("a model’s route"), "args": {}}
    act("route", json.dumps(route), pattern="routing")
    document = json.loads((ROOT / "agents/desks/refunds/workflows/customer-reply.json").read_text())
    document["sequences"][0]["steps"][0]["description"] += " " + planted("a workflow’s text")
    inputs = {"tone": planted("a workflow’s input")}
    commitment = json.dumps({"intent": planted("a model’s commitment")})
    act("flow", commitment, pattern="workflow", workflow=document, inputs=inputs)


def fields() -> set[str]:
    """Return the fields with words of the API's requests and of the pages' forms."""
    schemas = json.loads((ROOT / "docs/openapi.json").read_text(encoding="utf-8"))["components"]
    bodies = {
        f"{name}.{field}"
        for name, schema in schemas["schemas"].items()
        if not name.endswith("Answer")
        for field, kind in schema["properties"].items()
        if kind["type"] in ("string", "object", "array")
    }
    pages = "".join(page.read_text(encoding="utf-8") for page in ROOT.glob("templates/**/*.html"))
    named = re.findall(r'<textarea\b[^>]*?\bname="([^"]+)"', pages)
    return bodies | {f"form {name}" for name in named}


@pytest.mark.proves("I37")
def test_no_planted_word_is_left_after_an_erasure(
    scene: Scene, run: Run, server: ReplayServer, caplog: pytest.LogCaptureFixture
) -> None:
    plant_as_agent(scene)
    plant_as_model(scene, server)
    texts = [NAME, MAIL, SAID, COMMENT, LETTER, *PLANTED.values()]
    before = str(contents())
    assert [text for text in texts if text not in before] == []
    assert fields() <= {*PLANTED, *KEPT}

    done = erase()

    after = str(contents())
    assert not done.beyond
    assert {text: places_of(text) for text in texts if text in after} == {}
    assert ON_POSTGRES or texts_in_files(texts) == []
    assert [text for text in texts if text in caplog.text] == []
    assert command("verify_audit").code == 0
