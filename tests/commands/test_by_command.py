"""Events of commands run in a person's name say that nobody signed in."""

import os
import pwd

import pytest
from django.contrib.auth.models import User
from django.urls import reverse
from django.utils import timezone

from agents.models import Escalation, Event, Role
from agents.people import members
from tests.audit.test_record import unseen
from tests.commands.test_run_pattern import command
from tests.engine.scene import Scene, go
from tests.web.test_pages import client_of
from tests.web.words import words

pytestmark = pytest.mark.django_db(transaction=True)

ACCOUNT = pwd.getpwuid(os.getuid()).pw_name
BY = f"command:{ACCOUNT}"  # no user's name has a colon


def facts(kind: str) -> dict[str, object]:
    found = Event.objects.filter(kind=kind).order_by("-pk").values_list("facts", flat=True)[0]
    return {name: found.get(name) for name in ("via", "account")}


def test_a_decision_by_command_is_told_from_one_in_the_browser(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LOGNAME", "ada")  # anybody can set it, so it is not believed
    monkeypatch.setenv("USER", "ada")
    waiting = [go(scene.launch()), go(scene.launch())]
    by_command, in_browser = (Escalation.objects.get(run=run) for run in waiting)

    approve = ["decide", str(by_command.pk), "--approve", "--amount", "800", "--as", "rita"]
    twice = command(*approve, "--reason", "x", "--set", "amount_minor=700")
    assert (twice.code, "given more than once" in twice.err) == (2, True)
    ended = command(*approve, "--reason", "x")
    told = facts("escalation.decided")
    scene.decide(waiting[1])

    assert ended.code == 0
    assert told == {"via": "command", "account": BY}
    assert facts("escalation.decided") == {"via": None, "account": None}
    rita = client_of(User.objects.get(username="rita"))
    card = rita.get(reverse("approval", args=[by_command.pk])).content.decode()
    other = rita.get(reverse("approval", args=[in_browser.pk])).content.decode()
    assert f"Decided by rita, by command, from the account {ACCOUNT}, at" in words(card)
    assert "by command" not in other
    assert command("verify_audit").code == 0


@pytest.mark.breaks("I32")
def test_a_decision_that_hides_that_a_command_made_it_is_found(scene: Scene) -> None:
    escalation = Escalation.objects.get(run=go(scene.launch()))
    command("decide", str(escalation.pk), "--reject", "--reason", "no", "--as", "rita")

    def hide(run: object) -> None:
        Escalation.objects.update(decided_from="")

    unseen(hide, escalation.run)

    assert f"decided_from is ''; the record says '{BY}'" in command("verify_audit").out


@pytest.mark.parametrize(
    ("arguments", "kind"),
    [
        (("kill", "--workspace", "demo", "--reason", "a test", "--as", "ada"), "kill_switch.on"),
        (("set_role", "demo", "eve", "operator"), "member.set"),
        (("set_limit", "demo", "rita", "500"), "member.set"),
        (("remove_member", "demo", "rita"), "member.removed"),
        (("set_team", "demo", "leads", "--name", "Leads", "--add", "rita"), "team.set"),
        (("decide", "1", "--approve", "--as", "eve"), "decision.refused"),
    ],
)
def test_every_command_that_acts_for_people_says_so(
    scene: Scene, arguments: tuple[str, ...], kind: str
) -> None:
    scene.add("ada", Role.ADMIN)
    escalation = Escalation.objects.get(run=go(scene.launch()))
    if arguments[0] == "decide":
        arguments = ("decide", str(escalation.pk), *arguments[2:])

    command(*arguments)

    assert facts(kind) == {"via": "command", "account": BY}


@pytest.mark.both
def test_people_work_on_a_request_together_by_command(scene: Scene) -> None:
    at, finn = timezone.now(), scene.add("finn", Role.REVIEWER)
    members.set_team(workspace=scene.workspace, slug="leads", name="Leads", add=[finn], at=at)
    held = Escalation.objects.get(run=go(scene.launch()))
    acts = (
        (("claim",), "rita", 0, "assigned to nobody, claimed by rita until"),
        (("claim",), "finn", 3, "rita has claimed it until"),
        (("assign", "--to", "finn", "--note", "You know Anna."), "rita", 0, "assigned to finn"),
        (("assign", "--to", "eve"), "finn", 3, "eve is not one who can decide this request"),
        (("assign", "--team", "nobodys"), "finn", 2, "There is no team 'nobodys'"),
        (("comment", "--text", "She wrote twice."), "finn", 0, "assigned to finn"),
        (("comment", "--text", " "), "finn", 3, "Write a comment first"),
        (("snooze", "--minutes", "9999"), "finn", 3, "before the deadline"),
        (("snooze", "--minutes", "9" * 12), "finn", 3, "before the deadline"),
        (("snooze", "--minutes", "5"), "finn", 0, "assigned to finn"),
        (("wake",), "finn", 0, "assigned to finn"),
        (("assign", "--team", "leads"), "rita", 0, "assigned to Leads"),
        (("claim",), "finn", 0, "claimed by finn"),
        (("release",), "rita", 3, "finn has claimed it"),
        (("release",), "finn", 0, "assigned to Leads"),
        (("claim",), "eve", 3, "needs the role reviewer or admin"),
        (("claim",), "nobody", 2, "There is no user 'nobody'"),
    )

    for (verb, *more), who, code, says in acts:
        ended = command("request", verb, str(held.pk), *more, "--as", who)
        assert (ended.code, says in ended.out + ended.err) == (code, True), (verb, ended)
    for number in ("999", "9" * 30):
        assert f"no request {number}" in command("request", "claim", number, "--as", "rita").err

    Escalation.objects.update(claimed_by=finn, claimed_until=at)  # an expired claim does not count
    assert "claimed" not in command("request", "wake", str(held.pk), "--as", "rita").out
    Escalation.objects.update(claimed_by=None, claimed_until=None)

    told = held.run.events.filter(actor__in=("rita", "finn")).order_by("seq")
    assert [(one.actor, one.kind.partition(".")[2]) for one in told] == [
        *(("rita", "claimed"), ("rita", "assigned"), ("finn", "commented")),
        *(("finn", "snoozed"), ("finn", "woken"), ("rita", "assigned")),
        *(("finn", "claimed"), ("finn", "released")),
    ]
    assert {one.facts["account"] for one in told} == {BY}
    assert command("verify_audit").code == 0
