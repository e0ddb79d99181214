"""Decide an escalation."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from django.contrib.auth.models import User
from django.db import transaction
from django.db.models import Q, QuerySet
from django.db.models.functions import Now

from agents.core.actions import MAX_TEXT
from agents.core.decision import settled_by
from agents.core.effects import Json
from agents.core.money import spoken
from agents.core.states import EscalationState
from agents.driver import at_once, together
from agents.engine.answering import answer, expire
from agents.engine.crashpoints import crashpoint
from agents.engine.facts import asked_facts
from agents.engine.redaction import redacted_for
from agents.models import Escalation, Membership, PolicyVersion, Role, Run, Step, Workspace
from agents.models.event import Entry, append
from agents.operations.claiming import Claimed, is_kept_from
from agents.operations.refusal import Refused, allowed, check_text, members
from agents.policies import review
from agents.prepared import Given, Rows, Update

MAX_COMMENT = 2000  # characters
OF_OUTPUT = ("output", "question")  # kinds that a person may send back with a correction


class AlreadyDecided(Exception):
    """Somebody answered this escalation first, or its time is over."""

    def __init__(self, escalation: Escalation) -> None:
        super().__init__(f"escalation {escalation.pk} is {escalation.state}")
        self.escalation = escalation


_CODES: dict[type[Exception], str] = {AlreadyDecided: "already_decided", Claimed: "claimed"}


@dataclass(frozen=True)
class _Answer:
    """What the person wants."""

    approve: bool
    amount_minor: int | None
    comment: str
    correction: str


def decide(
    *,
    escalation_id: int,
    by: User,
    approve: bool,
    at: datetime,
    amount_minor: int | None = None,
    comment: str = "",
    correction: str = "",
    action_sha256: str | None = None,
) -> Escalation:
    """Answer an escalation and queue its run. Raises Refused, AlreadyDecided, Claimed.

    `amount_minor` lowers a refund; nothing else of an action can be changed. `correction` has
    a workflow's step run once more with these words, instead of letting its output stand; of a
    letter it is the text that is sent in its place.
    `action_sha256`, if given, is of the action the person saw: a decision about anything else
    is refused.
    """
    wanted = _Answer(approve, amount_minor, comment.strip(), correction.strip())
    try:
        with transaction.atomic():
            decided = _decide(escalation_id, by, wanted, action_sha256, at)
    except (Refused, AlreadyDecided, Claimed) as no:
        why = no.code if isinstance(no, Refused) else _CODES[type(no)]
        record_refusal(escalation_id=escalation_id, by=by, why=why, at=at)
        if isinstance(no, AlreadyDecided) and no.escalation.state == EscalationState.OPEN:
            expire(escalation_id, at=at)
            no.escalation.state = EscalationState.EXPIRED
        raise
    crashpoint("decide.after_commit")
    return decided


def _decide(pk: int, by: User, wanted: _Answer, seen: str | None, at: datetime) -> Escalation:
    # The run's row first, as everyone else takes it: then decisions and the engine queue up.
    escalation, steps, found = _locked(pk, by)
    person = allowed(found, escalation.workspace, by, Role.REVIEWER, Role.ADMIN)
    if escalation.state != EscalationState.OPEN:
        raise AlreadyDecided(escalation)
    if is_kept_from(escalation, by, at=at):
        raise Claimed(escalation)
    _check_person(escalation, person, wanted)
    if seen is not None and seen != escalation.action_sha256:
        raise Refused("stale", "The action has changed since you opened it. Load the page again.")
    granted = _granted(escalation, steps, person, wanted, at) if wanted.approve else None
    comment, correction = redacted_for(escalation.run, [wanted.comment, wanted.correction])
    wanted = replace(wanted, comment=comment, correction=correction)
    with escalation.run.recording(at=at):
        _take(escalation, by, person, wanted, granted, at)
    return escalation


def _locked(pk: int, by: User) -> tuple[Escalation, list[Step], list[Membership]]:
    """Lock the run of an escalation; return both as they then are, and who `by` is there.

    Raises DoesNotExist.
    """
    with together():
        run, policy = _RUN.sent(pk=pk), _POLICY.sent(pk=pk)
        escalation, steps = _ESCALATION.sent(pk=pk), _STEPS.sent(pk=pk)
        workspace, member = _WORKSPACE.sent(pk=pk), _MEMBER.sent(pk=pk, user=by.pk)
    found = next(iter(escalation()), None)
    if found is None:
        raise Escalation.DoesNotExist
    [found.run], [found.workspace] = run(), workspace()
    [found.run.policy] = policy()
    by_key = {step.pk: step for step in steps()}
    found.step = by_key[found.step_id]
    return found, list(by_key.values()), member()


def _own(column: str) -> QuerySet[Escalation, Any]:
    """Return what a column of the escalation names, for a query that is sent beside its own."""
    return Escalation.objects.filter(pk=Given("pk")).values(column)


_ESCALATION = Rows(lambda: Escalation.objects.filter(pk=Given("pk")))
_RUN = Rows(lambda: Run.objects.filter(pk__in=_own("run")).select_for_update())
_POLICY = Rows(lambda: PolicyVersion.objects.filter(pk__in=_own("run__policy")))
_STEPS = Rows(lambda: Step.objects.filter(run__in=_own("run")).order_by("position"))
_WORKSPACE = Rows(lambda: Workspace.objects.filter(pk__in=_own("workspace")))
_MEMBER = Rows(lambda: members(Given("user")).filter(workspace__in=_own("workspace")))


def _check_person(escalation: Escalation, person: Membership, wanted: _Answer) -> None:
    """Refuse who may not decide this, and what is no answer. Raises Refused."""
    limits = escalation.run.policy.limits().of(escalation.run.pattern)
    if limits.four_eyes and escalation.run.launched_by_id == person.user_id:
        raise Refused(
            "four_eyes", "You launched this run, so somebody else has to decide about it."
        )
    if person.is_simulated and not escalation.workspace.is_demo:
        raise Refused("simulated", "A simulated person decides only in a demo workspace.")
    if not wanted.approve and not wanted.comment:
        raise Refused("no_reason", "Say why you reject it; the agent and the record need it.")
    check_text(wanted.comment, most=MAX_COMMENT)
    if wanted.correction and (escalation.kind not in OF_OUTPUT or not wanted.approve):
        raise Refused("no_correction", "Only an output of a step can be corrected and run again.")
    is_letter = escalation.action["kind"] == "tool"
    check_text(wanted.correction, most=MAX_TEXT if is_letter else MAX_COMMENT)


def _granted(
    escalation: Escalation, steps: list[Step], person: Membership, wanted: _Answer, at: datetime
) -> int | None:
    """Return the amount the person allows, once the policy has judged it too. Raises Refused."""
    if escalation.kind != "action" or escalation.requested_minor is None:
        if wanted.amount_minor is not None:
            raise Refused("no_amount", "This escalation is not about an amount.")
        return None
    amount = escalation.requested_minor if wanted.amount_minor is None else wanted.amount_minor
    limits = escalation.run.policy.limits().of(escalation.run.pattern)
    action = {
        **escalation.action,
        "args": {**escalation.action["args"], "amount_minor": amount},
    }
    facts, _ = at_once(asked_facts, escalation.run, action, limits, steps, at=at, lock=True)
    if amount < 1:
        raise Refused("too_little", f"The least that can be refunded is {spoken(1)}.")
    judged = review(action, facts, limits, settled=settled_by(escalation.review))
    # A new reason to ask is no reason to refuse: the run will put it as a new question.
    if judged.decision == "block" or judged.action != action:
        raise Refused("policy", f"The policy stops this. {judged.deciding.sentence}")
    _check_amount(amount, escalation, person)
    return amount


def _check_amount(amount: int, escalation: Escalation, person: Membership) -> None:
    """Refuse an amount that this person cannot grant here. Raises Refused."""
    limit, asked = person.refund_limit_minor, escalation.requested_minor or 0
    if amount > asked:
        raise Refused(
            "above_request",
            f"{spoken(amount)} is more than the {spoken(asked)} that was asked for; you can only "
            "lower it.",
        )
    if limit is not None and amount > limit:
        raise Refused(
            "above_own_limit",
            f"{spoken(amount)} is above your own limit of {spoken(limit)}. Grant at most that, "
            "or leave it to somebody with a higher limit.",
        )


def _take(
    escalation: Escalation,
    by: User,
    person: Membership,
    wanted: _Answer,
    granted: int | None,
    at: datetime,
) -> None:
    """Make the decision, if nobody was first: the UPDATE decides. Raises AlreadyDecided."""
    state = _state(escalation, wanted, granted)
    columns = {
        "state": state,
        "decided_by": by,
        "decided_at": at,
        "granted_minor": granted,
        "comment": wanted.comment,
        "is_simulated": person.is_simulated,
    }
    if not _DECIDE(pk=escalation.pk, **{**columns, "decided_by": by.pk}):
        raise AlreadyDecided(Escalation.objects.select_related("decided_by").get(pk=escalation.pk))
    for name, value in columns.items():
        setattr(escalation, name, value)
    reply: dict[str, Json] = {
        "decision": state.value,
        "granted_minor": granted,
        "revised": wanted.amount_minor is not None or bool(wanted.correction),
        "comment": wanted.comment,
        "by": by.get_username(),
        "simulated": person.is_simulated,
        **({"correction": wanted.correction} if wanted.correction else {}),
    }
    facts = {"escalation": escalation.pk, "key": escalation.step.key, **reply}
    escalation.run.say("escalation.decided", at=at, facts=facts, actor=by.get_username())
    answer(escalation, reply, at=at)


_DECIDE = Update(
    lambda: Escalation.objects.filter(
        Q(expires_at__gt=Now()) | Q(frozen_at__isnull=False),
        pk=Given("pk"),
        state=EscalationState.OPEN,
    ),
    state=Given("state"),
    decided_by=Given("decided_by"),
    decided_at=Given("decided_at"),
    granted_minor=Given("granted_minor"),
    comment=Given("comment"),
    is_simulated=Given("is_simulated"),
)


def _state(escalation: Escalation, wanted: _Answer, granted: int | None) -> EscalationState:
    if not wanted.approve:
        return EscalationState.REJECTED
    if wanted.correction:
        return EscalationState.ADJUSTED
    lowered = granted is not None and granted < (escalation.requested_minor or 0)
    return EscalationState.ADJUSTED if lowered else EscalationState.APPROVED


@transaction.atomic
def record_refusal(*, escalation_id: int, by: User, why: str, at: datetime) -> None:
    """Put a decision on record that was refused, here or because its form is none of ours."""
    escalation = Escalation.objects.select_related("run").get(pk=escalation_id)
    facts = {"escalation": escalation_id, "why": why}
    said = Entry("decision.refused", facts, by.get_username())
    append([said], run=escalation.run, workspace_id=escalation.workspace_id, at=at)
