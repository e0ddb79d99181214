"""Erase a subject: every text about it goes; numbers, keys and chains stay."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import datetime

from django.db import transaction
from django.db.models import Q, QuerySet

from agents.core.actions import has_hidden
from agents.core.requests import Json
from agents.core.states import ENDED, EffectState
from agents.core.units import with_unit
from agents.db.run_words import purge_words
from agents.db.sqlite import empty_log
from agents.engine.desk.subjects import forget, names_of
from agents.engine.kill_switch import keep_writes_out
from agents.engine.redaction import redact_in
from agents.models import (
    AgentCall,
    Approval,
    Effect,
    Escalation,
    Event,
    EventText,
    MaskedValue,
    Run,
    Step,
    Workspace,
)
from agents.models.record import Entry, append_events
from agents.operations.records.erasure_leftovers import ErasureLeftovers, find_leftovers
from agents.record.chain import ERASURE
from agents.sdk.adjustments import money_of
from agents.sdk.desk import DESKS
from agents.shell.refusal import Refused, check_text

MAX_REASON = 500  # characters
_UNSETTLED = (EffectState.INTENDED, EffectState.UNKNOWN)


@dataclass(frozen=True)
class Erasure:
    """The result of an erasure."""

    subject: str  # its name from now on
    runs: int  # erased now
    before: int  # erased earlier
    beyond: ErasureLeftovers = field(default_factory=ErasureLeftovers)


def erase_subject(
    *,
    workspace: Workspace,
    key: str,
    reason: str,
    at: datetime,
    actor: str,
    desk: str,
) -> Erasure:
    """Erase one subject of a workspace's desk from its books and all its runs. Raises Refused.

    `reason` is recorded for good and must name nobody. Repeating it erases later texts. Other
    subjects' texts that mention this one are not found; the result names what remains.
    """
    if not reason.strip() or has_hidden(reason):
        raise Refused(
            "no_reason", "Give a reason in one line without names: it stays in the audit log."
        )
    check_text(reason, most=MAX_REASON)
    reason = redact_in(workspace, reason.strip())
    if desk not in DESKS:
        raise Refused("unknown_desk", f"This process has no desk {desk!r}.")
    about = DESKS[desk]
    called = about.subject.nobody(key)
    with transaction.atomic():
        # Runs before the workspace, in the usual order: the holder of a run writes its record.
        runs = _runs_about(workspace, desk, key)
        list(runs.select_for_update().order_by("pk").values_list("pk"))
        keep_writes_out(workspace)
        # A concurrent launch commits after us, as its foreign key waits for this row.
        Workspace.objects.select_for_update().get(pk=workspace.pk)
        books = {workspace.book_id, *runs.values_list("book_id", flat=True)}
        _check_at_rest(runs, called)
        names = names_of(about, key, books=books)
        known = forget(about, key, books=books)
        if not known and not runs:
            raise Refused("unknown_subject", f"{workspace.name} knows no {called}.")
        before = runs.exclude(erased_at=None).count()
        still = list(runs.filter(erased_at=None).order_by("created_at", "pk"))
        for run in still:
            _erase_run(run, actor=actor, at=at)
        facts = {"desk": desk, "subject_key": key, "reason": reason, "runs": len(still)}
        append_events([Entry(ERASURE, facts, actor)], workspace_id=workspace.pk, at=at)
        purge_words()
        transaction.on_commit(empty_log)
    beyond = find_leftovers(workspace, runs, names=names)  # only reads, holding nobody up
    return Erasure(called, len(still), before, replace(beyond, books=known is None))


def _runs_about(workspace: Workspace, desk: str, key: str) -> QuerySet[Run]:
    """Return the runs about a subject, and runs without a subject that acted on it."""
    acted = Effect.objects.filter(subject_key=key).values("run")
    asked = Escalation.objects.filter(subject_key=key).values("run")
    unbound = Q(subject_key="") & (Q(pk__in=acted) | Q(pk__in=asked))
    ours = Run.objects.filter(workspace=workspace, desk=desk)
    return ours.filter(Q(subject_key=key) | unbound)


def _check_at_rest(runs: QuerySet[Run], called: str) -> None:
    """Refuse while a run or a write about the subject is open. Raises Refused."""
    going = runs.exclude(state__in=ENDED).count()
    if going:
        verb, whose = ("is", "its") if going == 1 else ("are", "their")
        raise Refused(
            "under_way",
            f"{with_unit(going, 'runs')} about {called} {verb} still going. Wait for {whose} end, "
            "or stop it first; nothing was erased.",
        )
    open_ones = Effect.objects.filter(run__in=runs, state__in=_UNSETTLED).count()
    if open_ones:
        raise Refused(
            "unsettled",
            f"Nobody can tell yet whether {with_unit(open_ones, 'writes')} for {called} "
            "took effect. Settle that on its run's page first; nothing was erased.",
        )


def _erase_run(run: Run, *, actor: str, at: datetime) -> None:
    """Empty every text of an ended run; states, amounts, times and counts stay."""
    # The row first, as everywhere; then the triggers let the rest pass.
    reason = run.stop_reason.partition(":")[0]
    Run.objects.filter(pk=run.pk).update(
        goal="",
        outcome=None,
        workflow={},
        simulation={},
        before=None,
        claims=None,
        stop_reason=reason,
        erased_at=at,
        has_values=False,
        subject_label=DESKS[run.desk].subject.nobody(run.subject_key) if run.subject_key else "",
    )
    for step in Step.objects.filter(run=run):
        _erase_step(step)
    for escalation in Escalation.objects.filter(run=run):
        escalation.action = _numbers(escalation.action)
        escalation.action_sha256 = escalation.comment = escalation.likeness = ""
        escalation.patch = None
        escalation.review = _ruling(escalation.review)
        emptied = ["action", "action_sha256", "comment", "likeness", "patch", "review"]
        escalation.save(update_fields=emptied)
    said = Event.objects.filter(run=run, kind="escalation.not_carried_out")
    for facts in said.values_list("facts", flat=True):  # what stays of them; once a whole reason
        mine = Escalation.objects.filter(pk=facts["escalation"])
        mine.update(not_carried_out=facts["reason"])
    Approval.objects.filter(run=run).update(action_sha256="", patch=None, comment="")
    for effect in Effect.objects.filter(run=run):
        effect.args, effect.args_sha256, effect.result = _amounts(effect.args), "", None
        effect.save(update_fields=["args", "args_sha256", "result"])
    AgentCall.objects.filter(run=run).update(asked=None)
    for call in AgentCall.objects.filter(run=run, reported__isnull=False):
        call.reported = {
            "executed": bool(call.reported and call.reported["executed"]),
            "result": {},
        }
        call.save(update_fields=["reported"])
    MaskedValue.objects.filter(run=run).delete()
    texts = EventText.objects.filter(event__run=run, erased_at=None)
    texts.update(text="", salt="", erased_at=at)
    run.say(ERASURE, at=at, facts={}, actor=actor)


def _erase_step(step: Step) -> None:
    """Empty a step's request and reply; a line on the record keeps its kind."""
    step.asked = {"kind": step.asked.get("kind")} if step.kind == "say" else {}
    step.reply, step.fingerprint = None, ""
    step.failed = step.failed.partition(":")[0]
    step.save(update_fields=["asked", "reply", "fingerprint", "failed"])


def _numbers(action: Json) -> Json:
    """Return an action reduced to its kind, tool and amounts."""
    kept = {name: action[name] for name in ("kind", "name") if name in action}
    return {**kept, "args": _amounts(action.get("args", {}))}


def _amounts(args: Json) -> Json:
    return {name: value for name, value in args.items() if type(value) is int or money_of(value)}


def _ruling(review: Json) -> Json:
    """Return a review reduced to the deciding rule, as its sentences and facts quote people."""
    deciding = review["deciding"]
    kept = {name: deciding[name] for name in ("verdict", "rule", "reason", "risk")}
    gone = {"sentence": "", "observed": None, "limit": None, "flip": ""}
    return {"escalating": review["escalating"], "deciding": {**kept, **gone}, "facts": {}}
