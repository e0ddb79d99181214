"""Rows that pages show agree with the record."""

from collections.abc import Callable
from copy import deepcopy
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db.models import QuerySet
from django.utils import timezone

from agents.audit import erasing
from agents.core.notifications import Hours, Kind, Mode
from agents.desks.refunds.models import Charge, Refund, SentMail
from agents.models import (
    Effect,
    Escalation,
    KillSwitch,
    Membership,
    NotificationPreference,
    PolicyVersion,
    Role,
    Run,
    Shape,
    Step,
    Webhook,
    Workspace,
)
from agents.notifications import fan_out
from agents.notifications.channels.webhooks import admin
from agents.requests import sharing
from agents.runs import kill_switch
from tests.audit.test_record import unseen
from tests.commands.test_run_pattern import command
from tests.database import make_once
from tests.demo_book import open_demo_book
from tests.engine.scene import Scene, go
from tests.settings import ON_POSTGRES

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.both]


@pytest.fixture
def run(scene: Scene) -> Run:
    """A refund of 1,200 that Rita lowered to 800, paid and announced to the customer."""
    return make_once("lowered", lambda: lower_refund(scene))


def lower_refund(scene: Scene) -> Run:
    scene.add("ada", Role.ADMIN)
    waiting, at = go(scene.launch()), timezone.now()
    asked = Escalation.objects.get(run=waiting).pk
    for later in (0, 60):  # seconds; the second claim starts over
        sharing.claim(escalation_id=asked, by=scene.rita, at=at + timedelta(seconds=later))
    scene.decide(waiting)
    return go(waiting)


def reasons() -> list[str]:
    ended = command("verify_audit", "--json")
    assert ended.code == (3 if ended.document["faults"] else 0)
    return [f"{fault['chain']}: {fault['why']}" for fault in ended.document["faults"]]


def ada() -> User:
    return User.objects.get(username="ada")


def verdict(run: Run) -> None:
    Escalation.objects.filter(run=run).update(state="approved")


def question(run: Run) -> None:
    escalation = Escalation.objects.get(run=run)
    escalation.action["args"]["reason"] = "something harmless"
    escalation.save()


def question_with_fraction(run: Run) -> None:
    escalation = Escalation.objects.get(run=run)
    escalation.action["args"] |= {"reason": "something harmless", "x": 0.5}
    escalation.save()


def answer(**given: Any) -> Callable[[Run], None]:
    """Return a function that changes only the reply given to the run."""

    def change(run: Run) -> None:
        step = Step.objects.get(run=run, kind="escalate")
        step.reply = {**(step.reply or {}), **given}
        step.save()

    change.__name__ = f"answer_{'_'.join(given)}"
    return change


def approval_undone(run: Run) -> None:
    """Free the amount from the reviewer's own limit, with the code of the run's end."""
    Escalation.objects.filter(run=run).update(not_carried_out=run.stop_reason)


def another_currency(run: Run) -> None:
    for model in (Effect, Refund, SentMail):
        model._default_manager.update(currency="EUR")


def claim_kept(run: Run) -> None:
    Escalation.objects.filter(run=run).update(claimed_until=timezone.now() + timedelta(days=365))


def claim_taken(run: Run) -> None:
    Escalation.objects.filter(run=run).update(claimed_by=ada())


def claim_dropped(run: Run) -> None:
    Escalation.objects.filter(run=run).update(claimed_by=None, claimed_until=None)


def charge_of_the_approval(run: Run) -> None:
    """Free the amount from the reviewer's own limit on the charge."""
    Escalation.objects.filter(run=run).update(resource="another")


def book(run: Run) -> None:
    Run.objects.filter(pk=run.pk).update(book=open_demo_book(at=timezone.now()))


def answer_gone(run: Run) -> None:
    Step.objects.filter(run=run, kind="escalate").update(reply=None)


def end(run: Run) -> None:
    Run.objects.filter(pk=run.pk).update(stop_reason="cancelled")


def refund_gone(run: Run) -> None:
    Charge.objects.update(refunded_minor=0)
    Refund.objects.all().delete()


def refund_released(run: Run) -> None:
    Refund.objects.update(state="released", paid_at=None, released_at=timezone.now())


def refund_gone_under_a_mail(run: Run) -> None:
    key = Refund.objects.get().key
    refund_gone(run)
    letter = SentMail.objects.get()
    letter.pk, letter.key, letter.reference = None, key, "em_forged"
    letter.save()


def mail_gone(run: Run) -> None:
    SentMail.objects.all().delete()


def arguments(run: Run) -> None:
    found = Effect.objects.get(run=run, tool="issue_refund")
    found.args["user_id"] = 7
    found.save()


def arguments_with_fraction(run: Run) -> None:
    found = Effect.objects.get(run=run, tool="issue_refund")
    found.args |= {"user_id": 7, "x": 0.5}
    found.save()


def arguments_of_another_type(run: Run) -> None:
    Effect.objects.filter(run=run).update(args=[1])


def effect_gone(run: Run) -> None:
    Effect.objects.filter(run=run, tool="send_refund_email").delete()


def decided_later(run: Run) -> None:
    Escalation.objects.filter(run=run).update(decided_at=datetime(2026, 3, 1, 9, tzinfo=UTC))


def outcome(run: Run) -> None:
    Effect.objects.filter(run=run, tool="issue_refund").update(state="refused")


def policy(run: Run) -> None:
    version = PolicyVersion.objects.get(pk=run.policy_id)
    version.document = deepcopy(version.document)  # a process shares what it has read
    version.document["desks"]["refunds"]["limits"]["auto_limit_minor"] = 10**9
    version.save()


def own_limit(run: Run) -> None:
    Membership.objects.filter(user__username="rita").update(desk_limits={})


def grants(run: Run) -> None:
    Membership.objects.filter(user__username="rita").update(grants="none")


def role(run: Run) -> None:
    Membership.objects.filter(user__username="eve").update(role=Role.ADMIN)


TAMPERED = {
    verdict: "state is 'approved'; the record says 'adjusted'",
    question: "action_sha256 is ",
    question_with_fraction: "action_sha256 is ",
    answer(by="ada"): "reply_by is 'ada'; the record says 'rita'",
    answer(decision="approved"): "reply_decision is 'approved'; the record says 'adjusted'",
    answer(comment="all of it"): "reply_comment is 'all of it'; the record says 'partly used'",
    answer(revised=False): "reply_revised is False; the record says True",
    answer(granted_minor=120000): "reply_granted_minor is 120000; the record says 80000",
    answer(simulated=True): "reply_simulated is True; the record says False",
    answer(correction="pay it all"): "reply_correction is 'pay it all'; the record says ''",
    approval_undone: "not_carried_out is 'success'; the record says ''",
    another_currency: "its currency is 'EUR'; the record says 'USD'",
    claim_kept: "claimed_until is '",
    claim_taken: "claimed_by is 'ada'; the record says 'rita'",
    claim_dropped: "claimed_by is ''; the record says 'rita'",
    charge_of_the_approval: "resource is 'another'; the record says ",
    book: "run: book is ",
    answer_gone: "reply_decision is None; the record says 'adjusted'",
    end: "stop_reason is 'cancelled'; the record says 'success'",
    refund_gone: "took_place is False; the record says True",
    refund_gone_under_a_mail: "took_place is False; the record says True",
    refund_released: "took_place is False; the record says True",
    mail_gone: "took_place is False; the record says True",
    arguments: "args_sha256 is ",
    arguments_with_fraction: "args_sha256 is ",
    arguments_of_another_type: "args_sha256 is ",
    effect_gone: "it is gone",
    decided_later: "decided_at is '2026-03-01T09:00:00+00:00'; the record says '20",
    outcome: "state is 'refused'; the record says 'done'",
    policy: "policy 1: sha256 is ",
    own_limit: "member rita: desk_limits is {}; the record says {'refunds': {'USD': 80000}}",
    grants: "member rita: grants is 'none'; the record says 'any'",
    role: "member eve: role is 'admin'; the record says 'viewer'",
}


def test_rows_that_nobody_touched_are_as_told(run: Run) -> None:
    assert reasons() == []


@pytest.mark.proves("I33")
@pytest.mark.skipif(ON_POSTGRES, reason="what is read is compared alike; see what nobody touched")
@pytest.mark.slow
@pytest.mark.breaks(*(f"I{number}" for number in range(1, 60)))
@pytest.mark.parametrize(
    ("tamper", "expected"), TAMPERED.items(), ids=[one.__name__ for one in TAMPERED]
)
def test_a_row_that_was_changed_is_named_with_both_values(
    run: Run, tamper: Callable[[Run], None], expected: str
) -> None:
    unseen(tamper, run)

    found = reasons()

    assert any(expected in reason for reason in found), found
    assert any(tamper in (policy, own_limit, grants, role) or str(run.pk) in one for one in found)


def test_a_switch_that_was_released_by_sql_is_named(scene: Scene, run: Run) -> None:
    kill_switch.kill(workspace=scene.workspace, by=ada(), reason="a test", at=timezone.now())
    assert reasons() == []

    KillSwitch.objects.update(trial_at=timezone.now(), released_at=timezone.now())

    assert reasons() == [
        "workspace demo: kill switch workspace: stage is 'off'; the record says 'on'"
    ]


@pytest.mark.proves("I33")
def test_who_is_told_where_is_as_the_record_says(scene: Scene, run: Run) -> None:
    at, by = timezone.now(), ada()
    hours = Hours(quiet_from=1320, quiet_until=420)
    for one in (scene.rita, by):
        muted = {Kind.EXPIRING: Mode.OFF}
        fan_out.set_preference(
            workspace=scene.workspace, by=one, modes=muted, hours=hours, at=at, is_for_all=one == by
        )
    for name, url in (("ops", "https://hooks.example.com/s3cret"), ("old", "https://example.com")):
        webhook = admin.add_webhook(
            workspace=scene.workspace,
            by=by,
            name=name,
            url=url,
            shape=Shape.SLACK,
            kinds=[Kind.EXPIRED],
            at=at,
        )
    admin.remove_webhook(webhook=webhook, by=by, at=at)
    kept = Webhook.objects.filter(name="ops")
    admin.rotate_webhook(webhook=kept.get(), by=by, at=at + timedelta(minutes=1))
    assert reasons() == []

    tampered: list[tuple[QuerySet[Any], dict[str, Any], str]] = [
        (kept, {"url": "https://hooks.example.com/0ther"}, "webhook ops: url_sha256 is '"),
        (kept, {"url": "https://evil.example/s3cret"}, "webhook ops: host is 'evil.example'; "),
        (kept, {"kinds": []}, "webhook ops: kinds is []; the record says ['expired']"),
        (kept, {"shape": "json"}, "webhook ops: shape is 'json'; the record says 'slack'"),
        (kept, {"salted_at": at}, "webhook ops: salted_at is "),
        (kept, {"removed_at": at}, "webhook ops: it is gone"),
        (Webhook.objects.filter(name="old"), {"removed_at": None}, "old: no event records it"),
        (_OF_ALL, {"modes": {}}, "notifications: modes is {}; the record says {'expiring': 'off'}"),
        (_OF_RITA, {"hears_all": True}, "notifications rita: hears_all is True; the record says"),
        (_OF_RITA, {"channel": "mail"}, "notifications rita: channel is 'mail'; the record says"),
        (_OF_RITA, {"quiet_until": 0}, "notifications rita: quiet_until is 0; the record says 420"),
        (_OF_RITA, {"user": scene.eve}, "notifications eve: no event records it"),
    ]
    for rows, changed, expected in tampered:
        row = rows.model._default_manager.filter(pk=rows.get().pk)
        before = row.values(*changed).get()
        row.update(**changed)
        assert any(expected in why for why in reasons()), expected
        row.update(**before)
    assert reasons() == []


_OF_ALL = NotificationPreference.objects.filter(user=None)
_OF_RITA = NotificationPreference.objects.filter(user__username="rita")


@pytest.mark.breaks("I2", "I3")
def test_money_that_no_event_tells_of_is_named(run: Run) -> None:
    known = Refund.objects.get()
    key = f"{run.pk}:9/execute"
    fields: dict[str, Any] = {"charge": known.charge, "amount_minor": 1, "currency": "USD"}
    Refund.objects.create(**fields, key=key, reference="rf_1", state="held", held_at=timezone.now())

    assert reasons() == [f"issue_refund {key}: no event records it"]


def test_what_was_erased_is_compared_with_nothing(scene: Scene, run: Run) -> None:
    at = timezone.now()
    erasing.erase_subject(
        desk="refunds",
        workspace=scene.workspace,
        key="42",
        reason="asked for it",
        at=at,
        actor="ada",
    )
    assert reasons() == []


@pytest.mark.breaks("I32", "I37")
def test_a_run_that_says_it_was_erased_and_was_not_is_named(run: Run) -> None:
    def erase(run: Run) -> None:
        Run.objects.filter(pk=run.pk).update(erased_at=timezone.now())

    unseen(erase, run)

    assert f"run {run.pk}: run: erased is True; the record says False" in reasons()


@pytest.mark.breaks(*(f"I{number}" for number in range(1, 60)))
def test_foreign_effect_differs_from_an_unreadable_one(run: Run, scene: Scene) -> None:
    other = go(scene.launch()).steps.get(key="1/propose")
    row = Effect.objects.filter(run=run).first()
    assert row
    row.pk, row.key, row.step, row.review = None, f"{run.pk}:9/execute", other, other
    row.save(force_insert=True)

    found = [why for why in reasons() if f"effect {row.key}" in why]

    assert f"run {run.pk}: effect {row.key}: no event records it" in found


@pytest.mark.breaks("I2", "I3")
def test_a_workspace_that_no_event_tells_of_is_named(run: Run) -> None:
    book = open_demo_book(at=timezone.now())
    Workspace.objects.create(slug="us", name="US", book=book, created_at=timezone.now())

    assert reasons() == ["workspace us: workspace: no event records it"]
