"""Tiers and two people in the operations: who may approve, and when it suffices."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.management import CommandError, call_command
from django.db import DatabaseError, IntegrityError, transaction
from django.utils import timezone

from agents.engine.deciders import climb
from agents.engine.upkeep.sweep import sweep
from agents.models import Approval, Escalation, Event, Role, Run, SwitchStage
from agents.people import members
from agents.requests import sharing
from agents.runs import kill_switch, launching
from agents.sdk.desk import DESKS
from agents.shell import refusal
from tests.commands.test_run_pattern import command
from tests.engine.scene import decide_request, go, payments
from tests.engine.tiered import TIERS, Tiered, put_tiers, say_yes, still_waits

TOOLS = DESKS["refunds"].all_tools

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.slow]
BELOW = "User Anna (user_id=42) requests a refund of 1050 USD for the annual plan."


def events_of(run: Run, *kinds: str) -> list[tuple[str, str]]:
    """Return a run's events of these kinds in order, as kind and person."""
    found = Event.objects.filter(run=run, kind__in=kinds).order_by("seq")
    return list(found.values_list("kind", "actor"))


@pytest.mark.both
@pytest.mark.proves("I19")
def test_the_first_yes_is_kept_and_the_second_carries_it_out(tiered: Tiered) -> None:
    request = tiered.ask()
    sharing.claim(escalation_id=request.pk, by=tiered.finn, at=timezone.now())

    assert say_yes(request, tiered.finn, 100_000) == "open"
    assert still_waits(request)
    assert go(request.run).state == "waiting"
    assert say_yes(request, tiered.faye, 100_000) == "adjusted"

    run = go(request.run)
    assert payments(run) == [100_000]
    assert events_of(run, "approval.given", "escalation.decided") == [
        ("approval.given", "finn"),
        ("escalation.decided", "faye"),
    ]
    call_command("verify_audit")


def test_another_amount_restarts_the_approval(tiered: Tiered) -> None:
    request = tiered.ask()

    say_yes(request, tiered.finn)
    assert say_yes(request, tiered.faye, 90_000) == "open"
    assert say_yes(request, tiered.faye, 90_000) == "two_people"
    assert say_yes(request, tiered.finn, 90_000) == "adjusted"

    assert payments(go(request.run)) == [90_000]
    assert Approval.objects.filter(escalation=request).count() == 2


@pytest.mark.parametrize("again", [None, 100_000], ids=["the same", "another amount"])
def test_one_person_is_never_both(tiered: Tiered, again: int | None) -> None:
    request = tiered.ask()
    say_yes(request, tiered.finn)

    assert say_yes(request, tiered.finn, again) == "two_people"

    assert still_waits(request)


@pytest.mark.proves("I19")
def test_who_launched_the_run_or_the_one_it_repeats_is_neither(tiered: Tiered) -> None:
    scene, at = tiered.scene, timezone.now()
    put_tiers(scene, tiered.ada, TIERS, four_eyes=False)
    first = tiered.ask()
    decide_request(first, tiered.finn, approve=False, comment="not now")
    go(first.run)
    members.set_role(workspace=scene.workspace, user=scene.omar, role=Role.REVIEWER, at=at)
    members.set_team(workspace=scene.workspace, slug="finance", add=[scene.omar, tiered.ada], at=at)

    run = go(launching.launch_again(run_id=first.run_id, by=tiered.ada, at=at))

    request = Escalation.objects.get(run=run)
    assert [say_yes(request, who) for who in (scene.omar, tiered.ada)] == ["four_eyes"] * 2


@pytest.mark.parametrize("who", ["finn", "faye"])
def test_a_no_of_either_ends_it(tiered: Tiered, who: str) -> None:
    request = tiered.ask()
    say_yes(request, tiered.finn)

    by = {"finn": tiered.finn, "faye": tiered.faye}[who]
    decide_request(request, by, approve=False, comment="no")

    assert go(request.run).state == "stopped"
    assert payments(request.run) == []


@pytest.mark.both
def test_silence_after_the_first_yes_is_a_no(tiered: Tiered) -> None:
    request = tiered.ask()
    say_yes(request, tiered.finn)
    Escalation.objects.filter(pk=request.pk).update(
        expires_at=timezone.now() - timedelta(seconds=1)
    )

    sweep()

    assert say_yes(request, tiered.faye) == "late"
    assert (go(request.run).state, payments(request.run)) == ("stopped", [])


@pytest.mark.both
@pytest.mark.proves("I19")
@pytest.mark.parametrize("how", ["no reviewer", "not of the team", "not active", "a lower limit"])
def test_a_first_yes_that_no_longer_passes_falls_away(tiered: Tiered, how: str) -> None:
    request, scene, at = tiered.ask(), tiered.scene, timezone.now()
    say_yes(request, tiered.finn)
    given = Escalation.objects.get(pk=request.pk).approval_id
    about: dict[str, Any] = {"workspace": scene.workspace, "user": tiered.finn, "at": at}
    if how == "no reviewer":
        members.set_role(role=Role.VIEWER, **about)
    elif how == "not of the team":
        tiered.drop(tiered.finn)
    elif how == "not active":
        User.objects.filter(pk=tiered.finn.pk).update(is_active=False)
    else:
        members.set_limit(limit_minor=1000, desk="refunds", currency="USD", **about)

    assert say_yes(request, tiered.faye, approval=given) == "approval_lapsed"

    assert still_waits(request)
    assert request.approval_id is None
    assert events_of(request.run, "approval.given", "approval.lapsed")[-1] == (
        "approval.lapsed",
        "",
    )
    assert say_yes(request, tiered.faye) == "open"
    assert payments(go(request.run)) == []


@pytest.mark.proves("I19")
def test_what_the_second_was_not_shown_they_do_not_decide(tiered: Tiered) -> None:
    request = tiered.ask()

    assert say_yes(request, tiered.finn, approval=0) == "open"
    assert say_yes(request, tiered.faye, approval=0) == "stale"
    request.refresh_from_db()
    shown = request.approval_id
    assert say_yes(request, tiered.faye, 90_000, approval=shown) == "open"
    assert say_yes(request, tiered.finn, approval=shown) == "stale"
    assert say_yes(request, tiered.finn, 90_000, action_sha256="0" * 64) == "stale"
    assert still_waits(request)


def test_nobody_below_the_tier_says_yes_and_anybody_says_no(tiered: Tiered) -> None:
    request, between = tiered.ask(), tiered.ask(BELOW)

    for below in (tiered.scene.rita, tiered.ada, tiered.lena):
        assert say_yes(request, below, 10_000) == "above_tier"
    assert say_yes(between, tiered.scene.rita, 10_000) == "above_tier"
    assert say_yes(between, tiered.finn) == "approved"
    decide_request(request, tiered.lena, approve=False, comment="no")
    assert go(request.run).state == "stopped"


def test_pinned_tiers_outlive_new_ones(tiered: Tiered) -> None:
    request = tiered.ask()

    put_tiers(tiered.scene, tiered.ada, None)

    assert say_yes(request, tiered.scene.rita, 10_000) == "above_tier"
    assert say_yes(request, tiered.finn) == "open"
    assert say_yes(tiered.ask(BELOW), tiered.scene.rita, 10_000) == "adjusted"


@pytest.mark.both
def test_a_first_yes_counts_towards_the_own_limit_of_who_gave_it(tiered: Tiered) -> None:
    members.set_limit(
        workspace=tiered.scene.workspace,
        user=tiered.finn,
        desk="refunds",
        currency="USD",
        limit_minor=150_000,
        at=timezone.now(),
    )
    request, another = tiered.ask(), tiered.ask()
    Escalation.objects.filter(pk=another.pk).update(resource=request.resource)
    say_yes(request, tiered.finn)
    own = Run.objects.get(pk=request.run_id).book_id
    Run.objects.filter(pk=another.run_id).update(book=own)

    assert say_yes(another, tiered.finn) == "above_own_limit"


@pytest.mark.both
@pytest.mark.proves("I29")
def test_silent_tier_passes_on_and_the_last_expires(tiered: Tiered) -> None:
    request = tiered.ask(BELOW)
    assert (request.tier, str(request.assigned_team)) == (1, "Leads")
    due, waiting = timezone.now(), Escalation.objects.filter(pk=request.pk)
    waiting.update(climbs_at=due, expires_at=due)
    assert not climb(request.pk, at=due)  # nobody is asked what has expired
    waiting.update(expires_at=request.expires_at)

    sweep(), sweep()

    request.refresh_from_db()
    assert (request.tier, request.climbs_at, str(request.assigned_team)) == (2, None, "Finance")
    assert events_of(request.run, "escalation.assigned") == [("escalation.assigned", "")]
    assert say_yes(request, tiered.lena) == "approved"  # the amount is still within her tier


def test_while_a_switch_stands_nobody_is_passed_over(tiered: Tiered) -> None:
    request, workspace, at = tiered.ask(BELOW), tiered.scene.workspace, timezone.now()
    asked: dict[str, Any] = {"workspace": workspace, "by": tiered.ada, "reason": "a drill"}
    kill_switch.kill(**asked, at=at)
    before = Escalation.objects.get(pk=request.pk)
    Escalation.objects.filter(pk=request.pk).update(climbs_at=at)

    sweep()
    assert not climb(request.pk, at=at)  # found by a sweeper before the press
    kill_switch.release(**asked, to=SwitchStage.TRIAL, at=at + timedelta(minutes=5))
    kill_switch.release(**asked, to=SwitchStage.OFF, at=at + timedelta(minutes=5))

    request.refresh_from_db()
    assert request.tier == before.tier == 1
    assert request.climbs_at == at + timedelta(minutes=5)


@pytest.mark.both
def test_an_approval_stays_as_it_was_given(tiered: Tiered) -> None:
    say_yes(tiered.ask(), tiered.finn, 90_000)
    approval = Approval.objects.get()
    changes: list[dict[str, Any]] = [
        {"granted_minor": 1},
        {"by_id": tiered.faye.pk},
        {"comment": ""},
        {"patch": {"amount_minor": 1}},
        {"action_sha256": ""},
    ]
    for change in changes:
        with pytest.raises(IntegrityError), transaction.atomic():
            Approval.objects.filter(pk=approval.pk).update(**change)
    with pytest.raises(DatabaseError), transaction.atomic():
        Approval.objects.all()._raw_delete("default")


@pytest.mark.breaks("I19", "I33")
def test_a_decision_whose_first_yes_was_taken_away_is_found(tiered: Tiered) -> None:
    request = tiered.ask()
    say_yes(request, tiered.finn)
    Escalation.objects.filter(pk=request.pk).update(approval=None)

    with pytest.raises((SystemExit, CommandError)):
        call_command("verify_audit")


@pytest.mark.proves("I19")
def test_command_shows_the_first_approval_and_repeats_it(tiered: Tiered) -> None:
    request = tiered.ask()
    pk = str(request.pk)

    first = command("decide", pk, "--approve", "--amount", "1000", "--reason", "x", "--as", "finn")
    again = command("decide", pk, "--approve", "--as", "finn")
    second = command("decide", pk, "--approve", "--as", "faye")

    assert (first.code, again.code, second.code) == (0, 3, 0)
    assert "open: 1 of 2: finn approved USD 1,000.00, changed. It waits" in first.out
    assert "You have approved this already." in again.err
    assert "1 of 2: finn approved USD 1,000.00, changed at " in second.out
    assert f"request {pk} adjusted: USD 1,000.00" in second.out
    assert payments(go(request.run)) == [100_000]


def test_simulated_person_is_only_the_first_of_two(tiered: Tiered) -> None:
    put_tiers(tiered.scene, tiered.ada, {"refunds": {"USD": [{"people": 2}]}})
    slug, goal = tiered.scene.workspace.slug, "User Anna (user_id=42) requests a refund of 1200 USD"

    asked = ["supervisor", "--goal", goal, "--subject", "42", "--workspace", slug]
    ended = command("run_pattern", *asked, "--actor", "omar", "--human", "as-is")

    request = Escalation.objects.get()
    assert ended.code == 4  # it waits for a person
    assert f"request {request.pk} takes two: the simulated person was the first" in ended.err
    assert still_waits(request)
    assert say_yes(request, tiered.finn) == "approved"


def test_tool_can_require_two_people(tiered: Tiered, monkeypatch: pytest.MonkeyPatch) -> None:
    put_tiers(tiered.scene, tiered.ada, None)
    monkeypatch.setitem(TOOLS, "issue_refund", replace(TOOLS["issue_refund"], people=2))
    request = tiered.ask()

    assert say_yes(request, tiered.scene.rita, 50_000) == "open"
    assert say_yes(request, tiered.scene.rita, 50_000) == "two_people"
    assert say_yes(request, tiered.lena, 50_000) == "adjusted"
    assert payments(go(request.run)) == [50_000]


def test_request_goes_to_possible_approvers_first(tiered: Tiered) -> None:
    request, at = tiered.ask(), timezone.now()

    def try_assign(user: User) -> str:
        try:
            sharing.assign(escalation_id=request.pk, by=tiered.ada, to_user=user, at=at)
        except refusal.Refused as no:
            return no.code
        return "assigned"

    assert [try_assign(one) for one in (tiered.scene.rita, tiered.lena)] == ["no_receiver"] * 2
    say_yes(request, tiered.finn)
    assert [try_assign(one) for one in (tiered.finn, tiered.faye)] == ["no_receiver", "assigned"]
    tiered.drop(tiered.faye)
    assert try_assign(tiered.scene.rita) == "assigned"  # nobody may approve; she may reject
