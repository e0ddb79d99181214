"""The inbox and the card: what waits for a person, and their decision."""

from __future__ import annotations

from collections.abc import Callable

from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_POST, require_safe

from agents import operations
from agents.models import Escalation
from agents.web import access
from agents.web.approvals import card as cards
from agents.web.approvals import inbox as inboxes
from agents.web.forms import GRANTS, REFUSALS, BadForm, NotOurForm, Wanted, read_decision

TYPED = ("comment", "ready", "refusal", "ready_refusal", "correction")
REASONS = ("no_reason", "long_reason", "bad_reason")


@require_safe
@never_cache
@login_required
def approvals(request: HttpRequest) -> HttpResponse:
    """List what waits, soonest to expire first."""
    inbox = inboxes.inbox(
        access.workspaces_of(access.person(request)), request.GET.get("after", "")
    )
    return render(request, "approvals/list.html", {"inbox": inbox, "nav": "approvals"})


@require_safe
@never_cache
@login_required
def decided(request: HttpRequest) -> HttpResponse:
    """List what was decided, newest first, beside what waits."""
    user = access.person(request)
    inbox = inboxes.inbox(access.workspaces_of(user))
    found, older = inboxes.decided(user, request.GET.get("before", ""))
    shown = {"inbox": inbox, "decided": found, "older": older, "nav": "approvals"}
    return render(request, "approvals/decided.html", shown)


@require_safe
@never_cache
@login_required
def approval(request: HttpRequest, pk: int) -> HttpResponse:
    """Show one escalation with its evidence and, where it is open, the form."""
    return _page(request, access.escalation_for(access.person(request), pk))


@require_POST
@never_cache
@login_required
def claim(request: HttpRequest, pk: int) -> HttpResponse:
    """Keep an escalation for oneself; 409 where somebody else has it or it waits no longer."""
    return _claiming(request, pk, operations.claim)


@require_POST
@never_cache
@login_required
def release_claim(request: HttpRequest, pk: int) -> HttpResponse:
    """Give an escalation back to everybody."""
    return _claiming(request, pk, operations.release_claim)


def _claiming(request: HttpRequest, pk: int, change: Callable[..., Escalation]) -> HttpResponse:
    user = access.person(request)
    escalation = access.escalation_to_decide(user, pk)
    try:
        change(escalation_id=escalation.pk, by=user, at=timezone.now())
    except (operations.Claimed, operations.Refused) as no:
        return _page(request, access.escalation_for(user, pk), notice=str(no), status=409)
    return redirect("approval", pk=pk)


@require_POST
@never_cache
@login_required
def decide(request: HttpRequest, pk: int) -> HttpResponse:
    """Decide, and show what came of it: 422 for a bad form, 409 where somebody was first."""
    user = access.person(request)
    escalation = access.escalation_to_decide(user, pk)
    try:
        wanted = _wanted(request, escalation)
        operations.decide(
            escalation_id=escalation.pk,
            by=user,
            approve=wanted.approve,
            amount_minor=wanted.amount_minor,
            comment=wanted.comment,
            correction=wanted.correction,
            action_sha256=wanted.action_sha256,
            at=timezone.now(),
        )
    except BadForm as bad:
        return _page(request, escalation, field=bad.field, sentence=str(bad), status=422)
    except operations.KillSwitchStands as no:
        return _page(request, access.escalation_for(user, pk), notice=str(no), status=409)
    except operations.Refused as no:
        given = "comment" if wanted.approve else "refusal"
        reason = "correction" if wanted.correction else given
        field = reason if no.code in REASONS else "amount"
        return _page(request, escalation, field=field, sentence=str(no), status=422)
    except (operations.Claimed, operations.AlreadyDecided) as first:
        return _page(request, access.escalation_for(user, pk), notice=str(first), status=409)
    return redirect("approval", pk=pk)


def _wanted(request: HttpRequest, escalation: Escalation) -> Wanted:
    """Return what was filled in. A form that is none of ours goes on record. Raises BadForm."""
    try:
        return read_decision(request.POST)
    except NotOurForm:
        operations.record_refusal(
            escalation_id=escalation.pk,
            by=access.person(request),
            why="not_our_form",
            at=timezone.now(),
        )
        raise


def _page(
    request: HttpRequest,
    escalation: Escalation,
    *,
    field: str = "",
    sentence: str = "",
    notice: str = "",
    status: int = 200,
) -> HttpResponse:
    """Render the card; after a refusal with what was typed and the sentence at its field.

    A `notice` is of no field: it stands above the card until it is dismissed.
    """
    user = access.person(request)
    card = cards.card(escalation, user, at=timezone.now())
    inbox = inboxes.inbox(access.workspaces_of(user), request.GET.get("after", ""))
    typed = {name: request.POST.get(name, "") for name in TYPED}
    shown = {
        **typed,
        "nav": "approvals",
        "card": card,
        "escalation": escalation,
        "stages": card.stages,
        "inbox": inbox,
        "next": next((row.escalation for row in inbox.rows), None),
        "notice": notice,
        "field": field,
        "shown_at": ("amount", "comment", "refusal"),
        "sentence": sentence,
        "verdict": request.POST.get("verdict") or ("approve" if card.may_grant_all else "adjust"),
        "amount": request.POST.get("amount", card.prefilled),
        "grants": GRANTS,
        "refusals": REFUSALS,
    }
    return render(request, "approvals/detail.html", shown, status=status)
