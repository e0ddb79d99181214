"""An unclaimed request: who is notified, when and how often, and what a message can do."""

import base64
import hmac
import json
import re
from collections.abc import Iterator
from datetime import timedelta
from typing import Any
from urllib.parse import urlsplit

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.utils import timezone

from agents.core.decisions import Decision
from agents.core.notifications import Hours, Kind, Mode, half_time, last_call
from agents.core.requests import EscalationState
from agents.engine.upkeep.sweep import sweep
from agents.models import Delivery, DeliveryState, Escalation, Notification, Role, Run, SwitchStage
from agents.notifications import fan_out
from agents.notifications.channels.webhooks import calls
from agents.notifications.messages import note_of
from agents.people import members
from agents.requests import deciding, sharing
from agents.runs import kill_switch, launching
from tests.engine.scene import REFUND_500, Scene, decide_request, go, patch_of
from tests.engine.tiered import say_yes, set_tiered
from tests.notifications.sinks import AUTHORITY, Sink, mail_server, receiver
from tests.notifications.telling import (
    by_mail,
    hook,
    prefer,
    tell,
    waiting,
    with_addresses,
    with_mailboxes,
)
from tests.web.test_pages import client_of

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.both]


@pytest.fixture
def people() -> tuple[Scene, User]:
    return with_mailboxes()


@pytest.fixture
def mail(settings: Any) -> Iterator[Sink]:
    with mail_server() as sink:
        by_mail(settings, sink)
        yield sink


@pytest.fixture
def webhook(settings: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[Sink]:
    settings.OPSCONSOLE_WEBHOOK_HOSTS = ["localhost"]
    monkeypatch.setenv("SSL_CERT_FILE", str(AUTHORITY))
    calls._tls.cache_clear()
    with receiver() as sink:
        yield sink
    calls._tls.cache_clear()


def to(mail: Sink) -> list[str]:
    return sorted(str(one["To"]).partition("@")[0] for one in mail.got)


def subject(one: Any) -> str:
    return "".join(str(one["Subject"]).splitlines())


def text(one: Any) -> str:
    return str(one.get_payload(decode=True).decode())


def of(mail: Sink, user: User) -> str:
    """Return the text of the only mail to a user."""
    [one] = [one for one in mail.got if one["To"] == f"{user}@example.com"]
    return text(one)


@pytest.mark.proves("W27")
def test_untaken_request_is_announced_once(
    people: tuple[Scene, User], mail: Sink, webhook: Sink
) -> None:
    scene, ada = people
    secret = hook(scene, ada, webhook).secret
    request = waiting(scene)
    tell()
    assert mail.got == []  # new requests are mailed only to those who chose that
    middle = half_time(request.created_at, request.expires_at)

    tell(middle - timedelta(seconds=1))
    assert mail.got == []
    for seconds in (1, 2, 60):
        tell(middle + timedelta(seconds=seconds))

    assert to(mail) == ["ada"]  # above Rita's limit; Omar launched it, Eve only looks
    one = mail.got[0]
    assert subject(one) == (
        "[opsconsole] Still unclaimed after half its time: Refund USD 1,200.00 to Anna #42"
    )
    address = re.findall(r"http\S+", text(one))[0]
    assert not urlsplit(address).query
    page = client_of(scene.rita).get(urlsplit(address).path)
    assert "Anna" in page.text
    anonymous = Client().get(urlsplit(address).path)
    assert anonymous.status_code == 302  # to the sign-in: a link carries no rights
    request.refresh_from_db()
    assert request.state == EscalationState.OPEN

    calls = [json.loads(call.body) for call in webhook.got]
    assert [call["kind"] for call in calls] == ["opened", "half_time"]
    assert calls[1]["amount_minor"] == 120000
    assert calls[1]["url"] == address
    headers, body = webhook.got[1].headers, webhook.got[1].body
    signed = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + body
    key = base64.b64decode(secret.removeprefix("whsec_"))
    right = base64.b64encode(hmac.digest(key, signed, "sha256")).decode()
    assert headers["webhook-signature"] == f"v1,{right}"

    tell(last_call(request.created_at, request.expires_at) + timedelta(seconds=1))
    Escalation.objects.filter(pk=request.pk).update(
        expires_at=timezone.now() - timedelta(minutes=1)
    )
    sweep()
    tell(timezone.now() + timedelta(hours=1))

    assert to(mail) == ["ada", "ada", "ada", "omar"]  # its launcher learns how it ended
    kinds = [json.loads(call.body)["kind"] for call in webhook.got]
    assert kinds == ["opened", "half_time", "expiring", "expired"]


def test_claim_or_decision_ends_reminders(people: tuple[Scene, User], mail: Sink) -> None:
    scene, ada = people
    request = waiting(scene)
    tell()
    middle = half_time(request.created_at, request.expires_at) + timedelta(seconds=1)
    sharing.claim(escalation_id=request.pk, by=ada, at=middle - timedelta(seconds=5))

    tell(middle)
    decide_request(request, ada, approve=False, comment="no")
    tell(request.expires_at)

    assert mail.got == []


def test_assignee_and_their_teams_webhook_are_notified(
    people: tuple[Scene, User], mail: Sink, webhook: Sink
) -> None:
    scene, ada = people
    at = timezone.now()
    workspace, rita = scene.workspace, scene.rita
    team = members.set_team(workspace=workspace, slug="night", name="Night", add=[rita, ada], at=at)
    hook(scene, ada, webhook, team=team)
    request, other = waiting(scene), waiting(scene)

    sharing.assign(escalation_id=request.pk, by=ada, to_team=team, note="please", at=at)
    tell()
    sharing.assign(escalation_id=other.pk, by=ada, to_user=rita, at=at)
    tell()

    assert to(mail) == ["rita", "rita"]  # and not ada, who did it
    assert "please" not in "".join(map(text, mail.got))
    headlines = [json.loads(call.body)["headline"] for call in webhook.got]
    assert any(headline.startswith("Assigned to Night: ") for headline in headlines)
    for whom in (None, rita):  # released and assigned again, it is news again
        sharing.assign(escalation_id=other.pk, by=ada, to_user=whom, at=at)
    tell()
    assert to(mail) == ["rita"] * 3
    assert subject(mail.got[-1]).startswith("[opsconsole] Assigned to rita: ")
    assert {json.loads(call.body)["request"] for call in webhook.got} == {request.pk}


@pytest.mark.proves("I19")
def test_tiers_choose_who_is_notified(mail: Sink) -> None:
    tiered, at = set_tiered(), timezone.now()
    with_addresses()
    request, other = tiered.ask(), tiered.ask()
    tell()
    assert to(mail) == ["faye", "finn"]  # it is their team's
    assert text(mail.got[0]).count("Assigned to Finance: ") == 2
    assert "Approval needed" not in text(mail.got[0])
    mail.got.clear()
    say_yes(request, tiered.finn, 100_000)
    sharing.assign(escalation_id=other.pk, by=tiered.lena, at=at)  # to everybody

    tell()

    [second] = mail.got
    assert to(mail) == ["faye"]
    asked = "Approved by finn, awaits a second person: "
    assert subject(second).startswith(f"[opsconsole] {asked}")
    assert "Approved: USD 1,000.00" in text(second)
    assert "checked" not in text(second)  # the second person decides without it
    mail.got.clear()
    tell(half_time(other.created_at, other.expires_at) + timedelta(seconds=1))
    assert to(mail) == ["faye", "finn"]
    of_first = next(text(one) for one in mail.got if str(one["To"]).startswith("finn"))
    assert f"/approvals/{other.pk}/" in of_first
    assert f"/approvals/{request.pk}/" not in of_first


def test_quiet_hours_hold_and_a_digest_collects(people: tuple[Scene, User], mail: Sink) -> None:
    scene, ada = people
    first, second = waiting(scene), waiting(scene)
    at = timezone.now()
    minute = at.hour * 60 + at.minute
    hours = Hours((minute - 60) % 1440, (minute + 120) % 1440, digest_at=(minute + 180) % 1440)
    prefer(scene, ada, hours=hours, opened=Mode.DIGEST, half_time=Mode.NOW)
    Escalation.objects.update(expires_at=at + timedelta(hours=8))

    tell(at)
    tell(at + timedelta(hours=1, minutes=55))
    assert mail.got == []
    tell(at + timedelta(hours=3, minutes=1))

    [digest] = mail.got
    assert subject(digest) == "[opsconsole] 2 notifications"
    assert all(f"/approvals/{one.pk}/" in text(digest) for one in (first, second))
    tell(at + timedelta(hours=4, minutes=1))
    assert to(mail) == ["ada", "ada"]  # both half times, in one mail


def test_kill_switch_notifies_and_pauses_deadlines(
    people: tuple[Scene, User], mail: Sink, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene, ada = people
    request = waiting(scene)
    tell()
    middle = half_time(request.created_at, request.expires_at)
    at = timezone.now()
    given: dict[str, Any] = {"workspace": scene.workspace, "by": ada, "reason": "it loops"}
    kill_switch.kill(at=at, **given)

    tell(middle + timedelta(minutes=1))
    later = middle + timedelta(minutes=3)
    news = {"kind": Kind.KILL_SWITCH, "about": "event:0:0", "detail": "on tool:pay", "actor": "ada"}
    Notification.objects.create(workspace=scene.workspace, due_at=later, **news)
    with monkeypatch.context() as patch:  # what is paused must not hold up what is behind it
        patch.setattr(fan_out, "BATCH", 1)
        tell(later + timedelta(seconds=1))
    kill_switch.release(at=at + timedelta(hours=1), to=SwitchStage.TRIAL, **given)
    kill_switch.release(at=at + timedelta(hours=1), to=SwitchStage.OFF, **given)
    tell(at + timedelta(hours=1, seconds=1))

    assert [subject(one) for one in mail.got] == [
        "[opsconsole] Kill switch turned on by ada: all payments, emails and changes",
        "[opsconsole] Kill switch turned on by ada: pay",
        "[opsconsole] 3 notifications",  # its two stages of release, and what it had held
    ]
    assert "unclaimed after half its time" in text(mail.got[2])
    assert "it loops" not in "".join(map(text, mail.got))

    kill_switch.kill(at=at, **given)
    kill_switch.release(at=at, to=SwitchStage.TRIAL, **given)
    kill_switch.release(at=at, to=SwitchStage.OFF, **given)
    kill_switch.kill(at=at, **given)
    tell(at + timedelta(hours=1, seconds=2))
    stages = re.findall(r"(turned [a-z ]+) by ada", text(mail.got[3]))
    assert stages == ["turned off for new runs", "turned off", "turned on"]  # as it is now


def test_only_members_are_told_and_nothing_of_another_workspace(
    people: tuple[Scene, User], mail: Sink
) -> None:
    scene, ada = people
    request = waiting(scene)
    tell()
    scene.workspace.memberships.filter(user=ada).update(role="viewer")

    tell(half_time(request.created_at, request.expires_at) + timedelta(seconds=1))
    assert to(mail) == ["rita"]  # she may lower or reject it
    soon = last_call(request.created_at, request.expires_at) + timedelta(seconds=1)
    fan_out.share_out(at=soon)
    assert Delivery.objects.get(state=DeliveryState.WAITING).user == scene.rita
    scene.workspace.memberships.filter(user=scene.rita).delete()
    tell(soon)

    assert to(mail) == ["rita"]


@pytest.mark.proves("F41")
def test_attention_mail_has_its_reason_while_it_holds(
    people: tuple[Scene, User], mail: Sink, settings: Any
) -> None:
    scene, ada = people
    request, at = waiting(scene), timezone.now()
    yes = Decision(approve=True, patch=patch_of(80_000), comment="partly used")
    deciding.decide(escalation_id=request.pk, by=ada, wanted=yes, at=at)
    launching.cancel(run_id=request.run_id, by=ada, reason="", at=at)
    tell()
    assert to(mail) == ["ada", "omar"]
    asked = "Approved, but not carried out: Refund USD 1,200.00 to Anna #42"
    assert of(mail, ada).splitlines()[:3] == [
        asked,
        "Approved by ada: USD 800.00",
        "A person stopped the run.",
    ]
    mail.got.clear()

    Run.objects.filter(pk=(failing := scene.launch()).pk).update(attempts=20)
    go(failing)
    settings.EMAIL_BACKEND = "tests.desk.letterboxes.Broken"
    lost, settled = (go(scene.launch(goal)) for goal in (REFUND_500, REFUND_500))
    by_mail(settings, mail)
    asked_of, answered = lost.escalations.get(), settled.escalations.get()
    fan_out.share_out(at=timezone.now())  # answered between the two
    no = Decision(approve=False, comment="not in the log")
    deciding.decide(escalation_id=answered.pk, by=scene.rita, wanted=no, at=at)
    tell()
    assert to(mail) == ["ada", "omar", "rita"]  # she may answer what was lost
    assert of(mail, ada).splitlines()[:7] == [
        "A run needs attention: Anna #42",
        "A fault of the console ended the run. The server's log has the details.",
        f"{settings.OPSCONSOLE_PUBLIC_URL}/runs/{failing.pk}/",
        "",
        "A run needs attention: Did the email to Anna #42 leave?",
        "Nobody can tell whether a call took effect: look it up, and answer the request.",
        f"Deadline: {asked_of.expires_at:%d %b %H:%M} UTC",
    ]
    assert f"/approvals/{asked_of.pk}/" in of(mail, ada)
    assert f"/approvals/{answered.pk}/" not in of(mail, ada)
    mail.got.clear()

    go(settled)
    fan_out._looked_at = -fan_out.MINUTE
    tell()
    assert to(mail) == ["ada", "omar"]
    assert "no email states its amount" in of(mail, ada)
    assert str(settled.pk) in of(mail, ada)
    Escalation.objects.filter(run=lost).update(expires_at=at)
    sweep()
    mail.got.clear()
    tell(timezone.now() + timedelta(seconds=1))
    assert "Expired without an answer: Did the email to Anna #42" in of(mail, ada)
    assert "It was not decided by " in of(mail, ada)
    in_digest = Notification.objects.get(escalation=asked_of, kind=Kind.ATTENTION)
    lines = note_of(in_digest).lines  # nothing left to answer
    assert lines[0].endswith("took effect: look it up and say so on its run's page.")


@pytest.mark.proves("F41")
def test_mail_has_its_time_and_no_paused_deadline(people: tuple[Scene, User], mail: Sink) -> None:
    scene, ada = people
    request, at = waiting(scene), timezone.now()
    team = members.set_team(
        workspace=scene.workspace, slug="night", name="Night", add=[scene.rita], at=at
    )
    tell()
    soon = last_call(request.created_at, request.expires_at) + timedelta(seconds=1)
    quiet = (soon.hour * 60 + soon.minute - 1) % 1440
    prefer(scene, ada, hours=Hours(quiet, (quiet + 3) % 1440), half_time=Mode.OFF)
    tell(soon)  # for the end of the quiet hours
    assert mail.got == []
    boss = scene.add("boss", Role.ADMIN)
    kill_switch.kill(workspace=scene.workspace, by=boss, reason="look", at=timezone.now())
    sharing.assign(escalation_id=request.pk, by=ada, to_team=team, at=at)
    sharing.assign(escalation_id=request.pk, by=ada, to_user=scene.rita, at=at)

    tell(soon + timedelta(minutes=4))

    told = {str(one["To"]).partition("@")[0]: text(one) for one in mail.got}
    assert sorted(told) == ["ada", "rita"]
    assert "About to expire" not in told["ada"]
    assert "Kill switch turned on by boss" in told["ada"]
    assert told["rita"].count("Assigned to rita: ") == 1  # handed on meanwhile: announced once
    assert "A kill switch is on, and the deadline is paused." in told["rita"]
    assert "Deadline: " not in told["rita"]
    when = f"{soon + timedelta(minutes=4):%d %b %H:%M} UTC"
    assert f"As of {when}; each page shows what is true now." in told["rita"]
    mail.got.clear()

    frozen = timedelta(hours=1)
    for stage in (SwitchStage.TRIAL, SwitchStage.OFF):
        kill_switch.release(
            workspace=scene.workspace, by=ada, to=stage, reason="x", at=timezone.now() + frozen
        )
    request.refresh_from_db()
    tell(last_call(request.created_at, request.expires_at) + timedelta(minutes=2))
    assert "About to expire" in "".join(map(text, mail.got))
