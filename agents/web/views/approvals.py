"""The inbox and the card: what waits for a person, and their decision."""

from __future__ import annotations

from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_POST, require_safe

from agents import operations
from agents.models import Escalation
from agents.web import access, reading
from agents.web.forms import BadForm, read_decision

AT_FIELD = dict.fromkeys(("no_reason", "long_reason", "bad_reason"), "comment")


@require_safe
@never_cache
@login_required
def approvals(request: HttpRequest) -> HttpResponse:
    """List what waits, soonest to expire first."""
    return render(request, "approvals/list.html", {"rows": reading.inbox(access.person(request))})


@require_safe
@never_cache
@login_required
def approval(request: HttpRequest, pk: int) -> HttpResponse:
    """Show one escalation with its evidence and, where it is open, the form."""
    return _page(request, access.escalation_for(access.person(request), pk))


@require_POST
@never_cache
@login_required
def decide(request: HttpRequest, pk: int) -> HttpResponse:
    """Decide, and show what came of it: 422 for a bad form, 409 where somebody was first."""
    user = access.person(request)
    escalation = access.escalation_to_decide(user, pk)
    try:
        wanted = read_decision(request.POST)
        operations.decide(
            escalation_id=escalation.pk,
            by=user,
            approve=wanted.approve,
            amount_minor=wanted.amount_minor,
            comment=wanted.comment,
            action_sha256=wanted.action_sha256,
            at=timezone.now(),
        )
    except BadForm as bad:
        return _page(request, escalation, field=bad.field, sentence=str(bad), status=422)
    except operations.Refused as no:
        field = AT_FIELD.get(no.code, "amount")
        return _page(request, escalation, field=field, sentence=str(no), status=422)
    except operations.AlreadyDecided:
        return _page(request, access.escalation_for(user, pk), late=True, status=409)
    return redirect("approval", pk=pk)


def _page(
    request: HttpRequest,
    escalation: Escalation,
    *,
    field: str = "",
    sentence: str = "",
    late: bool = False,
    status: int = 200,
) -> HttpResponse:
    """Render the card; after a refusal with what was typed and the sentence at its field."""
    user = access.person(request)
    card = reading.card(escalation, user, at=timezone.now())
    shown = {
        "nav": "approvals",
        "card": card,
        "escalation": escalation,
        "rows": reading.inbox(user),
        "late": late,
        "field": field,
        "sentence": sentence,
        "verdict": request.POST.get("verdict") or ("approve" if card.may_grant_all else "adjust"),
        "amount": request.POST.get("amount", card.prefilled),
        "comment": request.POST.get("comment", ""),
    }
    return render(request, "approvals/detail.html", shown, status=status)
