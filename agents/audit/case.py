"""The case file of a run, and its proof to download."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from uuid import UUID

from django.db.models import Q
from django.http import HttpRequest, HttpResponse, StreamingHttpResponse
from django.shortcuts import render
from django.utils import timezone

from agents.audit import copies
from agents.audit.copies import download, run_seal
from agents.core.requests import Json
from agents.core.states import ENDED, EscalationState
from agents.models import Delivery, Escalation, Event, Run, Step
from agents.models.notifications import RECIPIENTS
from agents.models.record import facts_of
from agents.notifications.fan_out import KEPT
from agents.notifications.pages import log_line
from agents.publishing.pages import readable_limits, team_names
from agents.publishing.words import desk_parts
from agents.publishing.words import lines as limit_lines
from agents.results import agent_words, words_after_block
from agents.runs.changes import reply_of
from agents.runs.listing import closings, outcome_of, waits_of
from agents.runs.messages import is_output_of_step, title_of
from agents.runs.trace import moved_sums
from agents.sdk.adjustments import label_of
from agents.shell import access
from agents.shell.event_words import EventLine, name_of, quotation, read_events, tell_events
from agents.shell.formats import as_html, in_prose, in_utc
from agents.shell.pages import action, page, whole_number
from agents.tools import call_in_words


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

PAGE = 40  # entries
_MESSAGES = 100
LONGEST = 1200  # characters shown of an agent's text
# Events that only say that a worker or step began or continued. Reviews, launches and timed
# waits are shown.
_MACHINERY = ("run.claimed", "run.waiting", "step.begun")


@dataclass(frozen=True)
class _ReviewEntry:
    """A proposal, as made and as the policy left it, with each rule's ruling."""

    title: str
    # Label, as proposed, as the policy left it or ""; of an answer or plan, its text.
    arguments: Sequence[tuple[str, str, str]]
    rulings: Sequence[Json]
    revisions: Sequence[Json]

    @property
    def is_changed(self) -> bool:
        return any(left for _, _, left in self.arguments)


@dataclass(frozen=True)
class _FileEntry:
    """One entry of the record, with the rows it refers to."""

    line: EventLine
    review: _ReviewEntry | None
    seconds: int | None  # since its request was made
    reason: str  # quotation of the first of two approvals, once the second person has decided


def case_file(run: Run, *, after: int = 0) -> dict[str, object]:
    """Return a page of a run's case file for its template, in at most eleven queries.

    Only the first page, whose `after` is 0, has more than entries.
    """
    events = run.events.filter(seq__lte=run.event_count, seq__gt=after).exclude(_machinery())
    rows = read_events(events.order_by("seq").prefetch_related("texts"), PAGE + 1)
    lines = tell_events(rows[:PAGE], whom_of=name_of)
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
        "next": own[-1].seq if len(rows) > PAGE and own else None,
        "first_hash": own[0].hash if own and own[0].seq == 1 else "",
        "is_gone": not after and (not own or own[0].seq != 1),  # its beginning is not here
        "seen": None if after else _read_seen(run, own),
        "policy": None if after else _policy(run),
        "seal": run_seal(run),
    }


def _machinery() -> Q:
    is_told = Q(facts__has_any_keys=["decision", "pattern", "until"])
    return Q(kind__in=_MACHINERY) | Q(kind__in=("step.done", "run.queued")) & ~is_told


def _steps(run: Run, lines: Sequence[EventLine]) -> Mapping[str, Step]:
    """Return the steps that entries refer to, and all that changed something, by key."""
    keys = {str(line.event.facts.get("key")) for line in lines if line.event}
    steps = run.steps.filter(Q(key__in=keys) | Q(effect__isnull=False))
    steps = steps.select_related("escalation__approval", "effect")
    return {step.key: step for step in steps.order_by("position")}


def _entry(line: EventLine, steps: Mapping[str, Step], *, is_erased: bool) -> _FileEntry:
    event = line.event
    step = steps.get(str(event.facts.get("key"))) if event else None
    if event is None or step is None:
        return _FileEntry(line, None, None, "")
    held: Escalation | None = getattr(step, "escalation", None)
    is_later = held is not None and line.request and event.kind != "escalation.opened"
    seconds = int((event.at - held.created_at).total_seconds()) if held and is_later else None
    is_first = event.kind == "approval.given" and held and held.state != EscalationState.OPEN
    reason = quotation(facts_of(event).get("comment")) if is_first else ""
    is_review = event.kind == "step.done" and step.kind == "review" and not is_erased
    return _FileEntry(line, _review(step) if is_review else None, seconds, reason)


def _review(step: Step) -> _ReviewEntry:
    reply, action = reply_of(step), step.asked["action"]
    desk = step.run.desk
    proposed = call_in_words(desk, action, reply)
    left = call_in_words(desk, reply["action"] or {}, reply)
    text = str(action.get("answer") or "") if not proposed else ""
    name, kept = step.key.rpartition("/")[0], reply["action"] or {}
    is_kept = "note" in kept and is_output_of_step(name, action)
    result = str(kept.get("note" if is_kept else "answer") or "") if text else ""
    arguments = [
        (label_of(name), words, left[name] if left.get(name, words) != words else "")
        for name, words in proposed.items()
    ]
    if text:
        arguments.append(("Text", _cut(text), _cut(result) if result != text else ""))
    return _ReviewEntry(
        title=title_of(name, [step], action),
        arguments=arguments,
        rulings=reply["rulings"],
        revisions=() if is_kept else reply["revisions"],
    )


def _cut(text: str) -> str:
    prose = in_prose(text)
    return f"{prose[:LONGEST]}…" if len(prose) > LONGEST else prose


def _read_seen(run: Run, events: Sequence[Event]) -> dict[str, object]:
    """Return who acted on the run's requests, and who was notified of them."""
    deliveries = Delivery.objects.filter(notification__run=run)
    rows = deliveries.select_related(*RECIPIENTS, "notification").order_by("pk")
    messages = list(rows[: _MESSAGES + 1])
    acted = dict.fromkeys(e.actor for e in events if e.actor and "escalation" in e.facts)
    told = [log_line(row) for row in messages[:_MESSAGES]]
    return {"acted": list(acted), "messages": told, "are_cut": len(messages) > _MESSAGES}


def _policy(run: Run) -> dict[str, object] | None:
    """Return the run's policy version in words; None if this release cannot read it."""
    limits = readable_limits(run.policy, team_names(run.workspace_id))
    if limits is None:
        return None
    here = limits.of(run.pattern, run.desk)
    desks = desk_parts(here) if run.desk in limits.desks else []
    topics = limit_lines(limits, pattern=run.pattern, desk=run.desk)
    return {"topics": topics, "desks": desks}
