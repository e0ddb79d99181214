"""The pages of requests: the queue's lists, a request's card, and the actions on it."""

from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, TypeAlias
from uuid import UUID

from django.contrib.auth.models import User
from django.core.exceptions import PermissionDenied
from django.db.models import Value
from django.http import HttpRequest, HttpResponse, QueryDict
from django.shortcuts import get_object_or_404, redirect, render
from django.utils import timezone

from agents.core.decisions import ADJUST, ANSWER, APPROVE, INSTRUCTIONS, REJECT, TEXT, Decision
from agents.core.requests import Json
from agents.engine.desk.review_context import doubts_of
from agents.models import Escalation, Membership, Team
from agents.requests import deciding, granting, sharing
from agents.requests.card import PERIODS, Card, card_of, handover_of, periods, receivers
from agents.requests.form import SET, TYPED, fill_fields, read_decision, read_patch
from agents.requests.queue import (
    INBOX,
    ORDERS,
    OUTCOMES,
    VIEWS,
    WHOLE,
    QueueAddress,
    QueuePosition,
    Reviewer,
    decided_page,
    expired_since,
    filter_fields,
    inbox_beside,
    inbox_of,
    line_of,
    next_of,
    read_queue,
    reviewer,
    strip_of,
    view_addresses,
)
from agents.requests.words import PASSES_ON, kind_of_request
from agents.runs.changes import labelled_argument
from agents.runs.pages import show_run
from agents.shell import access, refusal
from agents.shell.formats import day_begun
from agents.shell.pages import BadForm, HtmxRequest, NotOurForm, action, only, page, whole_number
from agents.tools import argument_in_words

_REASONS = ("no_reason", "long_reason", "bad_reason")
_OVERTAKEN = (
    deciding.AlreadyDecided,
    deciding.ApprovalLapsed,
    deciding.CallReported,
    deciding.KillSwitchStands,
    sharing.Claimed,
)
_TOKEN = "csrfmiddlewaretoken"  # noqa: S105 - the name of a field


@page
def approvals(request: HttpRequest) -> HttpResponse:
    """List the open requests in a view of the queue."""
    return _list(request, read_queue(request.GET))


def _list(
    request: HttpRequest,
    queue: QueueAddress,
    *,
    sentence: str = "",
    stayed: str = "",
    status: int = 200,
) -> HttpResponse:
    """Render the list, with why a view was not saved, or why ticked requests stayed."""
    user = access.person(request)
    who, saved = reviewer(user, at=timezone.now()), list(access.views_of(user))
    after, since = (request.GET.get(name, "") for name in ("after", "since"))
    inbox = inbox_of(who, queue, after, since=since)
    is_empty, fields = not inbox.rows, filter_fields(queue, who)
    homes = access.decides_in(user)
    shown = {
        "nav": "approvals",
        "queue": queue,
        "inbox": inbox,
        "unanswered": _unanswered(who) if is_empty else (),
        "address": queue.address(after=after, done=request.GET.get("done", "")),
        "next_page": queue.address(after=str(inbox.next)) if inbox.next else "",
        **_views(inbox.line),
        "orders": ORDERS,
        "saved": saved,
        "current": next((v for v in saved if read_queue(QueryDict(v.query)) == queue), None),
        "shareable": [part.workspace for part in who.parts if part.role in access.DECIDES],
        "sentence": sentence,
        "stayed": stayed,
        "fields": fields,
        "chips": [
            (field.label, dict(choices).get(text, text), queue.address(None, **{field.name: ""}))
            for field, choices, text in fields
            if text
        ],
        "receivers": _receivers(homes) if homes and inbox.rows else (),
        "periods": periods(),
        "after": after,
        "tally": inbox.line.tally if queue.given else None,
        "strip": strip_of(user, request.GET.get("done", "")),
    }
    return render(request, "approvals/list.html", shown, status=status)


def _receivers(homes: Sequence[int]) -> list[tuple[str, str]]:
    """Return teams and people who decide in some workspaces, as values of a form and words."""
    teams = Team.objects.filter(workspace__in=homes)
    deciding = Membership.objects.filter(workspace__in=homes, role__in=access.DECIDES)
    people = deciding.values_list(Value("person"), "user__username", "user__username")
    return receivers(teams.values_list(Value("team"), "slug", "name").union(people))


def _unanswered(who: Reviewer) -> list[tuple[int, str]]:
    """Return the requests that expired today and their subjects, newest first."""
    expired = expired_since(who.workspaces, day_begun(who.at))
    newest = expired.order_by("-expires_at", "-pk")
    return list(newest.values_list("pk", "run__subject_label")[:INBOX])


@page
def decided(request: HttpRequest) -> HttpResponse:
    """List decided requests, newest first."""
    outcome, before = request.GET.get("outcome", ""), request.GET.get("before", "")
    by_me = request.GET.get("by", "") == "me"
    user = access.person(request)
    page_of_rows = decided_page(user, before, outcome, by_me=by_me)
    shown = {
        **_views(line_of(WHOLE, reviewer(user, at=timezone.now()), views=VIEWS)),
        "decided": page_of_rows.rows,
        "older": page_of_rows.older,
        "outcome": outcome if outcome in OUTCOMES else "",
        "outcomes": OUTCOMES,
        "by": "me" if by_me else "",
        "nav": "approvals",
    }
    return render(request, "approvals/decided.html", shown)


def _views(line: QueuePosition) -> dict[str, Json]:
    """Return each view with its counts, and the number of all open requests."""
    return {
        "views": [(name, title, line.views[name]) for name, title in VIEWS.items()],
        "waiting": line.waiting,
    }


@action
def save_view(request: HttpRequest) -> HttpResponse:
    """Save the form's address as a view; 422 with the list if it cannot be saved."""
    user, queue = access.person(request), read_queue(QueryDict(request.POST.get("query", "")))
    try:
        slug = request.POST.get("workspace", "")
        workspace = access.choose_workspace(
            [part.workspace for part in access.parts_of(user)], slug
        )
        sharing.save_view(
            by=user,
            name=request.POST.get("name", ""),
            query=queue.query,
            workspace=workspace if slug else None,
            at=timezone.now(),
        )
    except refusal.Refused as no:
        return _list(request, queue, sentence=str(no), status=422)
    return redirect(queue.address())


@action
def delete_view(request: HttpRequest, pk: int) -> HttpResponse:
    """Delete a saved view; 409 if the person may not delete it."""
    user = access.person(request)
    view = get_object_or_404(access.views_of(user).select_related("workspace"), pk=pk)
    queue = read_queue(QueryDict(view.query))
    try:
        sharing.delete_view(view=view, by=user)
    except refusal.Refused as no:
        return _list(request, queue, sentence=str(no), status=409)
    return redirect(queue.address())


# The card: one request, and a person's decision on it.


@page
def approval(request: HtmxRequest, pk: int) -> HttpResponse:
    """Show one escalation with its evidence and, if it is open, the form.

    A live update requests only the queue beside it.
    """
    escalation = access.escalation_for(access.person(request), pk)
    if request.htmx.target == "queue":
        return render(request, "approvals/_queue.html", _beside(request, escalation))
    return _show_card(request, escalation)


def _show_card(
    request: HttpRequest,
    escalation: Escalation,
    *,
    field: str = "",
    sentence: str = "",
    notice: str = "",
    status: int = 200,
) -> HttpResponse:
    """Render the card; after a refusal with the typed values and the sentence at its field.

    A `notice` concerns no field: it is shown above the card until dismissed.
    """
    user = access.person(request)
    read = Card(escalation, user, timezone.now())
    card = card_of(read)
    typed = {name: request.POST.get(name, "") for name in TYPED}
    shown = {
        **typed,
        **_beside(request, escalation),
        "nav": "approvals",
        "card": card,
        "handover": handover_of(read),
        "stops": read.stops,
        "typed_in": _typed_in(request.POST),
        "unsent": {name: request.POST.get(name, "") for name in ("to", "note", "text")},
        "may_audit_here": access.membership(user, escalation.workspace_id).role in access.AUDITS,
        "strip": strip_of(user, request.GET.get("done", "")),
        "notice": notice,
        "field": field,
        "fields": fill_fields(card["fields"], request.POST, wrong=field, sentence=sentence),
        "shown_at": _fields(card),
        "sentence": sentence,
        "verdict": _opening_answer(request.POST.get("verdict", ""), card),
    }
    return render(request, "approvals/detail.html", shown, status=status)


def _beside(request: HttpRequest, escalation: Escalation) -> dict[str, Json]:
    """Return the part of the queue shown beside a card, and the card's place in it."""
    queue = read_queue(request.GET)
    who = reviewer(access.person(request), at=timezone.now())
    inbox = inbox_beside(who, queue, escalation, request.GET.get("since", ""))
    return {
        "queue": queue,
        "address": queue.address(escalation.pk, done=request.GET.get("done", "")),
        "inbox": inbox,
        "waiting": inbox.line.waiting,
        "is_beside": True,
        "view_addresses": view_addresses(),
        "escalation": escalation,
    }


def _typed_in(posted: QueryDict) -> str:
    """Return a person's typed text, for a page without a field for it."""
    names = (name for name in posted if name.startswith(SET) or name in TYPED)
    return "\n".join(text for name in names if (text := posted.get(name, "").strip()))


def _opening_answer(wanted: str, card: Mapping[str, Any]) -> str:
    """Return the answer to preselect: the sent one, or else the plainest approval.

    "" where a person has to compare something first, or can only refuse. What a person cannot
    grant they pass on.
    """
    offered = [choice.verdict for choice in card["choices"]]
    plainest = () if card["compares_first"] else (APPROVE, ADJUST)
    return next((verdict for verdict in (wanted, PASSES_ON, *plainest) if verdict in offered), "")


def _fields(card: Mapping[str, Any]) -> list[str]:
    """Return the names of the fields that show their own errors."""
    changes = [field.name for field in card["fields"]]
    is_text = card["kind"].change in (TEXT, INSTRUCTIONS, ANSWER)
    return ["comment", "refusal", "advice", *changes, *(["correction"] if is_text else [])]


@page
def judge(request: HttpRequest, pk: int) -> HttpResponse:
    """Show how policy and limits judge typed changes."""
    user, at = access.person(request), timezone.now()
    escalation = access.escalation_to_decide(user, pk)
    allowed, judged, read = True, "", []
    try:
        fields = granting.fields_of(escalation, at=at)
        patch = read_patch(request.GET, fields, escalation.action.get("args") or {})
        granting.judge_change(escalation_id=escalation.pk, by=user, patch=patch, at=at)
        tool = str(escalation.action["name"])
        left = "; ".join(
            labelled_argument(escalation.run.desk, tool, name, patch[name]) for name in patch
        )
        judged = f"The policy allows {left}, and you may grant it."
        read = [
            (name, argument_in_words(escalation.run.desk, tool, name, value), value)
            for name, value in patch.items()
        ]
    except (BadForm, refusal.Refused) as no:
        allowed, judged = False, str(no)
    shown = {"allowed": allowed, "judged": judged, "read": read}
    return render(request, "approvals/_judged.html", shown)


@action
def judge_letter(request: HttpRequest, pk: int) -> HttpResponse:
    """Return the ruling on an edited email. Changes nothing.

    By POST, because addresses are logged.
    """
    user = access.person(request)
    escalation = access.escalation_to_decide(user, pk)
    text = request.POST.get("correction", "").replace("\r\n", "\n").strip()
    if not text:
        return render(request, "approvals/_judged.html", {"judged": ""})
    missing: list[str] = []
    try:
        there, missing = deciding.judge_letter(
            escalation_id=escalation.pk, by=user, text=text, at=timezone.now()
        )
        allowed, judged = True, _compared(there, missing)
    except refusal.Refused as no:
        allowed, judged = False, str(no)
    shown = {"allowed": allowed, "doubtful": bool(missing), "judged": judged}
    return render(request, "approvals/_judged.html", shown)


def _compared(there: list[str], missing: list[str]) -> str:
    """Return the amounts of a letter that were found; its statements about them are not checked."""
    if missing:
        unknown = " or ".join(missing)
        return f"Neither ledger nor record has {unknown}. You may send it all the same."
    if there:
        return f"Found in the ledger or on record: {', '.join(there)}. Check what is said about it."
    return "No amount with a currency code was found, so none was compared with the ledger."


@action
def decide(request: HttpRequest, pk: int) -> HttpResponse:
    """Decide, and continue with the next request of the view, or its list if none is left.

    422 for a bad form, 409 if someone was faster.
    """
    user, queue = access.person(request), read_queue(request.GET)
    escalation = access.escalation_to_decide(user, pk)
    try:
        wanted = _read_decision(request, escalation)
        deciding.decide(
            escalation_id=escalation.pk,
            by=user,
            wanted=replace(wanted, patch=_patch(wanted, escalation)),
            at=timezone.now(),
        )
    except BadForm as bad:
        return _show_card(request, escalation, field=bad.field, sentence=str(bad), status=422)
    except _OVERTAKEN as no:
        return _show_card(request, access.escalation_for(user, pk), notice=str(no), status=409)
    except refusal.Refused as no:
        changed = next(iter(wanted.patch or ()), "")
        field = f"{SET}{no.field or changed}" if changed else "verdict"
        if wanted.correction:
            field = "correction"
        elif no.code in _REASONS:
            field = "comment" if wanted.approve else "advice" if wanted.send_back else "refusal"
        return _show_card(request, escalation, field=field, sentence=str(no), status=422)
    return _show_next(user, queue, escalation)


def _read_decision(request: HttpRequest, escalation: Escalation) -> Decision:
    """Read the decision form. A foreign form is recorded. Raises BadForm."""
    fields = granting.fields_of(escalation, at=timezone.now())
    try:
        proposed = escalation.action.get("args") or {}
        kind, is_doubtful = kind_of_request(escalation), bool(doubts_of(escalation))
        return read_decision(request.POST, kind, fields, proposed, is_doubtful=is_doubtful)
    except NotOurForm:
        deciding.record_refusal(
            escalation_id=escalation.pk,
            by=access.person(request),
            why="not_our_form",
            at=timezone.now(),
        )
        raise


def _patch(wanted: Decision, escalation: Escalation) -> Mapping[str, Json] | None:
    """Return the changed arguments; a plain second approval repeats the first one's."""
    first = escalation.approval
    is_second = wanted.approve and first is not None and first.pk == wanted.approval
    return first.patch if first and is_second and wanted.patch is None else wanted.patch


@action
def settle_call(request: HttpRequest, pk: UUID) -> HttpResponse:
    """Settle a call of an ended run; 409 if it is settled already, or still looked up."""
    user, given = access.person(request), request.POST
    run = access.run_to(access.SETTLE, user, pk)
    key, verdict = given.get("key", ""), given.get("verdict")
    if verdict not in (APPROVE, REJECT) or not run.effects.filter(key=key).exists():
        return show_run(request, run, sentence="Choose an answer.", status=422)
    comment, yes = given.get("comment", ""), verdict == APPROVE
    try:
        at = timezone.now()
        deciding.settle_call(key=key, by=user, took_effect=yes, comment=comment, at=at)
    except refusal.Refused as no:
        status = 422 if no.code.endswith("_reason") else 409
        return show_run(request, run, sentence=str(no), status=status)
    return redirect("run", pk=pk)


# Work on a request with others: claim, assign, snooze and comment.


_Change: TypeAlias = Callable[[Escalation, User, datetime, QueryDict], object]


def _only(operation: Callable[..., object]) -> _Change:
    """Return a change that takes nothing from the form."""
    return lambda one, by, at, posted: operation(escalation_id=one.pk, by=by, at=at)


@action
def claim(request: HttpRequest, pk: int) -> HttpResponse:
    """Claim an escalation; 409 if someone else has it or it no longer waits."""
    return _change(request, pk, _only(sharing.claim))


@action
def release_claim(request: HttpRequest, pk: int) -> HttpResponse:
    return _change(request, pk, _only(sharing.release_claim))


@action
def hand_over(request: HttpRequest, pk: int) -> HttpResponse:
    """Hand a request to a person, a team or everybody, with a note."""
    return _change(request, pk, _assign, fields={"to", "note"}, leaves=True)


@action
def snooze(request: HttpRequest, pk: int) -> HttpResponse:
    """Snooze a request for some minutes."""
    return _change(request, pk, _snooze, fields={"minutes"}, leaves=True)


def _assign(one: Escalation, by: User, at: datetime, posted: QueryDict) -> None:
    kind, _, name = posted.get("to", "").partition(":")
    kind = "" if "\0" in name else kind  # PostgreSQL rejects NUL
    user = User.objects.filter(username=name).first() if kind == "person" else None
    ours = Team.objects.filter(workspace=one.workspace_id, slug=name)
    team = ours.first() if kind == "team" else None
    if user is None and team is None and kind != "everybody":
        raise BadForm("to", "Choose who gets it.")
    note = posted.get("note", "")
    sharing.assign(escalation_id=one.pk, by=by, to_user=user, to_team=team, note=note, at=at)


def _snooze(one: Escalation, by: User, at: datetime, posted: QueryDict) -> None:
    minutes = posted.get("minutes", "")
    if minutes not in map(str, PERIODS):
        raise BadForm("minutes", "Choose for how long.")
    until = at + timedelta(minutes=int(minutes))
    sharing.snooze(escalation_id=one.pk, by=by, until=until, at=at)


_SHARES: Mapping[str, _Change] = {
    "claim": _only(sharing.claim),
    "hand-over": _assign,
    "snooze": _snooze,
}


@action
def share(request: HttpRequest) -> HttpResponse:
    """Claim, hand over or snooze ticked requests, each by itself.

    422 for a bad form; 409 with the list if some stay as they are.
    """
    user, queue, posted = access.person(request), read_queue(request.GET), request.POST
    homes, done, stayed = access.decides_in(user), list[str](), list[str]()
    if not homes:
        raise PermissionDenied("Only reviewers and admins can share requests.")
    keys = [key for text in posted.getlist("item") if (key := whole_number(text)) is not None]
    change = _SHARES.get(posted.get("do", ""))
    if not change or not keys:
        return _list(request, queue, stayed="Choose requests, and what to do.", status=422)
    found = access.escalations_of(user).filter(pk__in=keys, workspace__in=homes)
    for one in found.select_related("run").order_by("expires_at", "pk")[:INBOX]:
        try:
            change(one, user, timezone.now(), posted)
            done.append(str(one.pk))
        except BadForm as bad:
            return _list(request, queue, stayed=str(bad), status=422)
        except refusal.Refused as no:
            stayed.append(f"Request {one.pk} ({one.run.subject_label}) stays as it was. {no}")
    if stayed:
        return _list(request, queue, stayed=" ".join(stayed), status=409)
    return redirect(queue.address(done=",".join(done)))


@action
def wake(request: HttpRequest, pk: int) -> HttpResponse:
    """End the snooze of a request early."""
    return _change(request, pk, _only(sharing.wake))


@action
def comment(request: HttpRequest, pk: int) -> HttpResponse:

    def change(one: Escalation, by: User, at: datetime, posted: QueryDict) -> None:
        text = posted.get("text", "").replace("\r\n", "\n")
        sharing.comment(escalation_id=one.pk, by=by, text=text, at=at)

    return _change(request, pk, change, fields={"text"})


def _change(
    request: HttpRequest,
    pk: int,
    change: _Change,
    *,
    fields: Set[str] = frozenset(),
    leaves: bool = False,
) -> HttpResponse:
    """Make a change to a request: 422 for a bad form, 409 if it is not allowed (any more).

    After one by which the person leaves it to others, the next request is shown.
    """
    user = access.person(request)
    escalation = access.escalation_to_decide(user, pk)
    try:
        only(request.POST, {_TOKEN, *fields})
        change(escalation, user, timezone.now(), request.POST)
    except BadForm as bad:
        return _show_card(request, escalation, notice=str(bad), status=422)
    except refusal.Refused as no:
        return _show_card(request, access.escalation_for(user, pk), notice=str(no), status=409)
    queue = read_queue(request.GET)
    return _show_next(user, queue, escalation) if leaves else redirect(queue.address(pk))


def _show_next(user: User, queue: QueueAddress, left: Escalation) -> HttpResponse:
    """Continue with the next request of the view, or its list; a line says who has the one left."""
    following = next_of(queue, reviewer(user, at=timezone.now()), left.pk)
    return redirect(queue.address(following, done=str(left.pk)))
