"""The card: one request, and a person's decision on it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache

from django.http import HttpRequest, HttpResponse, QueryDict
from django.shortcuts import redirect, render
from django.utils import timezone

from agents.core.decisions import Decision
from agents.core.request_kinds import ADJUST, ANSWER, APPROVE, INSTRUCTIONS, TEXT
from agents.core.requests import Json
from agents.engine.desk.review_context import doubts_of
from agents.engine.people.deciders import roster_of
from agents.models import Escalation
from agents.operations.requests import approving, claiming, deciding, granting
from agents.shell import access, refusal
from agents.shell.pages import BadForm, HtmxRequest, NotOurForm, action, page
from agents.web.approvals import card as cards
from agents.web.approvals import inbox as inboxes
from agents.web.approvals.fields import SET, fill_fields
from agents.web.approvals.form import read_decision, read_patch
from agents.web.approvals.handover import handover_of
from agents.web.approvals.just_decided import strip_of
from agents.web.approvals.position import line_of
from agents.web.approvals.queue import read_queue, view_addresses
from agents.web.approvals.selection import reviewer
from agents.web.approvals.wording import kind_of_request
from agents.web.changes import labelled_argument
from agents.web.kill import switches

TYPED = ("comment", "ready", "refusal", "ready_refusal", "advice", "correction")
REASONS = ("no_reason", "long_reason", "bad_reason")


@page
def approval(request: HtmxRequest, pk: int) -> HttpResponse:
    """Show one escalation with its evidence and, if it is open, the form.

    A live update requests only the queue beside it.
    """
    escalation = access.escalation_for(access.person(request), pk)
    if request.htmx.target == "queue":
        return render(request, "approvals/_queue.html", _beside(request, escalation))
    return show_card(request, escalation)


@page
def judge(request: HttpRequest, pk: int) -> HttpResponse:
    """Show how policy and limits would judge changes that are being typed."""
    user, at = access.person(request), timezone.now()
    escalation = access.escalation_to_decide(user, pk)
    allowed, judged = True, ""
    try:
        fields = granting.fields_of(escalation, at=at)
        patch = read_patch(request.GET, fields, escalation.action.get("args") or {})
        granting.judge_change(escalation_id=escalation.pk, by=user, patch=patch, at=at)
        tool = str(escalation.action["name"])
        left = "; ".join(labelled_argument(tool, name, patch[name]) for name in patch)
        judged = f"The policy allows {left}, and you may grant it."
    except (BadForm, refusal.Refused) as no:
        allowed, judged = False, str(no)
    shown = {"allowed": allowed, "judged": judged}
    return render(request, "approvals/_judged.html", shown)


@action
def judge_letter(request: HttpRequest, pk: int) -> HttpResponse:
    """Say what would be answered to an email that is being edited. Changes nothing.

    By POST, because addresses are kept in logs.
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
    """Say which amounts of a letter were found; what it says about them is not checked."""
    if missing:
        unknown = " or ".join(missing)
        return f"Neither ledger nor record has {unknown}. You may send it all the same."
    if there:
        return f"Found in the ledger or on record: {', '.join(there)}. Check what is said about it."
    return "No amount with a currency code was found, so none was compared with the ledger."


@action
def claim(request: HttpRequest, pk: int) -> HttpResponse:
    """Claim an escalation; 409 if someone else has it or it no longer waits."""
    return _claiming(request, pk, claiming.claim)


@action
def release_claim(request: HttpRequest, pk: int) -> HttpResponse:
    """Release one's claim on an escalation."""
    return _claiming(request, pk, claiming.release_claim)


def _claiming(request: HttpRequest, pk: int, change: Callable[..., Escalation]) -> HttpResponse:
    user = access.person(request)
    escalation = access.escalation_to_decide(user, pk)
    try:
        change(escalation_id=escalation.pk, by=user, at=timezone.now())
    except (claiming.Claimed, refusal.Refused) as no:
        return show_card(request, access.escalation_for(user, pk), notice=str(no), status=409)
    return redirect(read_queue(request.GET).address(pk))


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
        return show_card(request, escalation, field=bad.field, sentence=str(bad), status=422)
    except (deciding.KillSwitchStands, approving.ApprovalLapsed, deciding.CallReported) as no:
        return show_card(request, access.escalation_for(user, pk), notice=str(no), status=409)
    except refusal.Refused as no:
        changed = next(iter(wanted.patch or ()), "")
        field = f"{SET}{no.field or changed}" if changed else "verdict"
        if wanted.correction:
            field = "correction"
        elif no.code in REASONS:
            field = "comment" if wanted.approve else "advice" if wanted.send_back else "refusal"
        return show_card(request, escalation, field=field, sentence=str(no), status=422)
    except (claiming.Claimed, deciding.AlreadyDecided) as first:
        return show_card(request, access.escalation_for(user, pk), notice=str(first), status=409)
    line = line_of(queue, reviewer(user, at=timezone.now()), pk, escalation)
    return redirect(queue.address(line.following, done=str(pk)))


def _patch(wanted: Decision, escalation: Escalation) -> Mapping[str, Json] | None:
    """Return the changed arguments; a plain second approval repeats those of the first."""
    first = escalation.approval
    is_second = wanted.approve and first is not None and first.pk == wanted.approval
    return first.patch if first and is_second and wanted.patch is None else wanted.patch


def _read_decision(request: HttpRequest, escalation: Escalation) -> Decision:
    """Read the decision form. A foreign form goes on record. Raises BadForm."""
    fields = granting.fields_of(escalation, at=timezone.now())
    try:
        asked = escalation.action.get("args") or {}
        kind, is_doubtful = kind_of_request(escalation), bool(doubts_of(escalation))
        return read_decision(request.POST, kind, fields, asked, is_doubtful=is_doubtful)
    except NotOurForm:
        deciding.record_refusal(
            escalation_id=escalation.pk,
            by=access.person(request),
            why="not_our_form",
            at=timezone.now(),
        )
        raise


def show_card(
    request: HttpRequest,
    escalation: Escalation,
    *,
    field: str = "",
    sentence: str = "",
    notice: str = "",
    status: int = 200,
) -> HttpResponse:
    """Render the card; after a refusal with what was typed and the sentence at its field.

    A `notice` concerns no field: it is shown above the card until dismissed.
    """
    user = access.person(request)
    at = timezone.now()
    around = cards.Around(
        roster=cache(lambda: roster_of(escalation, user.pk)),
        stops=cache(lambda: switches.standing(*access.stopped_workspaces(user))),
    )
    card = cards.card(escalation, user, around, at=at)
    typed = {name: request.POST.get(name, "") for name in TYPED}
    shown = {
        **typed,
        **_beside(request, escalation),
        "nav": "approvals",
        "card": card,
        "handover": handover_of(escalation, user, around.roster, at=at),
        "stops": around.stops,
        "typed_in": _typed_in(request.POST),
        "unsent": {name: request.POST.get(name, "") for name in ("to", "note", "text")},
        "stages": card.stages,
        "may_audit_here": access.membership(user, escalation.workspace_id).role in access.AUDITS,
        "strip": strip_of(user, request.GET.get("done", "")),
        "notice": notice,
        "field": field,
        "fields": fill_fields(card.fields, request.POST, wrong=field, sentence=sentence),
        "shown_at": _fields(card),
        "sentence": sentence,
        "verdict": _opening_answer(request.POST.get("verdict", ""), card),
    }
    return render(request, "approvals/detail.html", shown, status=status)


def _beside(request: HttpRequest, escalation: Escalation) -> dict[str, Json]:
    """Return the part of the queue shown beside a card, and the card's place in it."""
    queue = read_queue(request.GET)
    who = reviewer(access.person(request), at=timezone.now())
    inbox = inboxes.inbox_beside(who, queue, escalation, request.GET.get("since", ""))
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
    """Return what a person typed, for a page that no longer has a field for it."""
    names = (name for name in posted if name.startswith(SET) or name in TYPED)
    return "\n".join(text for name in names if (text := posted.get(name, "").strip()))


def _opening_answer(wanted: str, card: cards.Card) -> str:
    """Return the answer to preselect: the one sent, or else the plainest approval.

    None where a person has to compare something first, or can only refuse.
    """
    offered = [choice.verdict for choice in card.choices]
    plainest = () if card.compares_first else (APPROVE, ADJUST)
    return next((verdict for verdict in (wanted, *plainest) if verdict in offered), "")


def _fields(card: cards.Card) -> list[str]:
    """Return the names of the fields that show their own errors."""
    changes = [field.name for field in card.fields]
    is_text = card.kind.change in (TEXT, INSTRUCTIONS, ANSWER)
    return ["comment", "refusal", "advice", *changes, *(["correction"] if is_text else [])]
