"""The rows that pages show, with the columns that the record tells of."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from uuid import UUID

from django.db.models import Exists, OuterRef

from agents.audit.told import REPLY, Row, Rows
from agents.core.digest import sha256
from agents.core.kinds import EFFECT_UNKNOWN
from agents.core.requests import Json
from agents.desks.refunds.models import Refund, SentMail
from agents.desks.refunds.models.mail import MailState
from agents.desks.refunds.models.refund import RefundState
from agents.models import Effect, Escalation, KillSwitch, Membership, PolicyVersion, Run, Workspace

IN_DESK = {"issue_refund", "send_refund_email", "send_reply"}  # write to the desk's books
REPLAYED = "reference"  # a policy under which recorded cases exchange what tools answer


def rows_of_runs(runs: Collection[Run]) -> dict[UUID, Rows]:
    """Return the rows of each run by their names, in a fixed number of queries."""
    found: dict[UUID, Rows] = {run.pk: {"run": _run(run)} for run in runs}
    erased = {run.pk for run in runs if run.erased_at}
    replayed = {run.pk for run in runs if run.policy.document.get("profile") == REPLAYED}
    escalations = Escalation.objects.filter(run__in=runs).select_related("decided_by", "step")
    for escalation in escalations.order_by("pk"):
        row = _escalation(escalation, escalation.run_id in erased)
        found[escalation.run_id][f"escalation {escalation.pk}"] = row
    effects = list(Effect.objects.filter(run__in=runs).order_by("pk"))
    keys = [effect.key for effect in effects]
    refunds = {one.key: one for one in Refund.objects.filter(key__in=keys)}
    mails = {one.key: one for one in SentMail.objects.filter(key__in=keys)}
    for effect in effects:
        row = _effect(effect, effect.run_id in erased)
        refund, mail = refunds.get(effect.key), mails.get(effect.key)
        if refund:
            row["paid_minor"] = refund.amount_minor
        if mail:
            row |= _mail(effect, mail, effect.run_id in erased)
        if effect.run_id not in replayed and effect.tool in IN_DESK:
            paid, sent = refund and refund.state, mail and mail.state
            row["took_place"] = paid == RefundState.PAID or sent == MailState.SENT
        found[effect.run_id][f"effect {effect.key}"] = row
    return found


def rows_of_workspace(workspace: Workspace) -> Rows:
    """Return the rows of a workspace itself: policies, people, switches."""
    policy = workspace.policy
    rows: Rows = {"workspace": {"policy": policy.number if policy else None}}
    for version in PolicyVersion.objects.filter(workspace=workspace).order_by("number"):
        rows[f"policy {version.number}"] = {"sha256": sha256(version.document)}
    members = Membership.objects.filter(workspace=workspace).select_related("user")
    for member in members.order_by("pk"):
        rows[f"member {member.user.get_username()}"] = {
            "role": member.role,
            "refund_limit_minor": member.refund_limit_minor,
            "desk_limits": member.desk_limits,
        }
    for switch in KillSwitch.objects.filter(workspace=workspace).order_by("pk"):
        rows[f"kill switch {switch}"] = {"stage": switch.stage.value}
    return rows


def without_intent() -> Iterator[str]:
    """Yield what was paid or sent by a key of some run that no effect has."""
    mine = Effect.objects.filter(key=OuterRef("key"))
    for model, name in ((Refund, "refund"), (SentMail, "mail")):
        lost = model._default_manager.filter(~Exists(mine)).order_by("pk")
        for key in lost.values_list("key", flat=True).iterator():
            if ":" in key:  # others are none of a run
                yield f"{name} {key}"


def _run(run: Run) -> Row:
    row: Row = {
        "launched_by": run.launched_by.get_username(),
        "pattern": run.pattern,
        "subject": run.subject,
        "desk": run.desk,
        "policy": run.policy.number,
        "model": run.model,
        "state": run.state,
        "ended_at": run.ended_at,
        "stop_reason": run.stop_reason,
        "erased": run.erased_at is not None,
    }
    if run.erased_at:
        return row
    return {**row, "goal_sha256": sha256(run.goal), "subject_key": run.subject_key}


def _escalation(escalation: Escalation, is_erased: bool) -> Row:
    by, reply = escalation.decided_by, escalation.step.reply
    row: Row = {
        "kind": escalation.kind,
        "key": escalation.step.key,
        "state": escalation.state,
        "requested_minor": escalation.requested_minor,
        "decided_by": by.get_username() if by else "",
        "decided_from": escalation.decided_from,
        "decided_at": escalation.decided_at,
        "is_simulated": escalation.is_simulated,
        "granted_minor": escalation.granted_minor,
        "not_carried_out": escalation.not_carried_out,
    }
    if is_erased:
        return row
    if escalation.kind != EFFECT_UNKNOWN.stored:  # whose reply is what became of the call
        given = reply if isinstance(reply, dict) else {}
        row |= {f"reply_{name}": given.get(name, blank) for name, blank in REPLY.items()}
    row |= {"comment": escalation.comment}
    return row | _digest("action_sha256", escalation.action)


def _effect(effect: Effect, is_erased: bool) -> Row:
    row: Row = {"tool": effect.tool, "amount_minor": effect.amount_minor, "state": effect.state}
    row |= {"currency": effect.currency}
    return row if is_erased else row | _digest("args_sha256", _action(effect, effect.args))


def _mail(effect: Effect, mail: SentMail, is_erased: bool) -> Row:
    row: Row = {"mailed_minor": mail.amount_minor}
    if is_erased or not isinstance(effect.args, dict) or "message" not in effect.args:
        return row
    return row | _digest("mailed_sha256", _action(effect, {**effect.args, "message": mail.body}))


def _action(effect: Effect, args: Json) -> Json:
    return {"kind": "tool", "name": effect.tool, "args": args}


def _digest(name: str, value: Json) -> Row:
    """Return a column with the digest of a value: one with a fraction too, or adding one hides."""
    return {name: sha256(value)}
