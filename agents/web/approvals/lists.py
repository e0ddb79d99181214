"""The queue's lists: open requests by view, and decided ones."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse, QueryDict
from django.shortcuts import get_object_or_404, redirect, render
from django.utils import timezone

from agents.core.requests import Json
from agents.operations.people import saved_views
from agents.shell import access, refusal
from agents.shell.formats import day_begun
from agents.shell.pages import action, page
from agents.web.approvals import inbox as inboxes
from agents.web.approvals import queue as queues
from agents.web.approvals.choices import filter_fields
from agents.web.approvals.just_decided import strip_of
from agents.web.approvals.position import QueuePosition, line_of
from agents.web.approvals.queue import QueueAddress, read_queue
from agents.web.approvals.selection import Reviewer, reviewer


@page
def approvals(request: HttpRequest) -> HttpResponse:
    """List the open requests in a view of the queue."""
    return _list(request, read_queue(request.GET))


@page
def decided(request: HttpRequest) -> HttpResponse:
    """List decided requests, newest first."""
    outcome, before = request.GET.get("outcome", ""), request.GET.get("before", "")
    by_me = request.GET.get("by", "") == "me"
    user = access.person(request)
    found, older = inboxes.decided_page(user, before, outcome, by_me=by_me)
    shown = {
        **_views(line_of(queues.WHOLE, reviewer(user, at=timezone.now()), views=queues.VIEWS)),
        "decided": found,
        "older": older,
        "outcome": outcome if outcome in inboxes.OUTCOMES else "",
        "outcomes": inboxes.OUTCOMES,
        "by": "me" if by_me else "",
        "nav": "approvals",
    }
    return render(request, "approvals/decided.html", shown)


def _list(
    request: HttpRequest, queue: QueueAddress, *, sentence: str = "", status: int = 200
) -> HttpResponse:
    user = access.person(request)
    who, saved = reviewer(user, at=timezone.now()), list(access.views_of(user))
    after, since = (request.GET.get(name, "") for name in ("after", "since"))
    inbox = inboxes.inbox(who, queue, after, since=since)
    is_empty = not inbox.rows
    shown = {
        "nav": "approvals",
        "queue": queue,
        "inbox": inbox,
        "unanswered": _unanswered(who) if is_empty else (),
        "address": queue.address(after=after, done=request.GET.get("done", "")),
        "next_page": queue.address(after=str(inbox.next)) if inbox.next else "",
        **_views(inbox.line),
        "orders": queues.ORDERS,
        "saved": saved,
        "current": next((view for view in saved if view.query == queue.query), None),
        "shareable": [part.workspace for part in who.parts if part.role in access.DECIDES],
        "sentence": sentence,
        "fields": filter_fields(queue, who),
        "after": after,
        "tally": inbox.line.tally if queue.given else None,
        "strip": strip_of(user, request.GET.get("done", "")),
    }
    return render(request, "approvals/list.html", shown, status=status)


def _unanswered(who: Reviewer) -> list[tuple[int, str]]:
    """Return the requests that expired today and their subjects, newest first."""
    expired = inboxes.expired_since(who.workspaces, day_begun(who.at))
    newest = expired.order_by("-expires_at", "-pk")
    return list(newest.values_list("pk", "run__subject_label")[: inboxes.INBOX])


@action
def save_view(request: HttpRequest) -> HttpResponse:
    """Save the form's address as a view; 422 with the list if it cannot be saved."""
    user, queue = access.person(request), read_queue(QueryDict(request.POST.get("query", "")))
    try:
        slug = request.POST.get("workspace", "")
        workspace = access.choose_workspace(
            [part.workspace for part in access.parts_of(user)], slug
        )
        saved_views.save_view(
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
        saved_views.delete_view(view=view, by=user)
    except refusal.Refused as no:
        return _list(request, queue, sentence=str(no), status=409)
    return redirect(queue.address())


def _views(line: QueuePosition) -> dict[str, Json]:
    """Return each view with its counts, and the number of all open requests."""
    return {
        "views": [(name, title, line.views[name]) for name, title in queues.VIEWS.items()],
        "waiting": line.waiting,
    }
