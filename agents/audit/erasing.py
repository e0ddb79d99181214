"""Erase a subject: every text about it goes; numbers, keys and chains stay."""

import re
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from itertools import groupby
from urllib.parse import unquote_plus
from uuid import UUID

from cryptography.fernet import InvalidToken
from django.db import transaction
from django.db.models import Exists, OuterRef, Q, QuerySet

from agents.core.json_forms import has_hidden
from agents.core.limits import BadPolicy
from agents.core.money import with_unit
from agents.core.redact import OFF
from agents.core.requests import ENDED, EffectState, Json
from agents.db.run_words import purge_words
from agents.db.sqlite import empty_log
from agents.engine.desk.subjects import forget, names_of
from agents.engine.kill_switch import keep_writes_out
from agents.engine.redaction import redact_in
from agents.models import (
    AgentCall,
    Approval,
    Archive,
    Effect,
    Escalation,
    Event,
    EventText,
    KillSwitch,
    MaskedValue,
    PolicyVersion,
    Run,
    SavedView,
    Step,
    Tombstone,
    Workspace,
)
from agents.models.runs import cipher
from agents.publishing.trials import forget_runs
from agents.record.event_kinds import without_texts
from agents.record.seals import ERASURE
from agents.sdk.adjustments import money_of
from agents.sdk.desk import DESKS
from agents.shell.refusal import Refused, check_text

_MAX_REASON = 500  # characters
_UNSETTLED = (EffectState.INTENDED, EffectState.UNKNOWN)
_TOGETHER = 500  # values in one transaction


@dataclass(frozen=True)
class Erasure:
    subject: str  # its name from now on
    runs: int  # erased now
    before: int  # erased earlier
    beyond: tuple[str, ...]  # a line for each kind of place that it did not reach


def erase_subject(
    *, workspace: Workspace, key: str, reason: str, at: datetime, actor: str, desk: str
) -> Erasure:
    """Erase one subject of a workspace's desk from its books and all its runs. Raises Refused.

    `reason` is recorded for good and must name nobody. Repeating it erases later texts. Other
    subjects' texts that mention this one are not found; the result names what remains.
    """
    if not reason.strip() or has_hidden(reason):
        raise Refused(
            "no_reason", "Give a reason in one line without names: it stays in the audit log."
        )
    check_text(reason, most=_MAX_REASON)
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
        workspace.say(ERASURE, at=at, facts=facts, actor=actor)
        forget_runs(runs, workspace.pk)
        purge_words()
        transaction.on_commit(empty_log)
    beyond = list(_leftovers(workspace, runs, names=names))  # only reads, holding nobody up
    if known is None:
        own = "the desk's own books: it does not say how it forgets, so its texts are as they were"
        beyond.insert(0, own)
    return Erasure(called, len(still), before, tuple(beyond))


def _runs_about(workspace: Workspace, desk: str, key: str) -> QuerySet[Run]:
    """Return the runs about a subject, and runs without a subject that acted on it."""
    acted = Effect.objects.filter(subject_key=key).values("run")
    requests = Escalation.objects.filter(subject_key=key).values("run")
    unbound = Q(subject_key="") & (Q(pk__in=acted) | Q(pk__in=requests))
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
        # A line on the record keeps its kind.
        step.asked = {"kind": step.asked.get("kind")} if step.kind == "say" else {}
        step.reply, step.fingerprint = None, ""
        step.failed = step.failed.partition(":")[0]
        step.save(update_fields=["asked", "reply", "fingerprint", "failed"])
    for escalation in Escalation.objects.filter(run=run):
        escalation.action = _numbers(escalation.action)
        escalation.action_sha256 = escalation.comment = escalation.likeness = ""
        escalation.patch = None
        escalation.review = _ruling(escalation.review)
        emptied = ["action", "action_sha256", "comment", "likeness", "patch", "review"]
        escalation.save(update_fields=emptied)
    events = Event.objects.filter(run=run, kind="escalation.not_carried_out")
    for facts in events.values_list("facts", flat=True):  # the rest of them; once a whole reason
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


# What an erasure cannot reach, named so that a person can look there.


def _leftovers(
    workspace: Workspace, runs: QuerySet[Run], *, names: Collection[str]
) -> Iterator[str]:
    """Yield a line for each kind of place that keeps a subject, after the erasure of its runs."""
    spoken_of = re.compile(
        rf"(?<!\w)(?:{'|'.join(map(re.escape, sorted(names)))})(?!\w)", re.IGNORECASE
    )
    filed = Exists(Tombstone.objects.filter(archive=OuterRef("pk"), run__in=runs))
    archives = Archive.objects.filter(filed, workspace=workspace).order_by("number")
    if archives:
        numbers = _joined(archives.values_list("number", flat=True))
        yield f"archives {numbers}: run manage.py archive --forget where they are"
    for run_id, seqs in _runs_with_words(runs):
        yield (
            f"run {run_id}, events {_joined(seqs)}: written before texts lay beside their "
            "events, so their words stay in the chain"
        )
    if versions := _unmasked_versions(workspace):
        yield (
            f"policy versions {_joined(versions)}: they mask nothing, so what other runs "
            "under them were told is kept as it came"
        )
    others = Run.objects.filter(workspace=workspace).exclude(pk__in=runs).order_by("created_at")
    for run_id, goal, before in others.values_list("pk", "goal", "before").iterator():
        if any(map(spoken_of.search, [goal, *(one["goal"] for one in before or ())])):
            yield f"run {run_id} of somebody else: its goal may name them, and then so do its texts"
    switches = KillSwitch.objects.filter(workspace=workspace).order_by("pk")
    if pressed := [one.pk for one in switches if spoken_of.search(one.reason)]:
        yield f"kill switches {_joined(pressed)}: their reason may name them"
    # A private view belongs to no workspace: all that could concern this one are named.
    views = SavedView.objects.filter(Q(workspace=workspace) | Q(workspace=None)).order_by("pk")
    if named := [
        f"{view.pk} of {view.owner.get_username()}"
        for view in views.select_related("owner")
        if spoken_of.search(f"{view.name} {unquote_plus(view.query)}")
    ]:
        yield (
            f"saved views {', '.join(named)}: name or filter may name them; their owner can "
            "delete them"
        )
    events = Event.objects.filter(workspace=workspace, run=None, kind__startswith="kill_switch.")
    if moved := [
        event.seq
        for event in events.order_by("seq")
        if spoken_of.search(str(event.facts.get("why", "")))
    ]:
        yield (
            f"the workspace's events {_joined(moved)}: why a kill switch was moved, which may "
            "name them"
        )


def _joined(numbers: Iterable[int]) -> str:
    return ", ".join(map(str, numbers))


def _runs_with_words(runs: QuerySet[Run]) -> Iterable[tuple[UUID, tuple[int, ...]]]:
    """Yield the runs with words in the chain itself, and those events."""
    stored = Event.objects.filter(run__in=runs).order_by("run_id", "seq")
    rows = stored.values_list("run_id", "seq", "kind", "facts")
    for run_id, events in groupby(rows.iterator(), key=lambda row: row[0]):
        holding = tuple(seq for _, seq, kind, facts in events if without_texts(kind, facts)[1])
        if run_id and holding:
            yield run_id, holding


def _unmasked_versions(workspace: Workspace) -> tuple[int, ...]:
    """Return the numbers of the versions under which texts were stored unmasked."""
    kept = Run.objects.filter(workspace=workspace, erased_at=None).order_by()
    pairs = set(kept.values_list("policy", "pattern", "desk"))
    versions = PolicyVersion.objects.in_bulk([policy for policy, *_ in pairs])
    numbers = {
        versions[policy].number
        for policy, pattern, desk in pairs
        if not _masks(versions[policy], pattern, desk)
    }
    return tuple(sorted(numbers))


def _masks(version: PolicyVersion, pattern: str, desk: str) -> bool:
    try:
        return set(version.limits().of(pattern, desk).redaction.values()) != {OFF}
    except BadPolicy:
        return False  # it cannot be read: assume that it masked nothing


# Stored values are encrypted with the newest key, so that an old one can be given up.


def rotate_values() -> int:
    """Encrypt stored values with the newest key. Return their number. Raises Refused.

    Runs continue meanwhile; old values are readable until the old key is removed.
    """
    lock, count, last = cipher(), 0, 0
    while True:
        with transaction.atomic():
            values = MaskedValue.objects.select_for_update().filter(pk__gt=last).order_by("pk")
            rows = list(values[:_TOGETHER])
            if not rows:
                return count
            try:
                for row in rows:
                    row.token = lock.rotate(row.token.encode()).decode()
            except InvalidToken:
                raise Refused(
                    "key_missing",
                    f"A value is encrypted with a key that is not given, after {count} that are "
                    "not: put that key into OPSCONSOLE_VALUE_OLD_KEYS.",
                ) from None
            MaskedValue.objects.bulk_update(rows, ["token"])
        count, last = count + len(rows), rows[-1].pk
