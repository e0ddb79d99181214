"""Publish a policy version from the command line, whole or with additions."""

import json
import re
from dataclasses import replace
from datetime import datetime
from html import unescape
from pathlib import Path

import pytest
from django.contrib.auth.models import User
from django.core.checks import run_checks
from django.urls import reverse
from django.utils import timezone

from agents.core.limits import read_limits
from agents.core.requests import Json
from agents.desks.reference.desk import REFERENCE
from agents.desks.refunds.limits import STRICT
from agents.models import Delivery, Event, PolicyDraft, Role, Workspace
from agents.notifications import fan_out
from agents.notifications.messages import note_of
from agents.people.workspaces import add_member
from agents.publishing.drafts import begin_draft, publish_draft, rebase_draft, rebased, save_draft
from agents.publishing.versions import policy_version
from agents.sdk.desk import DESKS
from agents.shell import refusal
from tests.commands.test_run_pattern import command
from tests.engine.scene import Scene, set_scene
from tests.limits import with_limits, with_part
from tests.web.test_pages import client_of

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def scene() -> Scene:
    found = set_scene()
    found.add("ada", Role.ADMIN)
    return found


def policy_of_demo() -> tuple[int, dict[str, object]]:
    policy = Workspace.objects.select_related("policy").get(slug="demo").policy
    assert policy is not None
    return policy.number, policy.document


def test_a_rule_and_a_tool_are_added_for_one_pattern(scene: Scene) -> None:
    wide = {"USD": {"launcher_daily_minor": 10**8, "workspace_daily_minor": 5 * 10**8}}
    scene.publish(with_part(caps=wide).as_json(), User.objects.get(username="ada"))
    number, before = policy_of_demo()

    names = ("--pattern", "workflow", "--rule", "refunds.window", "--tool", "issue_refund")
    ended = command("publish_policy", "demo", *names, "--as", "ada")

    assert ended.code == 0
    after, document = policy_of_demo()
    assert after == number + 1
    part = STRICT.of("workflow", "refunds")
    refunds, old = (one["desks"]["refunds"] for one in (document, before))  # type: ignore[index]
    assert refunds["rules"] == old["rules"]
    assert refunds["caps"] == wide, "what was published is not replaced by what ships"
    assert refunds["patterns"]["workflow"]["rules"] == [*part.rules, "refunds.window"]
    assert refunds["patterns"]["workflow"]["tools"] == [*part.proposable, "issue_refund"]
    said = Event.objects.filter(kind="policy.published").latest("pk")
    assert (said.actor, said.facts["number"]) == ("ada", after)


@pytest.mark.proves("I31", "F38")
def test_a_run_under_way_keeps_the_policy_it_was_launched_under(scene: Scene) -> None:
    run = scene.launch()
    old = run.policy.number

    command("publish_policy", "demo", "--tool", "send_reply", "--as", "ada")

    run.refresh_from_db()
    scene.workspace.refresh_from_db()
    assert run.policy.number == old
    assert scene.launch().policy.number == old + 1


def test_a_desk_is_named_where_a_policy_has_several(scene: Scene) -> None:
    added = command("publish_policy", "demo", "--add-desk", "bank", "--as", "ada")
    named = [
        command("publish_policy", "demo", "--desk", desk, "--rule", "bank.answer", "--as", "ada")
        for desk in ("bank", "access")
    ]
    other = command(
        "publish_policy", "demo", "--desk", "bank", "--tool", "send_reply", "--as", "ada"
    )

    assert (added.code, [one.code for one in named]) == (0, [0, 2])
    assert (other.code, "send_reply" in other.err) == (3, True)  # a tool of refunds


def at_bank(**more: object) -> dict[str, object]:
    return {"desks": {"bank": {**DESKS["bank"].document(), **more}}}


def at_routing(**more: object) -> dict[str, object]:
    return at_bank(patterns={"routing": {**DESKS["bank"].patterns["routing"], **more}})


def without(*rules: str, pattern: str = "", **more: object) -> dict[str, object]:
    """Return the part of refunds without these rules, or that of one pattern."""
    part = STRICT.desks["refunds"]
    here = part["patterns"][pattern] if pattern else part
    left = {**here, "rules": [rule for rule in here["rules"] if rule not in rules], **more}
    patterns = {**part["patterns"], pattern: left}
    return {"desks": {"refunds": {**part, "patterns": patterns} if pattern else left}}


CUSTOMER = "The rule “Only the run's own customer” is missing"


def at_refunds(**limits: int) -> dict[str, object]:
    return without(limits={**STRICT.part_of("refunds", "limits"), **limits})


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (without("subject.bound"), f"Refunds: {CUSTOMER}"),
        (without("subject.bound", pattern="workflow"), f"Refunds, workflow: {CUSTOMER}"),
        (without("answers.matches_evidence", pattern="routing"), "“Answers say what specialists"),
        (without("refunds.auto_limit"), "Change its limit instead"),
        (without("mail.after_refund"), "nothing allows “Send refund email”. Switch the tool off"),
        (at_bank(rules=[*DESKS["bank"].console_rules]), "nothing allows “Transfer money”"),
        (without(rules=[]), "The rule “Daily caps” is missing"),
        (at_bank(rules=[]), "Bank transfers: The rule “Only what the run is about” is missing"),
        (without(caps={}), "“Without approval per day, in the workspace” has no amount in USD"),
        (
            without(caps={"USD": {"launcher_daily_minor": 2, "workspace_daily_minor": 1}}),
            "one launcher” is above “Without approval per day, in the workspace”, USD 0.01",
        ),
        (
            at_refunds(auto_limit_minor=250_000),
            "“Automatic approval limit” is above “Most refunded in one run”, USD 2,000.00",
        ),
        (
            at_refunds(run_limit_minor=10**9 + 1),
            "“Most refunded in one run” is USD 10,000,000.01; the most is USD 10,000,000.00",
        ),
        (at_bank(limits={"transfers": -1}), "is -1 transfers; the least is 0"),
        ({"escalation_seconds": 0}, "“Time to decide” is 0 s; the least is 1 s"),
        (at_routing(max_steps=0), "Bank transfers, routing: “Steps” is 0; the least is 1"),
        ({"max_step": 3}, "is 'max_steps' meant?"),
        ({"rules": ["refunds.nothing"]}, "names the rule 'refunds.nothing'"),
        ({"proposable": ["rm"]}, "names the tool 'rm'"),
        ({"auto_limit_minor": 2**53}, "Refunds: “Automatic approval limit”, auto_limit_minor"),
        ({"window_days": "all"}, "Refunds: “Refund window”, window_days"),
        ({"patterns": {"magic": {}}}, "names the pattern 'magic'"),
        ({"max_steps": -1}, "max_steps cannot be -1"),
        ({"colour": "red"}, "has no 'colour'"),
        (at_bank(colour="red"), "The desk 'bank' has no 'colour'"),
        (at_bank(off=["transfer_mony"]), "names the tool 'transfer_mony'"),
        (at_routing(off=["rm"]), "names the tool 'rm'"),
        (at_bank(caps={"EURO": {}}), "The desk 'bank': no currency is 'EURO'"),
        (at_bank(limits={"colour": "red"}), "Bank transfers: colour"),
        (at_bank(patterns=[]), "The desk 'bank': patterns cannot be []"),
        (at_routing(colour="red"), "routing at the desk 'bank' has no 'colour'"),
        (at_routing(tiers={}), "routing at the desk 'bank' has no 'tiers'"),
        (at_routing(max_steps=-1), "max_steps cannot be -1"),
        (at_routing(tools=["rm"]), "names the tool 'rm'"),
        (at_routing(rules=["bank.nothing"]), "names the rule 'bank.nothing'"),
        (at_routing(required=["bills_of_day"]), "names the tool 'bills_of_day'"),
        (at_bank(patterns={"magic": {}}), "names the pattern 'magic'"),
        (REFERENCE.as_json(), "reference is for recorded cases only"),
    ],
)
def test_a_document_that_cannot_hold_is_refused(
    scene: Scene, tmp_path: Path, change: dict[str, object], sentence: str
) -> None:
    before = policy_of_demo()
    file = tmp_path / "policy.json"
    file.write_text(json.dumps({**STRICT.as_json(), **change}))

    ended = command("publish_policy", "demo", "--file", str(file), "--as", "ada")

    assert ended.code == 3
    assert sentence in ended.err
    assert policy_of_demo() == before


def test_policy_file_is_read_as_editors_save_it(scene: Scene, tmp_path: Path) -> None:
    """With a byte order mark, or with the comma after the last entry that JSON has no place for."""
    file, text = tmp_path / "policy.json", with_limits(window_days=30).as_json()
    file.write_text(json.dumps(text)[:-1] + ",}")
    names = ("publish_policy", "demo", "--file", str(file), "--as", "ada")

    refused = command(*names)
    file.write_text("\ufeff" + json.dumps(text))
    published = command(*names)

    assert (refused.code, published.code) == (2, 0)
    assert "Illegal trailing comma" in refused.err or "property name" in refused.err


def test_a_fault_in_force_refuses_no_other_version(scene: Scene) -> None:
    held = read_limits({**STRICT.as_json(), **without("subject.bound")})
    policy = policy_version(scene.workspace, held, at=timezone.now())
    Workspace.objects.update(policy=policy)

    added = command("publish_policy", "demo", "--add-desk", "bank", "--as", "ada")

    [warned] = [one for one in run_checks(databases=["default"]) if one.id == "opsconsole.W006"]
    assert (added.code, f"Refunds: {CUSTOMER}" in added.err) == (0, True)
    assert CUSTOMER in warned.msg
    ada = client_of(User.objects.get(username="ada"))
    assert CUSTOMER in unescape(ada.get(reverse("policy")).text)
    ada.post(reverse("policy-draft-begin"), {"workspace": "demo", "floor": "on"})
    drafted = PolicyDraft.objects.get().document["desks"]["refunds"]["rules"]
    assert {*drafted} == {*STRICT.desks["refunds"]["rules"]}
    more = json.loads(command("publish_policy", "demo", "--show").out)
    more["desks"]["refunds"]["rules"].remove("answers.matches_ledger")
    with pytest.raises(refusal.Refused, match="Statements about money") as no:
        scene.publish(more, User.objects.get(username="ada"))
    assert "own customer" not in str(no.value)
    assert no.value.field == "desks.refunds.rules.answers.matches_ledger"


@pytest.fixture
def by_two(scene: Scene) -> dict[str, User]:
    """Return two admins, under a policy that takes both to publish."""
    found = {"ada": User.objects.get(username="ada"), "nora": scene.add("nora", Role.ADMIN)}
    scene.publish(BY_TWO.as_json(), found["ada"])
    return found


BY_TWO = replace(STRICT, second_admin=True)
REMOVES = ("--drop-desk", "bank", "--reason", "One desk is enough.", "--as", "ada")


def test_command_asks_for_the_second_admin(scene: Scene, by_two: dict[str, User]) -> None:
    """Whoever asked cannot publish it, in any session; whoever left has asked nothing."""
    at, (ada, nora) = timezone.now(), by_two.values()
    brought = command("publish_policy", "demo", "--add-desk", "bank", "--as", "ada")
    facts = Event.objects.filter(kind="policy.published").latest("pk").facts
    number, _ = policy_of_demo()

    asked = command("publish_policy", "demo", *REMOVES)

    draft = PolicyDraft.objects.get()
    assert (brought.code, facts["brings"], "asked_by" in facts) == (0, ["bank"], False)
    assert (asked.code, f"Draft {draft.pk} waits for a second admin" in asked.out) == (4, True)
    assert told(at) == {"nora": f"ada asks for a second admin to publish a policy {draft.pk}"}
    overview = {name: client_of(who).get("/").text for name, who in by_two.items()}
    assert {name: f"/policy/drafts/{draft.pk}/" in page for name, page in overview.items()} == {
        "ada": False,
        "nora": True,
    }
    assert policy_of_demo()[0] == number
    with pytest.raises(refusal.Refused, match="Another admin has to publish"):
        publish_draft(draft, by=ada, at=at)
    add_member(workspace=scene.workspace, user=ada, role=Role.VIEWER, at=at)
    with pytest.raises(refusal.Refused, match="there is no other"):
        publish_draft(draft, by=nora, at=at)
    add_member(workspace=scene.workspace, user=ada, role=Role.ADMIN, at=at)
    assert "bank" not in publish_draft(draft, by=nora, at=at).document["desks"]
    said = Event.objects.filter(kind="policy.published").latest("pk")
    assert (said.actor, said.facts["asked_by"]) == ("nora", "ada")
    assert said.facts["why"] == "One desk is enough."
    assert not PolicyDraft.objects.exists()


def told(at: datetime) -> dict[str, str]:
    """Return the headline and the end of the address that each person gets."""
    fan_out.share_out(at=timezone.now())
    rows = Delivery.objects.filter(due_at__gte=at).select_related("user", "notification")
    notes = {str(row.user): note_of(row.notification) for row in rows}
    return {to: f"{one.headline} {one.facts['detail']}" for to, one in notes.items()}


def test_only_admin_left_publishes_with_a_reason(scene: Scene, by_two: dict[str, User]) -> None:
    User.objects.filter(username="nora").update(is_active=False)
    scene.add("auditor", Role.AUDITOR)
    at, names = timezone.now(), ("--tool", "send_reply", "--as", "ada")

    refused = command("publish_policy", "demo", *names)
    alone = command("publish_policy", "demo", *names, "--alone", "Nora has left.")

    assert (refused.code, "there is no other" in refused.err, alone.code) == (3, True, 0)
    assert Event.objects.latest("pk").facts["alone"] == "Nora has left."
    assert set(told(at)) == {"auditor", "rita"}


@pytest.mark.both
def test_older_draft_is_refused_and_rebased(scene: Scene) -> None:
    """Also where the same version is in force again by a later event."""
    ada, at = User.objects.get(username="ada"), timezone.now()
    draft = begin_draft(workspace=scene.workspace, by=ada, at=at)
    longer = with_limits(STRICT, window_days=30).as_json()
    save_draft(draft, document=longer, reason="Longer", by=ada, at=at)
    scene.publish(with_limits(auto_limit_minor=50_000).as_json(), ada)
    scene.publish(STRICT.as_json(), ada)

    with pytest.raises(refusal.Refused) as no:
        publish_draft(draft, by=ada, at=at)
    scene.publish(with_limits(auto_limit_minor=50_000).as_json(), ada)
    rebase_draft(draft, by=ada, at=at)
    version = publish_draft(draft, by=ada, at=at)

    assert no.value.code == "stale"
    assert version.limits() == with_limits(auto_limit_minor=50_000, window_days=30)


def test_file_made_from_an_older_version_is_refused(scene: Scene, tmp_path: Path) -> None:
    """Also where the same version is in force again by a later event."""
    ada, file = User.objects.get(username="ada"), tmp_path / "policy.json"
    shown = command("publish_policy", "demo", "--show")
    base = shown.err.removeprefix("--base ").strip()
    file.write_text(json.dumps(with_limits(window_days=30).as_json()))
    scene.publish(with_limits(auto_limit_minor=50_000).as_json(), ada)
    names = ("--file", str(file), "--as", "ada", "--base")

    refused = [command("publish_policy", "demo", *names, base)]
    scene.publish(STRICT.as_json(), ada)
    refused.append(command("publish_policy", "demo", *names, base))
    unknown = command("publish_policy", "demo", *names, "9.9")
    base = command("publish_policy", "demo", "--show").err.removeprefix("--base ").strip()

    assert [one.code for one in (*refused, unknown)] == [3, 3, 3]
    theirs, _, mine = refused[0].err.partition("Of this document: ")
    assert "Automatic approval limit: USD 1,000.00 → USD 500.00" in theirs
    assert "Refund window: 14 days → 30 days" in mine
    assert command("publish_policy", "demo", *names, base).code == 0


@pytest.mark.parametrize(
    ("base", "ours", "theirs", "both"),
    [
        ({"a": 1, "b": 1}, {"a": 2, "b": 1}, {"a": 1, "b": 2}, {"a": 2, "b": 2}),
        ({"a": 1}, {"a": 2}, {"a": 3}, {"a": 2}),
        ({"a": [1, 2]}, {"a": [2, 3]}, {"a": [1, 2, 4]}, {"a": [2, 4, 3]}),
        ({"a": {"b": 1}}, {}, {"a": {"b": 1}, "c": 1}, {"c": 1}),
    ],
)
def test_rebased_draft_has_both_changes(base: Json, ours: Json, theirs: Json, both: Json) -> None:
    assert rebased(base, ours, theirs) == both


def test_only_an_admin_publishes(scene: Scene) -> None:
    before = policy_of_demo()

    ended = command("publish_policy", "demo", "--tool", "send_reply", "--as", "eve")

    assert ended.code == 3
    assert "needs the role admin" in ended.err
    assert policy_of_demo() == before


def test_a_workspace_can_be_without_refunds(scene: Scene) -> None:
    names = ("--drop-desk", "refunds", "--add-desk", "bank", "--as", "ada")

    assert command("publish_policy", "demo", *names).code == 0

    page = client_of(scene.omar).get(reverse("launch")).text
    assert ("Transfer money" in page, "efund" in page, "customer" in page) == (True, False, False)
    assert '<input type="hidden" name="desk" value="bank">' in page
    ada = client_of(User.objects.get(username="ada"))
    of_people = f"{reverse('policy')}?part=Budgets of a run"
    policy, in_force, members = (
        re.sub(r"\s*\n\s*", "", ada.get(at).text)
        for at in (f"{reverse('policy')}?part=history", of_people, reverse("members"))
    )
    history = policy.partition('id="history"')[2]
    assert [word for word in ("efund", "USD 1,000", "ustomer", "No rule") if word in in_force] == []
    assert ("Working time" in in_force, ">Bank transfers</a>" in in_force) == (True, True)
    assert ">in force<" in history.partition("Desk</th><td>Refunds")[2].partition("</tr>")[0]
    assert "any tool" not in history
    assert ("efunds" in members, "any amount" in members) == (False, True)
    scene.workspace.refresh_from_db()
    with pytest.raises(refusal.Refused, match="no rules for the desk 'refunds'"):
        scene.launch()
    again = command("publish_policy", "demo", "--drop-desk", "access", "--as", "ada")
    assert (again.code, "has no desk 'access'" in again.err) == (2, True)
