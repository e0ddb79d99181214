"""The pages over Django's client: permissions, refusals, and text shown as text."""

import re
import tomllib
from pathlib import Path
from uuid import UUID

import pytest
from django.contrib.auth.models import User
from django.http.response import HttpResponseBase
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from agents.core.requests import EscalationState, RunState
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
from tests.engine.scene import Scene, go, payments
from tests.golden import Golden
from tests.pins import pinned
from tests.web.clients import client_of

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.slow]


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
# What each of PEOPLE gets by GET and POST.
ADDRESSES: dict[str, list[list[int]]] = tomllib.loads(
    Path(__file__).with_name("addresses.toml").read_text("utf-8")
)


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
        "policy-draft-change": 1,
        "policy-draft-try": 1,
        "policy-trial": 1,
        "policy-trial-cancel": 1,
        "policy-walk": 1,
        "invitation": "0" * 64,
    }
    hers = Membership.objects.filter(user__username="rita").values_list("pk", flat=True)
    parts |= dict.fromkeys(("member", "member-change", "member-link"), hers.first())
    if name == "delete-view":  # which Rita has saved for herself alone
        rita, at = User.objects.get(username="rita"), timezone.now()
        parts[name] = sharing.save_view(by=rita, name="big", query="order=amount", at=at).pk
    if name == "agent":
        omar, at = Membership.objects.filter(role=Role.OPERATOR)[0], timezone.now()
        parts[name] = keys.set_agent(
            workspace=omar.workspace, name="triage", desk="refunds", owner=omar.user, at=at
        ).pk
    if name in ("policy-draft", "policy-draft-try", "policy-trial", "policy-walk"):
        omar, at = Membership.objects.filter(role=Role.OPERATOR)[0], timezone.now()
        shared: dict[str, object] = {"base": omar.workspace.policy, "base_seq": 0, "document": {}}
        own = omar.workspace.drafts.create(by=omar.user, saved_at=at, **shared)
        tried = {"policy": own.base, "document": {}, "days": 7, "asked_at": at}
        trial = own.trials.create(workspace=omar.workspace, by=omar.user, **tried)
        parts |= dict.fromkeys(("policy-draft", "policy-draft-try"), own.pk)
        parts |= dict.fromkeys(("policy-trial", "policy-walk"), trial.pk)
    parts["subject"] = "refunds"
    more: list[object] = [run] if name == "policy-walk" else []
    more += [1] if name == "run-turn" else ["42"] if name == "subject" else []
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


def test_sign_in_leads_from_actions_to_pages(scene: Scene) -> None:
    """After signing in for an action, the browser requests its target by GET."""
    for name in ADDRESSES:
        found = page_of(address(name, run=UUID(int=1), escalation=1))
        assert page_of(found) == found, name


def test_form_without_a_session_is_said_to_be_lost(scene: Scene, golden: Golden) -> None:
    escalation, client = waiting(scene), Client()
    card = reverse("approval", args=[escalation.pk])

    sent = client.post(reverse("decide", args=[escalation.pk]), {"verdict": "reject"})
    pages = {"after a form": client.get(sent["Location"]).text}
    pages["after a page"] = client.get(client.get(card)["Location"]).text

    assert f"next={card}" in sent["Location"]
    refused = client.post(reverse("sign-in"), {"username": "rita", "password": "wrong"})
    golden.check("sign-in", {**pages, "with a wrong password": refused.text})


def test_address_of_a_form_leads_to_its_page(scene: Scene, golden: Golden) -> None:
    escalation = waiting(scene)

    answered = client_of(scene.rita).get(reverse("decide", args=[escalation.pk]) + "?view=mine")

    assert answered.status_code == 405
    assert f'href="{reverse("approval", args=[escalation.pk])}?view=mine"' in answered.text
    golden.check("error/405", {"rita": answered.text})


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
            page = client.get(at, headers=headers)
            got = status(page)
            # A page whose values hide those of the frame names no role.
            assert page.streaming or f"{who}, in ".encode() not in b" ".join(page.content.split())
            posted = status(client.post(at, headers=headers))
            assert [got, posted] == expected, (who, headers)

    escalation.refresh_from_db()
    assert escalation.state == EscalationState.OPEN


REFUSED: dict[str, dict[str, str]] = {
    "above her limit": {"set.amount_minor": "1000"},
    "above what was asked": {"set.amount_minor": "1300"},
    "nothing": {"set.amount_minor": "0"},
    "no number": {"set.amount_minor": "1e3"},
    "other digits": {"set.amount_minor": "٣٠٠"},
    "no amount": {"set.amount_minor": ""},
    "no reason to change": {"comment": " "},
    "no reason to reject": {"verdict": "reject", "comment": ""},
    "no answer of ours": {"verdict": "pay"},
    "all of it": {"verdict": "approve"},
    "an older page": {"action_sha256": "0" * 64},
    "a field too many": {"subject": "7"},
}


@pytest.mark.proves("I16", "W13")
def test_form_that_cannot_be_granted_is_refused_and_kept(scene: Scene, golden: Golden) -> None:
    escalation, rita = waiting(scene), client_of(scene.rita)
    pages = {"asked": rita.get(reverse("approval", args=[escalation.pk])).text}
    for name, fields in REFUSED.items():
        sent = form(escalation, **fields)
        answered = rita.post(reverse("decide", args=[escalation.pk]), sent)
        assert answered.status_code == 422, name
        if typed := fields.get("set.amount_minor"):
            assert f'value="{typed}"' in answered.text
        pages[name] = answered.text

    golden.check("card/refused", pages)
    escalation.refresh_from_db()
    assert escalation.state == EscalationState.OPEN
    assert payments(escalation.run) == []


@pytest.mark.proves("I17", "F42")
def test_second_reviewer_is_told_who_was_first(scene: Scene, golden: Golden) -> None:
    escalation = waiting(scene)
    scene.decide(escalation.run)
    second = client_of(scene.add("second", Role.REVIEWER))

    answered = second.post(reverse("decide", args=[escalation.pk]), form(escalation))

    assert answered.status_code == 409
    golden.check("card/decided-meanwhile", {"second": answered.text})


@pytest.mark.proves("I19")
def test_launcher_is_told_that_somebody_else_decides(scene: Scene, golden: Golden) -> None:
    at = timezone.now()
    workspaces.add_member(workspace=scene.workspace, user=scene.omar, role=Role.ADMIN, at=at)
    escalation, client = waiting(scene), client_of(scene.omar)

    page = client.get(reverse("approval", args=[escalation.pk])).text
    answered = client.post(reverse("decide", args=[escalation.pk]), form(escalation))

    assert 'id="dform"' not in page
    assert answered.status_code == 422
    golden.check("card/own-run", {"omar": page, "after his form": answered.text})
    escalation.refresh_from_db()
    assert escalation.state == EscalationState.OPEN


@pytest.mark.proves("W5", "W10", "W25")
def test_pages_are_not_stored_and_carry_the_policy(scene: Scene) -> None:
    page = client_of(scene.rita).get(reverse("approvals"))

    assert "no-store" in page["Cache-Control"]
    policy = page["Content-Security-Policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert not re.search(r"<script(?! src=)|\bstyle=|\son[a-z]+=|hx-on", page.text)


@pytest.mark.parametrize("count", [1, 5])
def test_list_takes_as_many_queries_however_long_it_is(scene: Scene, count: int) -> None:
    for _ in range(count):
        waiting(scene)
    client = client_of(scene.rita)
    client.get(reverse("approvals"))  # the first request of a minute moves the session's end
    for name in ("approvals", "runs", "home"):
        with pinned(name):
            client.get(reverse(name))
    for escalation in Escalation.objects.all():
        scene.decide(escalation.run)
    at = timezone.now()
    workspaces.add_member(workspace=scene.workspace, user=scene.rita, role=Role.ADMIN, at=at)
    for name in ("decided", "audit", "kill", "launch"):
        with pinned(name):
            client.get(reverse(name))


@pytest.mark.proves("F42", "W15")
def test_scenario_submitted_twice_is_one_run(scene: Scene) -> None:
    client = client_of(scene.omar)
    page = client.get(reverse("launch")).text
    assert page.count('name="scenario"') == len(examples())
    fields = {"scenario": "above-limit", "token": "a1b2"}

    first, second = (client.post(reverse("launch"), fields) for _ in range(2))

    assert first.status_code == second.status_code == 302
    run = Run.objects.get()
    assert first["Location"] == second["Location"] == reverse("run", args=[run.pk])
    assert (run.launched_by, run.subject_key) == (scene.omar, "42")


NO_LAUNCH: dict[str, dict[str, str]] = {
    "no customer": {"goal": "Refund", "subject": ""},
    "nobody's name": {"goal": "Refund", "subject": "Nobody"},
    "other digits": {"goal": "Refund", "subject": "٤٢"},
    "no name": {"goal": "Refund", "subject": "a\x00b"},
    "nobody's number": {"goal": "Refund", "subject": "999"},
    "no goal": {"goal": "  ", "subject": "42"},
    "hidden letters": {"goal": "a\x00b", "subject": "42"},
    "a long goal": {"goal": "g" * 8001, "subject": "42"},
    "no scenario": {"scenario": "no-such"},
    "an older page": {"goal": "g", "subject": "42", "token": "-"},
    "a field too many": {"goal": "g", "subject": "42", "workspace": "9"},
    "no policy": {"goal": "g", "subject": "42", "policy": "9"},
    "no policy's number": {"goal": "g", "subject": "42", "policy": "٩"},
    "no model": {"goal": "g", "subject": "42", "model": "gpt-x"},
    "no pattern": {"goal": "g", "subject": "42", "pattern": "guess"},
}


def test_launch_that_makes_no_sense_is_refused(scene: Scene, golden: Golden) -> None:
    omar, at = client_of(scene.omar), reverse("launch")
    pages = {"asked": omar.get(at).text}
    for name, fields in NO_LAUNCH.items():
        answered = omar.post(at, {"token": "a1b2", **fields})
        assert answered.status_code == 422, name
        pages[name] = answered.text.replace("g" * 100, "")

    golden.check("launch/refused", pages)
    assert not Run.objects.exists()


def test_a_report_in_own_words_needs_no_customer(scene: Scene) -> None:
    fields = {"goal": "Report on 2026-02-26 in US.", "subject": "", "pattern": "orchestrator"}

    answered = client_of(scene.omar).post(reverse("launch"), {"token": "a1b2", **fields})

    assert answered.status_code == 302
    assert Run.objects.get().subject_key == ""


def test_case_that_nobody_took_over_is_told_everywhere(scene: Scene, golden: Golden) -> None:
    run = go(scene.launch("Which way is your office?", pattern="routing"))
    held = run.escalations.get()
    answering.expire(held.pk, at=held.expires_at)
    told = note_of(Notification(kind="expired", workspace=run.workspace, run=run, escalation=held))
    run = go(run)

    assert (run.state, run.stop_reason) == (RunState.STOPPED, "max_route_attempts")
    auditor = client_of(scene.add("auditor", Role.AUDITOR))
    places = {"card": held.pk, "run": run.pk, "case": run.pk}
    names = {"card": "approval"}
    pages = {
        name: auditor.get(reverse(names.get(name, name), args=[key])).text
        for name, key in places.items()
    }
    pages |= {name: auditor.get(reverse(name)).text for name in ("runs", "audit")}
    golden.check("run/not-taken", {**pages, "mail": "\n".join((told.headline, *told.lines))})


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
