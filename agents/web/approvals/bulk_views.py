"""Reject many requests at once: the page, its form and the result of each."""

from __future__ import annotations

from uuid import UUID, uuid4

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils import timezone

from agents.core.money import BadAmount, format_money, minor_of_text
from agents.core.states import EscalationState
from agents.core.units import with_unit
from agents.models import Escalation
from agents.operations.requests import rejecting
from agents.shell import access, refusal
from agents.shell.pages import BadForm, NotOurForm, action, page, whole_number
from agents.web.approvals import bulk as bulks
from agents.web.approvals.queue import QueueAddress, read_queue

TOTAL = "total."
ONCE = {"csrfmiddlewaretoken", "token", "refusal", "ready_refusal"}


@page
def bulk(request: HttpRequest) -> HttpResponse:
    """Show the first requests of a filtered view, to be rejected for one reason."""
    return _show(request, read_queue(request.GET))


@action
def bulk_reject(request: HttpRequest) -> HttpResponse:
    """Reject the ticked requests one by one; 422 for a form that cannot be acted on."""
    user, queue = access.person(request), read_queue(request.GET)
    bulks.who_rejects(user)
    try:
        token, comment, items = _read_form(request)
        held = _requests_of(request, queue, [pk for pk, _ in items])
        _check_totals(request, held)
        # If it is sent twice, the second call continues with what the first has not reached.
        told = rejecting.told_in_bulk(token, [one.run_id for one in held])
        if left := [item for item in items if item[0] not in told]:
            rejecting.reject_many(
                items=left, by=user, comment=comment, bulk=token, now=timezone.now
            )
    except BadForm as bad:
        return _show(request, queue, field=bad.field, sentence=str(bad))
    except refusal.Refused as no:
        field = "refusal" if no.code != "too_many" else "item"
        return _show(request, queue, field=field, sentence=str(no))
    keys = ",".join(str(pk) for pk, _ in items)
    result = reverse("bulk-result", args=[token])
    return redirect(f"{result}?{queue.other(of=keys)}")


@page
def bulk_result(request: HttpRequest, token: UUID) -> HttpResponse:
    """Show what happened to each request of a bulk rejection."""
    listed = (whole_number(key) for key in request.GET.get("of", "").split(","))
    keys = [key for key in listed if key is not None]
    user, queue = access.person(request), read_queue(request.GET)
    found = bulks.outcomes_of(user, str(token), keys)
    rejected = [one.escalation for one in found if not one.why]
    shown = {
        "nav": "approvals",
        "queue": queue,
        "has_next": bulks.has_next(queue, user),
        "outcomes": found,
        "rejected": rejected,
        "left": [one for one in found if one.why],
        "totals": bulks.in_words(bulks.totals(rejected)),
    }
    return render(request, "approvals/bulk_result.html", shown)


def _show(
    request: HttpRequest, queue: QueueAddress, *, field: str = "", sentence: str = ""
) -> HttpResponse:
    who = bulks.who_rejects(access.person(request))
    turn, posted = bulks.turn_of(queue, who), request.POST
    ticked = posted.getlist("item") if posted else [c.item for c in turn.candidates if c.is_ticked]
    shown = {
        "nav": "approvals",
        "queue": queue,
        "turn": turn,
        "ticked": ticked,
        "totals": bulks.in_words(
            bulks.totals(c.row.escalation for c in turn.candidates if c.item in ticked)
        ),
        "measures": [(name, posted.get(f"{TOTAL}{name}", "")) for name in turn.measures],
        "token": posted.get("token") or uuid4(),
        "field": field,
        "sentence": sentence,
        "refusal": posted.get("refusal", ""),
        "ready_refusal": posted.get("ready_refusal", ""),
        "most": rejecting.MOST_AT_ONCE,
    }
    return render(request, "approvals/bulk.html", shown, status=422 if sentence else 200)


def _read_form(request: HttpRequest) -> tuple[str, str, list[tuple[int, str]]]:
    """Return token, reason and ticked requests. Raises BadForm."""
    posted = request.POST
    names = {name for name in posted if not name.startswith(TOTAL)}
    twice = [name for name in posted if name != "item" and len(posted.getlist(name)) > 1]
    if twice or names - ONCE - {"item"}:
        raise NotOurForm("", "The form holds fields that it should not. Load the page again.")
    try:
        token = str(UUID(posted.get("token", "")))
    except ValueError:
        raise BadForm("", "The form is incomplete. Load the page again.") from None
    items = []
    for item in dict.fromkeys(posted.getlist("item")):
        key, _, seen = item.partition(".")
        pk = whole_number(key)
        if pk is None or not seen:
            raise NotOurForm("", "The form holds fields that it should not. Load the page again.")
        items.append((pk, seen))
    if not items:
        raise BadForm("item", "Tick at least one request.")
    comment = ". ".join(
        text for name in ("ready_refusal", "refusal") if (text := posted.get(name, "").strip())
    )
    if not comment:
        raise BadForm("refusal", "Enter a reason.")
    return token, comment, items


def _requests_of(request: HttpRequest, queue: QueueAddress, keys: list[int]) -> list[Escalation]:
    """Return the ticked requests, open or not, all of one rule and shape."""
    user = access.person(request)
    mine = access.escalations_of(user).filter(workspace__in=access.decides_in(user))
    held = list(mine.filter(pk__in=keys[: rejecting.MOST_AT_ONCE + 1]))
    rules = {one.review["deciding"]["rule"] for one in held}
    shapes = {(one.kind, one.action.get("name")) for one in held}
    if rules != {queue.given.get("rule")} or len(shapes) != 1 or len(held) != len(keys):
        raise BadForm("item", "These requests are not of one rule and one kind. Load them again.")
    return held


def _check_totals(request: HttpRequest, held: list[Escalation]) -> None:
    """Refuse a wrong total of the ticked requests; typing it shows that the person saw it."""
    wanted = bulks.totals(held)
    for name, total in wanted.items():
        typed = request.POST.get(f"{TOTAL}{name}", "").strip()
        try:
            found = whole_number(typed) if name == bulks.COUNT else minor_of_text(typed, name)
        except BadAmount:
            found = None
        shown = str(total) if name == bulks.COUNT else format_money(total, name)
        if found != total and typed not in (shown, shown.removeprefix(f"{name} ")):
            # The page that is shown again no longer lists what was decided in the meantime.
            left = [one for one in held if one.state == EscalationState.OPEN] or held
            ticked = with_unit(len(left), "requests")
            totals = bulks.in_words(bulks.totals(left))
            told = f"You ticked {ticked}: {totals}. Type this total to go on."
            raise BadForm(f"{TOTAL}{name}", told)
