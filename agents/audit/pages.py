"""The audit log: browse it, verify it, take a copy; and a run's case file."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

from django.conf import settings
from django.db import connection
from django.db.models import BooleanField, Exists, F, Func, OuterRef, Q, QuerySet, Subquery, Sum
from django.db.models.functions import Coalesce
from django.db.models.lookups import Exact
from django.http import HttpRequest, HttpResponse, StreamingHttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone

from agents import models
from agents.audit import copies
from agents.audit.copies import download, run_seal
from agents.audit.verify import ask_verification, cancel_verification
from agents.core.requests import ENDED, EscalationState, Json
from agents.models.notifications import RECIPIENTS
from agents.models.record import UNREADABLE, facts_of
from agents.notifications.fan_out import KEPT
from agents.notifications.pages import log_line
from agents.publishing.pages import readable_limits, team_names
from agents.publishing.words import desk_parts
from agents.publishing.words import lines as limit_lines
from agents.record.event_kinds import FREQUENT, LEDGER
from agents.results import agent_words, words_after_block
from agents.runs.changes import reply_of
from agents.runs.listing import closings, outcome_of, waits_of
from agents.runs.trace import moved_sums
from agents.runs.turns import is_output_of_step, title_of
from agents.sdk.adjustments import label_of
from agents.shell import access
from agents.shell.event_words import (
    EventLine,
    kind_labels,
    name_of,
    quotation,
    read_events,
    tell_events,
)
from agents.shell.formats import AMOUNTS, as_html, in_prose, in_utc, of_amount, read_time
from agents.shell.listing import AMOUNT_FIELDS, Field, Filter, Keyset, Page, distinct_values
from agents.shell.pages import action, page, uuid_of, whole_number
from agents.tools import call_in_words

NAMED = 100  # faults on the page
PAGE = 50
COUNTED = 10_000  # entries that are counted while a page is made
_ENTRY_BYTES = 500  # per entry of a verifiable copy, with its share of the heads
FEW = 4000  # requests or calls of one amount that are looked up by their keys
RUNS = 500  # the newest of a subject or an amount
_ABOUT = ("run__desk", "run__pattern", "run__subject_key", "run__subject_label")
# Events of one moment may be written out of the order of their times.
_DISORDER = timedelta(hours=1)
NEWEST = 2**63 - 1  # no event has a larger key
_COLUMNS = [field.name for field in models.Event._meta.concrete_fields]


@page
@in_utc
def audit(request: HttpRequest) -> HttpResponse:
    """List decisions and money, or all events, newest first."""
    workspaces = access.workspaces_to(access.AUDIT, access.person(request))
    wanted = LogFilter.of(request.GET)
    workspace = access.choose_workspace(workspaces, wanted.given.get("workspace", ""))
    events, is_cut = find_events(workspace, wanted)
    # Those of ordinary runs are always there.
    kinds = {*FREQUENT} | distinct_values(
        models.Event, "kind", [workspace.pk], condition=_INFREQUENT % {"expressions": "e.kind"}
    )
    choices = kind_labels(kinds | {wanted.given.get("event", "")} - {""})
    is_archived = "archive.written" in kinds
    state = _state_of(workspace, file=settings.OPSCONSOLE_HEADS_FILE)
    shown = {
        "nav": "audit",
        "page": page_of(events, request.GET.get("before", "")),
        "most_runs": RUNS if is_cut else None,
        "archived": _archived_runs(workspace, wanted) if is_archived else 0,
        "wanted": wanted,
        "given": wanted.given,
        "fields": wanted.form(event=choices, all=(), workspace=()),
        "workspaces": workspaces,
        "workspace": workspace,
        "state": state,
        "ledger": LEDGER,
        "most": copies.EXPORTED,
        "copy_size": {} if wanted.is_narrowed else _copy_size(workspaces, is_long=is_archived),
        **_check_state(request, state, workspaces),
    }
    return render(request, "audit/page.html", shown)


@action
@in_utc
def verify(request: HttpRequest) -> HttpResponse:
    """Have a worker verify every chain of the person's workspaces."""
    by = access.person(request)
    workspaces = access.workspaces_to(access.AUDIT, by)
    is_full = request.POST.get("all") == "1"
    ask_verification(by=by, workspaces=workspaces, is_full=is_full, at=timezone.now())
    return redirect("audit")


@action
def verify_cancel(request: HttpRequest) -> HttpResponse:
    """Cancel the check that the person is waiting for."""
    by = access.person(request)
    access.workspaces_to(access.AUDIT, by)
    cancel_verification(by=by, at=timezone.now())
    return redirect("audit")


@action
@in_utc
def export(request: HttpRequest) -> StreamingHttpResponse:
    """Export the filtered log as CSV, and record that; the file shows its cut."""
    wanted = LogFilter.of(request.POST)
    workspaces = access.workspaces_to(access.AUDIT, access.person(request))
    workspace = access.choose_workspace(workspaces, wanted.given.get("workspace", ""))
    at = timezone.now()
    events, is_cut = find_events(workspace, wanted)
    keys = list(events.values_list("pk", flat=True)[: copies.EXPORTED + 1])
    is_cut = is_cut or len(keys) > copies.EXPORTED
    keys = keys[: copies.EXPORTED]
    facts = {"rows": len(keys), "filter": wanted.given, **({"cut": True} if is_cut else {})}
    copies.record_export(workspace=workspace, by=access.person(request), facts=facts, at=at)
    archived = _archived_runs(workspace, wanted)
    # Fixed keys, as the filter may match other events while the file is sent.
    lines = copies.csv_lines(events_of(workspace), keys, is_cut=is_cut, archived=archived)
    name = f"audit-log-{at:%Y%m%d-%H%M%S}{'-cut' if is_cut else ''}.csv"
    return copies.download(request, lines, name)


@action
def bundle(request: HttpRequest) -> StreamingHttpResponse:
    """Export the whole record as JSON lines for the standalone verifier, and record that."""
    workspaces = access.workspaces_to(access.AUDIT, access.person(request))
    at = timezone.now()
    for workspace in workspaces:
        facts = {"bundle": copies.FORMAT}
        copies.record_export(workspace=workspace, by=access.person(request), facts=facts, at=at)
    lines = copies.lines(workspaces, at=at)
    return copies.download(request, lines, f"audit-log-{at:%Y%m%d-%H%M%S}.jsonl")


def _check_state(
    request: HttpRequest, state: Mapping[str, Any], workspaces: Sequence[models.Workspace]
) -> dict[str, object]:
    """Return the progress or result of the person's check, unless there is a newer one."""
    newest = models.Verification.objects.filter(by=access.person(request)).order_by("-pk").first()
    if newest is None or newest.cancelled_at:
        return {}
    outcome, at = newest.outcome, newest.ended_at
    if at is None or outcome is None:
        return {"checking": newest}
    if {*newest.workspaces} - {one.pk for one in workspaces}:  # faults name what rows hold
        return {}
    if "failed" in outcome:
        return {"check_failed": outcome["failed"]}
    # No seal covers its row, so the log's entry about it takes precedence.
    told_at = state["checked_at"]
    if told_at is None or abs(told_at - at) > timedelta(seconds=10):
        return {}
    if state["faults"] and not outcome["faults"]:
        return {}
    notes = _check_notes(outcome)
    left = {"unread": outcome.get("unread", 0), "since": outcome.get("since")}
    faults = {"faults": outcome["faults"][:NAMED], "named": NAMED}
    faults["count"] = len(outcome["faults"]) + outcome["more"]
    return {"checked": outcome["chains"], "notes": notes} | faults | left


# What is known of the log's integrity without reading it: the last check and seal.


def _state_of(workspace: models.Workspace, *, file: Path) -> dict[str, Any]:
    """Return what is known of a log, in two queries. Unreadable rows count as faults."""
    state: dict[str, Any] = {"checked_at": None, "faults": [], "more": 0}
    checks = models.Event.objects.filter(workspace=workspace, run=None, kind="audit.verified")
    try:
        if last := checks.order_by("-pk").first():
            facts = last.facts
            earlier = datetime.fromisoformat(facts["full_at"]) if "full_at" in facts else None
            state = {
                "checked_at": _time(last.at),
                "checked_by": last.actor,
                "chains": int(facts.get("chains", 0)),
                "unread": int(facts.get("unread", 0)),  # skipped as unchanged
                "faults": [str(fault) for fault in facts.get("faults", [])],
                "more": int(facts.get("more", 0)),
                "full_at": earlier,  # when all was last read; None: in this check
            }
    except UNREADABLE:
        state["faults"] = ["the entry of the last check cannot be read"]
    try:
        if head := models.Head.objects.order_by("-number").only("number", "at", "seal").first():
            state |= {"head": head.number, "sealed_at": _time(head.at), "seal": head.seal}
    except UNREADABLE:
        state["faults"] = [*state["faults"], "the newest seal cannot be read"]
    state["count"] = len(state["faults"]) + state["more"]
    return {**state, "file": file.name if file.exists() else ""}  # the copy of the seals


def _check_notes(outcome: Json) -> list[str]:
    """Return sentences on what a check compared and what it could not.

    `outcome` is that of a Verification.
    """
    compared, loose = outcome["compared"], outcome["loose"]
    notes = ["There were no copies of seals outside the database to compare with."]
    if compared:
        some = "1 seal agrees" if compared == 1 else f"{compared} seals agree"
        notes = [f"{some} with the copy kept outside the database."]
        if outcome["faults"]:
            notes = [f"Seals compared with the copy outside the database: {compared}."]
    if outcome["is_torn"]:
        notes.append("The last line of that copy is incomplete and was left out.")
    if not outcome["keys"]:
        notes.append("The signatures of the seals were not checked: this server has no key.")
    if loose:
        some = "1 entry has" if loose == 1 else f"{loose} entries have"
        notes.append(f"{some} no seal yet; a worker seals new entries every few minutes.")
    if outcome["more"]:
        notes.append(f"{outcome['more']} more faults were found.")
    if "since" in outcome:
        full_at = f"{datetime.fromisoformat(outcome['full_at']):%Y-%m-%d %H:%M} UTC"
        notes.insert(0, f"All of the log was last read at {full_at}.")
    return [*notes, *outcome["clocks"]]


def _time(at: datetime | None) -> datetime:
    """Return a stored time. Raises ValueError for None, which SQLite gives for an invalid one."""
    if at is None:
        raise ValueError
    return at


# Events are found by filters in the address, each by an index, and shown in pages by keyset.


# In the exact words of the partial indexes: SQLite uses one only if a query repeats its condition
# without parameters.
_IN_LEDGER = f"%(expressions)s IN ({', '.join(map(repr, LEDGER))})"
_INFREQUENT = f"NOT (%(expressions)s IN ({', '.join(map(repr, FREQUENT))}))"
_BEGINS_CHAIN = "%(expressions)s = 1"
_HAS_ACTOR = "NOT (%(expressions)s = '')"


def _holds(column: str, condition: str) -> Func:
    return Func(F(column), template=condition, output_field=BooleanField())


class LogFilter(Filter):
    fields = (
        Field("event", "What happened"),
        Field("person", "Person"),
        Field("subject", "Subject (number or key)"),
        Field("agent", "Session of the agent"),
        *AMOUNT_FIELDS,
        Field("run", "Run", "run__pk", uuid_of),
        Field("since", "From (UTC)", read=read_time),
        Field("until", "To (UTC)", read=read_time),
        Field("all", "All events"),
        Field("workspace", "Workspace"),
    )

    @property
    def is_narrowed(self) -> bool:
        """Tell whether it leaves out events, apart from those of minor kinds."""
        return bool(self.given.keys() - {"all", "workspace"})

    @property
    def query_of_all(self) -> str:
        return self.other(all="1")

    @property
    def query_of_ledger(self) -> str:
        is_other = self.given.get("event", "") not in LEDGER
        return self.other(all="", **({"event": ""} if is_other else {}))


def events_of(workspace: models.Workspace) -> QuerySet[models.Event]:
    """Return all events of a workspace, newest first, with the columns of a line."""
    events = models.Event.objects.filter(workspace=workspace).order_by("-pk")
    # Of its run only the subject is read: a broken row must not hide its events.
    return events.select_related("run").only(*_COLUMNS, *_ABOUT).prefetch_related("texts")


def find_events(
    workspace: models.Workspace, wanted: LogFilter
) -> tuple[QuerySet[models.Event], bool]:
    """Return the matching events, newest first, and whether only the newest RUNS runs count."""
    events = wanted.keep(events_of(workspace))
    given = wanted.given
    if wanted.unreadable:
        return events, False
    is_cut = False
    kinds: Func | Exact[Any] = _holds("kind", _IN_LEDGER)
    if "event" in given:
        kinds = Exact(F("kind"), given["event"])
    if "person" in given:
        events = events.filter(_holds("actor", _HAS_ACTOR), actor=given["person"])
        # PostgreSQL expects next to none of these kinds among what a person did, and would read and
        # sort all of it, unless it cannot see what is compared.
        kinds = Coalesce(kinds, False)
    elif "event" in given and given["event"] not in FREQUENT:
        events = events.filter(_holds("kind", _INFREQUENT))
    elif given.get("event") in LEDGER:
        events = events.filter(_holds("kind", _IN_LEDGER))
    if "event" in given or "all" not in given:
        events = events.filter(kinds)
    if "agent" in given:  # its sessions: other events name it in words only
        events = events.filter(run__agent__name=given["agent"], run__agent__workspace=workspace)
    if given.keys() & {"subject", *AMOUNTS}:
        runs, is_cut = _runs(workspace, given)
        events = events.filter(run__in=runs)
    return _within(events, workspace, *map(wanted.value, ("since", "until"))), is_cut


def _archived_runs(workspace: models.Workspace, wanted: LogFilter) -> int:
    """Return the number of archived runs whose entries a filter might match."""
    gone = models.Archive.objects.filter(workspace=workspace, let_go_at__isnull=False)
    if since := wanted.value("since"):
        gone = gone.filter(before__gt=since)
    return gone.aggregate(runs=Sum("runs"))["runs"] or 0


def _copy_size(workspaces: Sequence[models.Workspace], *, is_long: bool) -> dict[str, Any]:
    """Return how large a verifiable copy is: of a long log as last counted; {}: never."""
    first = models.Event.objects.filter(workspace__in=workspaces).order_by()[: COUNTED + 1]
    here = COUNTED + 1 if is_long else first.count()
    if here <= COUNTED:
        return {"entries": here, "bytes": here * _ENTRY_BYTES}
    last = models.DatabaseSize.objects.order_by("-day").first()
    entries = sum(last.entries.get(str(one.pk), 0) for one in workspaces) if last else 0
    day = last and last.day
    return {"entries": entries, "bytes": entries * _ENTRY_BYTES, "day": day} if entries else {}


def _within(
    events: QuerySet[models.Event],
    workspace: models.Workspace,
    since: datetime | None,
    until: datetime | None,
) -> QuerySet[models.Event]:
    """Keep the events of a period, whose ends lie between two beginnings of chains."""
    begun = models.Event.objects.filter(_holds("seq", _BEGINS_CHAIN), workspace=workspace)
    if since:
        before = begun.filter(at__lt=since - _DISORDER).order_by("-at", "-pk").values("pk")[:1]
        events = events.filter(at__gte=since, pk__gt=Coalesce(Subquery(before), 0))
    if until:
        after = begun.filter(at__gte=until + _DISORDER).order_by("at", "pk").values("pk")[:1]
        events = events.filter(at__lt=until, pk__lt=Coalesce(Subquery(after), NEWEST))
    return events


def _runs(
    workspace: models.Workspace, given: Mapping[str, str]
) -> tuple[Sequence[UUID] | QuerySet[models.Run, Any], bool]:
    """Return the newest RUNS runs about a subject, or with an amount requested, granted or paid.

    Also return whether more were left out.
    """
    matching = models.Run.objects.filter(workspace=workspace).order_by("-created_at", "-pk")
    if "subject" in given:
        matching = matching.filter(subject_key=given["subject"])
    if given.keys() & set(AMOUNTS):
        wanted = of_amount(given)
        held, moved = models.Escalation.objects.filter(wanted), models.Effect.objects.filter(wanted)
        if "subject" not in given:
            # A rare amount is found by its index; of a common one, the newest are found soon.
            # On SQLite adding 0 hides the column from its index, by which it would read all runs of
            # the workspace; without the index PostgreSQL would read those of all workspaces.
            of = F("run__workspace") + 0 if connection.vendor == "sqlite" else F("run__workspace")
            ours = moved.alias(of=of).filter(of=workspace.pk)
            both = (held.filter(workspace=workspace), ours)
            parts = [part.order_by().values_list("run_id", flat=True) for part in both]
            several = list(parts[0].union(parts[1], all=True)[: FEW + 1])
            keys = set(several)
            if len(keys) <= RUNS and len(several) <= FEW:
                return list(keys), False
            if len(several) <= FEW:
                times = models.Run.objects.filter(pk__in=keys).values_list("created_at", "pk")
                newest = [key for _, key in sorted(times, reverse=True)]
                return newest[:RUNS], len(newest) > RUNS
            matching = _with(matching, held, moved)
            if len(keys) > RUNS:
                return matching.values("pk")[:RUNS], True
        else:
            matching = _with(matching, held, moved)
    runs = list(matching.values_list("pk", flat=True)[: RUNS + 1])
    return runs[:RUNS], len(runs) > RUNS


def _with(
    runs: QuerySet[models.Run], held: QuerySet[models.Escalation], moved: QuerySet[models.Effect]
) -> QuerySet[models.Run]:
    """Keep the runs with a matching escalation or effect, by the indexes on their run."""
    key = OuterRef("pk")
    # As a range: for an equality PostgreSQL would hash every row.
    of_run = {"run": key} if connection.vendor == "sqlite" else {"run__gte": key, "run__lte": key}
    return runs.filter(Exists(held.filter(**of_run)) | Exists(moved.filter(**of_run)))


def page_of(events: QuerySet[models.Event], before: str) -> Page[EventLine]:
    """Return one page, whose cost does not depend on the log's length."""
    order = Keyset()
    return order.cut(tell_events(read_events(order.after(events, before), PAGE + 1)), PAGE)


# The case file of a run, and its proof to download.


@page
@in_utc
def case(request: HttpRequest, pk: UUID) -> HttpResponse:
    """Show a run's record for reading and printing."""
    run = access.run_to(access.OPEN_CASE, access.person(request), pk)
    shown = {
        "nav": "runs",
        "file": case_file(run, after=whole_number(request.GET.get("after", "")) or 0),
        "run": run,
        "as_of": timezone.now(),
        "kept": KEPT.days,
        "address": request.build_absolute_uri(request.path),
    }
    return render(request, "case/page.html", shown)


@action
def case_proof(request: HttpRequest, pk: UUID) -> StreamingHttpResponse:
    """Export the record of a run with the heads that seal it, and record that."""
    run = access.run_to(access.OPEN_CASE, access.person(request), pk)
    at = timezone.now()
    facts = {"bundle": copies.FORMAT, "run": str(run.pk)}
    copies.record_export(workspace=run.workspace, by=access.person(request), facts=facts, at=at)
    return download(
        request, copies.lines_of_run(run, at=at), f"run-{run.pk}-{at:%Y%m%d-%H%M%S}.jsonl"
    )


# The entries of a run's record in order, with what they refer to. The sentences are the log's.
# Proposals and rules with their values come from the run's steps, which the record does not cover,
# as the page says. The cost of a page does not depend on the run's length.

ENTRIES = 40  # entries
_MESSAGES = 100
LONGEST = 1200  # characters shown of an agent's text
# Events that only say that a worker or step began or continued. Reviews, launches and timed
# waits are shown.
_MACHINERY = ("run.claimed", "run.waiting", "step.begun")


def case_file(run: models.Run, *, after: int = 0) -> dict[str, object]:
    """Return a page of a run's case file for its template, in at most eleven queries.

    Only the first page, whose `after` is 0, has more than entries.
    """
    is_told = Q(facts__has_any_keys=["decision", "pattern", "until"])
    machinery = Q(kind__in=_MACHINERY) | Q(kind__in=("step.done", "run.queued")) & ~is_told
    events = run.events.filter(seq__lte=run.event_count, seq__gt=after).exclude(machinery)
    rows = read_events(events.order_by("seq").prefetch_related("texts"), ENTRIES + 1)
    lines = tell_events(rows[:ENTRIES], whom_of=name_of)
    steps = _steps(run, lines)
    own = [line.event for line in lines if line.event]
    effects = [step.effect for step in steps.values() if hasattr(step, "effect")]
    return {
        "run": run,
        "is_closed": run.state in ENDED,
        "outcome": outcome_of(run, closings([run]), waits_of([run])),
        "words": as_html(agent_words(run)),  # what the agent wrote
        "words_after_block": as_html(words_after_block(run)),  # the same, where that is no result
        "moved": moved_sums(effects),
        "entries": [_entry(line, steps, is_erased=run.is_emptied) for line in lines],
        "after": after,
        "next": own[-1].seq if len(rows) > ENTRIES and own else None,
        "first_hash": own[0].hash if own and own[0].seq == 1 else "",
        "is_gone": not after and (not own or own[0].seq != 1),  # its beginning is not here
        "seen": None if after else _read_seen(run, own),
        "policy": None if after else _policy(run),
        "seal": run_seal(run),
    }


def _steps(run: models.Run, lines: Sequence[EventLine]) -> Mapping[str, models.Step]:
    """Return the steps that entries refer to, and all that changed something, by key."""
    keys = {str(line.event.facts.get("key")) for line in lines if line.event}
    steps = run.steps.filter(Q(key__in=keys) | Q(effect__isnull=False))
    steps = steps.select_related("escalation__approval", "effect")
    return {step.key: step for step in steps.order_by("position")}


def _entry(line: EventLine, steps: Mapping[str, models.Step], *, is_erased: bool) -> dict[str, Any]:
    """Return one entry of the record for its template, with the rows it refers to."""
    event = line.event
    step = steps.get(str(event.facts.get("key"))) if event else None
    if event is None or step is None:
        return {"line": line}
    held: models.Escalation | None = getattr(step, "escalation", None)
    is_later = held is not None and line.request and event.kind != "escalation.opened"
    seconds = int((event.at - held.created_at).total_seconds()) if held and is_later else None
    # The first of two approvals, once the second person has decided.
    is_first = event.kind == "approval.given" and held and held.state != EscalationState.OPEN
    reason = quotation(facts_of(event).get("comment")) if is_first else ""
    is_review = event.kind == "step.done" and step.kind == "review" and not is_erased
    review = _review(step) if is_review else None
    return {"line": line, "review": review, "seconds": seconds, "reason": reason}


def _review(step: models.Step) -> dict[str, object]:
    """Return a proposal, as made and as the policy left it, with each rule's ruling."""
    reply, action = reply_of(step), step.asked["action"]
    desk = step.run.desk
    proposed = call_in_words(desk, action, reply)
    left = call_in_words(desk, reply["action"] or {}, reply)
    text = str(action.get("answer") or "") if not proposed else ""
    name, kept = step.key.rpartition("/")[0], reply["action"] or {}
    is_kept = "note" in kept and is_output_of_step(name, action)
    result = str(kept.get("note" if is_kept else "answer") or "") if text else ""
    # Label, as proposed, as the policy left it or ""; of an answer or plan, its text.
    arguments = [
        (label_of(name), words, left[name] if left.get(name, words) != words else "")
        for name, words in proposed.items()
    ]
    if text:
        arguments.append(("Text", _cut(text), _cut(result) if result != text else ""))
    return {
        "title": title_of(name, [step], action),
        "arguments": arguments,
        "is_changed": any(left for _, _, left in arguments),
        "rulings": reply["rulings"],
        "revisions": () if is_kept else reply["revisions"],
    }


def _cut(text: str) -> str:
    prose = in_prose(text)
    return f"{prose[:LONGEST]}…" if len(prose) > LONGEST else prose


def _read_seen(run: models.Run, events: Sequence[models.Event]) -> dict[str, object]:
    """Return who acted on the run's requests, and who was notified of them."""
    deliveries = models.Delivery.objects.filter(notification__run=run)
    rows = deliveries.select_related(*RECIPIENTS, "notification").order_by("pk")
    messages = list(rows[: _MESSAGES + 1])
    acted = dict.fromkeys(e.actor for e in events if e.actor and "escalation" in e.facts)
    told = [log_line(row) for row in messages[:_MESSAGES]]
    return {"acted": list(acted), "messages": told, "are_cut": len(messages) > _MESSAGES}


def _policy(run: models.Run) -> dict[str, object] | None:
    """Return the run's policy version in words; None if this release cannot read it."""
    limits = readable_limits(run.policy, team_names(run.workspace_id))
    if limits is None:
        return None
    here = limits.of(run.pattern, run.desk)
    desks = desk_parts(here) if run.desk in limits.desks else []
    topics = limit_lines(limits, pattern=run.pattern, desk=run.desk)
    return {"topics": topics, "desks": desks}
