"""The pages over Django's client: permissions, refusals, and text shown as text."""

from __future__ import annotations

import re
from typing import Any
from uuid import UUID

import pytest
from django.contrib.auth.models import User
from django.http.response import HttpResponseBase
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from agents.core.states import EscalationState, RunState
from agents.engine.turns import answering
from agents.external import keys
from agents.models import Escalation, Membership, Notification, Role, Run, Workspace
from agents.notifications.messages import note_of
from agents.people import workspaces
from agents.requests import sharing
from agents.runs.launch_page import examples
from agents.sdk.declaration_checks import RESERVED
from agents.shell.pages import page_of
from agents.urls import urlpatterns
from tests.database import make_once
from tests.demo_book import open_demo_book
from tests.engine.scene import Scene, fresh, go, payments
from tests.web.clients import client_of
from tests.web.words import words

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.slow]

MARKUP = "<img src=x onerror=alert(1)>\"'&{{ 7|add:7 }}"


def waiting(scene: Scene, goal: str = "Refund 1200 USD to user_id=42.") -> Escalation:
    """Return the request of a run that was driven to a person, made once."""

    def make() -> Escalation:
        run = go(scene.launch(goal))
        return Escalation.objects.get(run=run, state=EscalationState.OPEN)

    return make_once(goal, make)


def form(escalation: Escalation, **fields: str) -> dict[str, str]:
    given = {"verdict": "adjust", "set.amount_minor": "800.00", "comment": "partly used"}
    return {**given, "action_sha256": escalation.action_sha256, **fields}


def stranger() -> User:
    """Return an admin of another workspace, made once."""
    return make_once("stranger", _new_stranger)


def _new_stranger() -> User:
    at = timezone.now()
    other = Workspace.objects.create(
        slug="other", name="Other", is_demo=True, book=open_demo_book(at=at), created_at=at
    )
    user = User.objects.create_user("stranger")
    workspaces.add_member(workspace=other, user=user, role=Role.ADMIN, at=at)
    return user


PEOPLE = ("anon", "stranger", "eve", "rita")
# What each of PEOPLE gets by GET and POST; 302 redirects, 405 is the wrong verb.
ADDRESSES: dict[str, tuple[tuple[int, int], ...]] = {
    "home": ((302, 405), (200, 405), (200, 405), (200, 405)),
    "try-now": ((302, 302), (405, 302), (405, 403), (405, 403)),
    "healthz": ((200, 405), (200, 405), (200, 405), (200, 405)),
    "readyz": ((503, 405), (503, 405), (503, 405), (503, 405)),  # no worker is running
    "metrics": ((200, 405), (200, 405), (200, 405), (200, 405)),  # the client is on loopback
    "sign-in": ((200, 200), (302, 302), (302, 302), (302, 302)),
    "sign-in-code": ((302, 302),) * 4,  # no password was typed before; see test_second_factor
    "second-factor": ((302, 405), (200, 405), (200, 405), (200, 405)),
    "second-factor-change": ((302, 302), (405, 422), (405, 422), (405, 422)),
    "sign-out": ((405, 302), (405, 302), (405, 302), (405, 302)),
    "become": ((302, 302), (405, 404), (405, 404), (405, 404)),  # see test_start_here
    "theme": ((405, 302), (405, 302), (405, 302), (405, 302)),
    "approvals": ((302, 405), (200, 405), (200, 405), (200, 405)),
    "decided": ((302, 405), (200, 405), (200, 405), (200, 405)),
    "bulk": ((302, 405), (200, 405), (403, 405), (200, 405)),  # of their own workspaces
    "bulk-reject": ((302, 302), (405, 422), (405, 403), (405, 422)),
    "bulk-result": (
        (302, 405),
        (200, 405),
        (200, 405),
        (200, 405),
    ),  # of an unseen workspace
    "save-view": ((302, 302), (405, 422), (405, 422), (405, 422)),  # the form names none
    "delete-view": ((302, 302), (405, 404), (405, 404), (405, 302)),
    "approval": ((302, 405), (404, 405), (200, 405), (200, 405)),
    "judge": ((302, 405), (404, 405), (403, 405), (200, 405)),
    "judge-letter": ((302, 302), (405, 404), (405, 403), (405, 200)),
    "decide": ((302, 302), (405, 404), (405, 403), (405, 422)),
    "claim": ((302, 302), (405, 404), (405, 403), (405, 302)),
    "release-claim": ((302, 302), (405, 404), (405, 403), (405, 302)),
    "hand-over": ((302, 302), (405, 404), (405, 403), (405, 422)),
    "snooze": ((302, 302), (405, 404), (405, 403), (405, 422)),
    "wake": ((302, 302), (405, 404), (405, 403), (405, 302)),
    "comment": ((302, 302), (405, 404), (405, 403), (405, 409)),
    "keys": ((405, 302), (405, 302), (405, 302), (405, 302)),
    "agents": ((302, 405), (200, 405), (403, 405), (403, 405)),
    "agent": ((302, 405), (404, 405), (403, 405), (403, 405)),
    "workspace-key": ((302, 302), (405, 422), (405, 403), (405, 403)),
    "agent-add": ((302, 302), (405, 422), (405, 403), (405, 403)),
    "agent-change": ((302, 302), (405, 404), (405, 403), (405, 403)),
    "audit": ((302, 405), (200, 405), (403, 405), (403, 405)),
    "verify": ((302, 302), (405, 302), (405, 403), (405, 403)),
    "verify-cancel": ((302, 302), (405, 302), (405, 403), (405, 403)),
    "export": ((302, 302), (405, 200), (405, 403), (405, 403)),
    "bundle": ((302, 302), (405, 200), (405, 403), (405, 403)),
    "kill": ((302, 405), (200, 405), (200, 405), (200, 405)),
    "kill-press": ((302, 302), (405, 404), (405, 403), (405, 403)),
    "kill-release": ((302, 302), (405, 404), (405, 403), (405, 403)),
    "members": ((302, 405), (200, 405), (403, 405), (403, 405)),
    "member": ((302, 405), (404, 405), (403, 405), (403, 405)),
    "member-change": ((302, 302), (405, 404), (405, 403), (405, 403)),
    "invite": ((302, 302), (405, 422), (405, 403), (405, 403)),
    "invitation-revoke": ((302, 302), (405, 404), (405, 403), (405, 403)),
    "invitation": ((404, 404),) * 4,  # nobody's link; see test_invitations
    "require-factor": ((302, 302), (405, 302), (405, 403), (405, 403)),
    "team-add": ((302, 302), (405, 422), (405, 403), (405, 403)),
    "notifications": ((302, 405), (200, 405), (200, 405), (200, 405)),
    "notifications-prefer": ((302, 302), (405, 404), (405, 404), (405, 404)),
    "webhooks": ((302, 405), (200, 405), (403, 405), (403, 405)),
    "webhook-add": ((302, 302), (405, 422), (405, 403), (405, 403)),
    "webhook-change": ((302, 302), (405, 404), (405, 403), (405, 403)),
    "deliveries": ((302, 405), (200, 405), (403, 405), (403, 405)),
    "policy": ((302, 405), (200, 405), (403, 405), (403, 405)),
    "launch": ((302, 302), (200, 422), (403, 403), (403, 403)),
    "team": ((302, 405), (200, 405), (403, 405), (200, 405)),
    "team-csv": ((302, 405), (200, 405), (403, 405), (200, 405)),
    "search": ((302, 405), (200, 405), (200, 405), (200, 405)),
    "runs": ((302, 405), (200, 405), (200, 405), (200, 405)),
    "run": ((302, 405), (404, 405), (200, 405), (200, 405)),
    "run-turn": ((302, 405), (404, 405), (200, 405), (200, 405)),
    "run-json": ((302, 405), (404, 405), (200, 405), (200, 405)),
    "case": ((302, 405), (404, 405), (403, 405), (403, 405)),
    "case-proof": ((302, 302), (405, 404), (405, 403), (405, 403)),
    "cancel": ((302, 302), (405, 404), (405, 403), (405, 422)),
    "run-ask-on": ((302, 302), (405, 404), (405, 403), (405, 403)),
    "run-again": ((302, 302), (405, 404), (405, 403), (405, 403)),
    "settle-call": ((302, 302), (405, 404), (405, 403), (405, 422)),
}


SHARES = ("hand-over", "snooze", "wake", "comment")
OF_ESCALATION = ("approval", "judge", "judge-letter", "decide", "claim", "release-claim", *SHARES)
OF_RUN = (
    *("run", "run-turn", "run-json", "case", "case-proof", "cancel", "run-again", "run-ask-on"),
    "settle-call",
)


def address(name: str, *, run: object, escalation: object) -> str:
    """Return an address about this run or escalation."""
    parts = dict.fromkeys(OF_ESCALATION, escalation) | dict.fromkeys(OF_RUN, run)
    parts |= {
        "bulk-result": UUID(int=1),
        "become": "rita",
        "webhook-change": 1,
        "agent-change": 1,
        "invitation-revoke": 1,
        "invitation": "0" * 64,
    }
    hers = Membership.objects.filter(user__username="rita").values_list("pk", flat=True)
    parts |= dict.fromkeys(("member", "member-change"), hers.first())
    if name == "delete-view":  # which Rita has saved for herself alone
        rita, at = User.objects.get(username="rita"), timezone.now()
        parts[name] = sharing.save_view(by=rita, name="big", query="order=amount", at=at).pk
    if name == "agent":
        omar, at = Membership.objects.filter(role=Role.OPERATOR)[0], timezone.now()
        parts[name] = keys.set_agent(
            workspace=omar.workspace, name="triage", desk="refunds", owner=omar.user, at=at
        ).pk
    more = [1] if name == "run-turn" else []
    return reverse(name, args=[parts[name], *more] if name in parts else None)


def status(answered: HttpResponseBase) -> int:
    """Return the status of an answer; 302 also for htmx's redirect."""
    return 302 if "HX-Redirect" in answered else answered.status_code


def names() -> set[str]:
    return {str(pattern.name) for pattern in urlpatterns}


@pytest.mark.proves("I39", "W1")
def test_every_address_has_its_row() -> None:
    assert names() == set(ADDRESSES)


def test_no_desk_is_called_as_a_page() -> None:
    first = {str(pattern.pattern).partition("/")[0] for pattern in urlpatterns}
    assert {name for name in first if name.isidentifier()} <= RESERVED


def test_signing_in_leads_from_every_action_to_a_page(scene: Scene) -> None:
    """After signing in for an action, the browser requests its target by GET."""
    for name in ADDRESSES:
        found = page_of(address(name, run=UUID(int=1), escalation=1))
        assert page_of(found) == found, name


def test_who_sends_a_form_without_a_session_is_told_that_nothing_arrived(scene: Scene) -> None:
    escalation, client = waiting(scene), Client()

    sent = client.post(reverse("decide", args=[escalation.pk]), {"verdict": "reject"})
    asked = client.get(reverse("approval", args=[escalation.pk]))

    told = "Your session had ended, so what you sent did not arrive."
    assert told in client.get(sent["Location"]).text
    assert f"next={reverse('approval', args=[escalation.pk])}" in sent["Location"]
    assert told not in client.get(asked["Location"]).text


def test_the_address_of_a_form_leads_to_its_page(scene: Scene) -> None:
    escalation = waiting(scene)

    answered = client_of(scene.rita).get(reverse("decide", args=[escalation.pk]) + "?view=mine")

    assert answered.status_code == 405
    assert "This address only takes a form" in answered.text
    assert f'href="{reverse("approval", args=[escalation.pk])}?view=mine"' in answered.text


@pytest.mark.proves("I38", "I39", "W1", "W2")
@pytest.mark.parametrize("name", sorted(ADDRESSES))
def test_who_gets_what(scene: Scene, name: str) -> None:
    escalation = waiting(scene)
    at = address(name, run=escalation.run_id, escalation=escalation.pk)
    people = {"stranger": stranger(), "eve": scene.eve, "rita": scene.rita}

    for who, expected in zip(PEOPLE, ADDRESSES[name], strict=True):
        client = client_of(people[who]) if who in people else Client()
        # For htmx only redirects are spelled otherwise, as of a request without a session.
        for headers in ({}, {"HX-Request": "true"})[: 1 if who in people else 2]:
            got = status(client.get(at, headers=headers))
            posted = status(client.post(at, headers=headers))
            assert (got, posted) == expected, (who, headers)

    escalation.refresh_from_db()
    assert escalation.state == EscalationState.OPEN


def test_rita_adjusts_and_sees_what_really_happened(scene: Scene) -> None:
    escalation = waiting(scene)
    client = client_of(scene.rita)

    answered = client.post(reverse("decide", args=[escalation.pk]), form(escalation))
    assert answered.status_code == 302
    assert "It has not been paid yet." in client.get(answered["Location"]).text
    go(escalation.run)

    page = client.get(answered["Location"]).text
    assert "USD 800.00 was paid to Anna" in words(page)
    assert payments(fresh(escalation.run)) == [80000]
    assert "human_revised" in client.get(reverse("run-json", args=[escalation.run_id])).text


@pytest.mark.proves("I16", "W13")
@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"set.amount_minor": "1000"}, "above your own limit of USD 800.00"),
        ({"set.amount_minor": "1300"}, "above your own limit of USD 800.00"),
        ({"set.amount_minor": "0"}, "At least USD 0.01."),
        ({"set.amount_minor": "1e3"}, "up to 9 digits"),
        ({"set.amount_minor": "٣٠٠"}, "up to 9 digits"),
        ({"set.amount_minor": ""}, "Fill in Amount."),
        ({"comment": " "}, "Enter a reason for the change."),
        ({"verdict": "reject", "comment": ""}, "Enter a reason for the rejection."),
        ({"verdict": "pay"}, "Choose an answer."),
        ({"verdict": "approve"}, "above your own limit"),
        ({"action_sha256": "0" * 64}, "changed since you opened it"),
        ({"subject": "7"}, "fields that it should not"),
    ],
)
def test_a_form_that_cannot_be_granted_is_refused_and_kept(
    scene: Scene, fields: dict[str, str], says: str
) -> None:
    escalation = waiting(scene)

    answered = client_of(scene.rita).post(
        reverse("decide", args=[escalation.pk]), form(escalation, **fields)
    )

    assert answered.status_code == 422
    assert says in answered.text
    if typed := fields.get("set.amount_minor"):
        assert f'value="{typed}"' in answered.text
    escalation.refresh_from_db()
    assert escalation.state == EscalationState.OPEN
    assert payments(escalation.run) == []


@pytest.mark.proves("I17", "F42")
def test_the_second_of_two_reviewers_is_told_who_was_first(scene: Scene) -> None:
    escalation = waiting(scene)
    scene.decide(escalation.run)
    second = scene.add("second", Role.REVIEWER)

    answered = client_of(second).post(reverse("decide", args=[escalation.pk]), form(escalation))

    assert answered.status_code == 409
    assert "rita approved USD 800.00 instead of USD 1,200.00, at" in words(answered.text)
    assert "What you filled in was not sent" in answered.text


@pytest.mark.proves("I19")
def test_who_launched_the_run_is_told_that_somebody_else_decides(scene: Scene) -> None:
    workspaces.add_member(
        workspace=scene.workspace, user=scene.omar, role=Role.ADMIN, at=timezone.now()
    )
    escalation = waiting(scene)
    client = client_of(scene.omar)

    page = client.get(reverse("approval", args=[escalation.pk])).text
    answered = client.post(reverse("decide", args=[escalation.pk]), form(escalation))

    assert "You launched this run" in page
    assert "dform" not in page
    assert answered.status_code == 422
    escalation.refresh_from_db()
    assert escalation.state == EscalationState.OPEN


@pytest.mark.proves("W4")
def test_markup_from_anyone_shows_as_text(scene: Scene) -> None:
    escalation = waiting(scene, f"Refund 1200 USD to user_id=42. {MARKUP}")
    Escalation.objects.filter(pk=escalation.pk).update(comment=MARKUP)
    Run.objects.filter(pk=escalation.run_id).update(stop_reason=MARKUP, outcome={"answer": MARKUP})
    escalation.run.steps.filter(key="1/propose").update(
        reply={"text": MARKUP, "demo": True}, failed=""
    )
    User.objects.filter(pk=scene.omar.pk).update(username="omar<b>")
    client = client_of(scene.rita)

    for name, key in (("approval", escalation.pk), ("run", escalation.run_id)):
        page = client.get(reverse(name, args=[key])).text
        assert "&lt;img src=x onerror=alert(1)&gt;" in page
        assert "<img src=x" not in page
        assert "omar<b>" not in page
    for name in ("approvals", "runs"):
        assert "<img src=x" not in client.get(reverse(name)).text


@pytest.mark.proves("W5", "W10", "W25")
def test_pages_are_not_stored_and_carry_the_policy(scene: Scene) -> None:
    page = client_of(scene.rita).get(reverse("approvals"))

    assert "no-store" in page["Cache-Control"]
    policy = page["Content-Security-Policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert not re.search(r"<script(?! src=)|\bstyle=|\son[a-z]+=|hx-on", page.text)


@pytest.mark.parametrize("count", [1, 5])
def test_a_list_takes_as_many_queries_however_long_it_is(
    scene: Scene, count: int, django_assert_num_queries: Any
) -> None:
    for _ in range(count):
        waiting(scene)
    client = client_of(scene.rita)
    client.get(reverse("approvals"))  # the first request of a minute moves the session's end

    with django_assert_num_queries(7):
        client.get(reverse("approvals"))
    with django_assert_num_queries(7):
        client.get(reverse("runs"))
    with django_assert_num_queries(11):
        client.get(reverse("home"))
    for escalation in Escalation.objects.all():
        scene.decide(escalation.run)
    workspaces.add_member(
        workspace=scene.workspace, user=scene.rita, role=Role.ADMIN, at=timezone.now()
    )
    for name, queries in (("decided", 5), ("audit", 11), ("kill", 8), ("launch", 7)):
        with django_assert_num_queries(queries):
            client.get(reverse(name))


@pytest.mark.proves("F42", "W15")
def test_omar_launches_a_scenario_and_a_double_submit_is_one_run(scene: Scene) -> None:
    client = client_of(scene.omar)
    page = client.get(reverse("launch")).text
    assert page.count('name="scenario"') == len(examples())
    fields = {"scenario": "above-limit", "token": "a1b2"}

    first, second = (client.post(reverse("launch"), fields) for _ in range(2))

    assert first.status_code == second.status_code == 302
    run = Run.objects.get()
    assert first["Location"] == second["Location"] == reverse("run", args=[run.pk])
    assert (run.launched_by, run.subject_key) == (scene.omar, "42")


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"goal": "Refund", "subject": ""}, "Enter the customer"),
        ({"goal": "Refund", "subject": "Nobody"}, "No customer is called Nobody"),
        ({"goal": "Refund", "subject": "٤٢"}, "No customer is called ٤٢"),
        ({"goal": "Refund", "subject": "a\x00b"}, "not a valid name"),
        ({"goal": "Refund", "subject": "999"}, "No customer is called 999"),
        ({"goal": "  ", "subject": "42"}, "Describe in a sentence"),
        ({"goal": "a\x00b", "subject": "42"}, "without control or invisible"),
        ({"goal": "g" * 8001, "subject": "42"}, "8,000 characters"),
        ({"scenario": "no-such"}, "no such scenario"),
        ({"goal": "g", "subject": "42", "token": "-"}, "no longer valid"),
        ({"goal": "g", "subject": "42", "workspace": "9"}, "fields that it should not"),
        ({"goal": "g", "subject": "42", "policy": "9"}, "no such policy version"),
        ({"goal": "g", "subject": "42", "policy": "٩"}, "no such policy version"),
        ({"goal": "g", "subject": "42", "model": "gpt-x"}, "not among OPENAI_MODEL_CHOICES"),
        ({"goal": "g", "subject": "42", "pattern": "guess"}, "no pattern"),
    ],
)
def test_a_launch_that_makes_no_sense_is_refused_and_kept(
    scene: Scene, fields: dict[str, str], says: str
) -> None:
    answered = client_of(scene.omar).post(reverse("launch"), {"token": "a1b2", **fields})

    assert answered.status_code == 422
    assert says in answered.text
    assert not Run.objects.exists()


def test_a_report_in_own_words_needs_no_customer(scene: Scene) -> None:
    fields = {"goal": "Report on 2026-02-26 in US.", "subject": "", "pattern": "orchestrator"}

    answered = client_of(scene.omar).post(reverse("launch"), {"token": "a1b2", **fields})

    assert answered.status_code == 302
    assert Run.objects.get().subject_key == ""


def test_rita_takes_over_a_case_that_no_specialist_takes(scene: Scene) -> None:
    run = go(scene.launch("Which way is your office?", pattern="routing"))
    escalation = Escalation.objects.get(run=run)
    rita = client_of(scene.rita)
    page = rita.get(reverse("approval", args=[escalation.pk])).text
    assert "Take the case of Anna and answer it yourself, outside this console" in words(page)
    assert "Technical specialist (not technical)" in words(page)

    taken = {"verdict": "approve", "action_sha256": escalation.action_sha256}
    rita.post(reverse("decide", args=[escalation.pk]), taken)
    run = go(run)

    assert (run.state, run.stop_reason) == (RunState.STOPPED, "max_route_attempts")
    assert "rita took over the case." in words(
        rita.get(reverse("approval", args=[escalation.pk])).text
    )
    shown = words(rita.get(reverse("run", args=[run.pk])).text)
    assert "a case that no specialist takes" in shown
    assert "rita: took over the case" in shown
    assert "1 taken over by a person" in shown
    assert "Take it yourself" not in shown
    auditor = client_of(scene.add("auditor", Role.AUDITOR))
    for address in (reverse("run", args=[run.pk]), reverse("runs"), reverse("case", args=[run.pk])):
        assert "No specialist took the case. rita took over the case." in auditor.get(address).text

    left = go(scene.launch("Which way is your office?", pattern="routing"))
    held = left.escalations.get()
    answering.expire(held.pk, at=held.expires_at)
    told = Notification(kind="expired", workspace=left.workspace, run=left, escalation=held)
    for decided in (escalation, held):
        of_request = words(rita.get(reverse("approval", args=[decided.pk])).text)
        assert "Every specialist declined" in of_request
        assert "Take it yourself" not in of_request
    pages = [
        rita.get(reverse("approval", args=[held.pk])).text,
        client_of(scene.add("ada", Role.ADMIN)).get(reverse("audit")).text,
        note_of(told).headline,
    ]
    assert ["Expired and closed unanswered" in words(page) for page in pages] == [True] * 3
    assert note_of(told).lines[0] == "Nobody took over the case."
    left = go(left)
    for address in (
        reverse("run", args=[left.pk]),
        reverse("runs"),
        reverse("case", args=[left.pk]),
    ):
        said = words(auditor.get(address).text)
        assert "No specialist took the case. Nobody took over the case." in said, address


def test_a_wrong_password_is_said_in_words(scene: Scene) -> None:
    answered = Client().post(reverse("sign-in"), {"username": "rita", "password": "wrong"})

    assert answered.status_code == 200
    assert "Wrong name or password" in answered.text


@pytest.mark.proves("W8")
@pytest.mark.parametrize("back", ["//evil.example", "https://evil.example/", "javascript:alert(1)"])
def test_the_theme_leads_back_to_our_pages_only(scene: Scene, back: str) -> None:
    answered = Client().post(reverse("theme"), {"theme": "dark", "back": back})

    assert answered["Location"] == "/"
    assert answered.cookies["theme"].value == "dark"


def test_every_answer_says_what_no_page_may_use(scene: Scene) -> None:
    client = client_of(scene.rita)
    for address in ("/", "/nowhere/", "/sign-in/", "/static/opsconsole.css", "/healthz"):
        told = client.get(address).headers["Permissions-Policy"]
        assert "publickey-credentials-get=(self), publickey-credentials-create=(self)" in told
        assert "camera=()" in told
        assert "*" not in told


def test_each_entry_of_the_sidebar_has_an_icon_of_its_own_and_marks_its_page(scene: Scene) -> None:
    admin = client_of(scene.add("ada", Role.ADMIN))
    names = ("home", "approvals", "runs", "audit", "launch")
    below = ("notifications", "policy", "members", "agents", "team", "second-factor", "kill")

    for name in (*names, *below):
        rail = (
            admin.get(reverse(name))
            .text.partition('<aside class="rail"')[2]
            .partition("</aside>")[0]
        )
        links = re.findall(
            r'<li><a href="([^"]+)"(\s+aria-current="page")?>.*?#i-([\w-]+)"', rail, re.S
        )
        assert [at for at, current, _ in links if current] == [reverse(name)]
        assert len({icon for *_, icon in links}) == len(links) == len(names) + len(below)
