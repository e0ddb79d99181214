"""Notification preferences, a workspace's webhooks, and the delivery log.

Nothing here decides a request, and links in messages lead here only by path.
"""

from __future__ import annotations

from urllib.parse import urlencode, urlsplit

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils import timezone

from agents.core.notifications import TITLES
from agents.core.requests import Json
from agents.models import Shape, Team, Webhook, Workspace
from agents.notifications.fan_out import KEPT
from agents.operations.people import notifying
from agents.shell import access, refusal
from agents.shell.pages import BadForm, action, only, page
from agents.web.notifications import pages
from agents.web.notifications.forms import read_preference, read_webhook

CHANGES = {
    "rotate": notifying.rotate_webhook,
    "remove": notifying.remove_webhook,
    "try": notifying.try_webhook,
}
SHAPES = {Shape.JSON: "JSON, signed", Shape.SLACK: "Slack", Shape.TEAMS: "Microsoft Teams"}


@page
def notifications(request: HttpRequest) -> HttpResponse:
    """Show the person's notification preferences."""
    return _preferences(request)


@action
def prefer(request: HttpRequest) -> HttpResponse:
    """Store a person's preferences, or the defaults of a workspace."""
    user = access.person(request)
    workspace = access.workspace_of(user, request.POST.get("workspace", ""))
    try:
        notifying.set_preference(
            workspace=workspace, by=user, at=timezone.now(), **read_preference(request.POST)
        )
    except (BadForm, refusal.Refused) as no:
        status = 403 if getattr(no, "code", "") == "not_permitted" else 422
        return _preferences(request, sentence=str(no), status=status)
    return redirect("notifications")


def _preferences(request: HttpRequest, *, sentence: str = "", status: int = 200) -> HttpResponse:
    user = access.person(request)
    shown = {
        "nav": "notifications",
        "boards": pages.boards(user, access.parts_of(user)),
        "modes": pages.MODES.items(),
        "sentence": sentence,
    }
    return render(request, "notifications/page.html", shown, status=status)


@page
def webhooks(request: HttpRequest) -> HttpResponse:
    """List a workspace's webhooks, with a form to add one."""
    return _webhooks(request, _workspace(request))


@action
def webhook_add(request: HttpRequest) -> HttpResponse:
    """Add a webhook and show its secret, only this once."""
    user, workspace = access.person(request), _workspace(request)
    try:
        added = notifying.add_webhook(
            workspace=workspace,
            by=user,
            at=timezone.now(),
            **read_webhook(request.POST, _teams(workspace)),
        )
    except (BadForm, refusal.Refused) as no:
        return _webhooks(request, workspace, sentence=str(no), field=no.field, status=422)
    return _webhooks(request, workspace, fresh=added)


@action
def webhook_change(request: HttpRequest, pk: int) -> HttpResponse:
    """Replace a webhook's secret, test it, or remove it."""
    user = access.person(request)
    webhook = access.webhook_to_change(user, pk)
    try:
        only(request.POST, {"csrfmiddlewaretoken", "change"})
        change = CHANGES.get(request.POST.get("change", ""))
        if change is None:
            raise BadForm("", "There is no such change. Load the page again.")
        changed = change(webhook=webhook, by=user, at=timezone.now())
    except (BadForm, refusal.Refused) as no:
        return _webhooks(request, webhook.workspace, sentence=str(no), status=422)
    if change is notifying.rotate_webhook:
        return _webhooks(request, webhook.workspace, fresh=changed)
    shown = reverse("deliveries" if change is notifying.try_webhook else "webhooks")
    return redirect(f"{shown}?{urlencode({'workspace': webhook.workspace.slug})}")


@page
def deliveries(request: HttpRequest) -> HttpResponse:
    """List deliveries with their results, newest first."""
    workspace = _workspace(request)
    lines, older = pages.deliveries(workspace, request.GET.get("before", ""))
    shown = {**_around(request, workspace), "lines": lines, "older": older, "kept": KEPT.days}
    return render(request, "notifications/log.html", shown)


def _workspace(request: HttpRequest) -> Workspace:
    found = access.workspaces_to_notify(access.person(request))
    given = request.POST if request.method == "POST" else request.GET
    return access.choose_workspace(found, given.get("workspace", ""))


def _teams(workspace: Workspace) -> list[Team]:
    return list(Team.objects.filter(workspace=workspace).order_by("name"))


def _around(request: HttpRequest, workspace: Workspace) -> dict[str, Json]:
    found = access.workspaces_to_notify(access.person(request))
    return {"nav": "notifications", "workspace": workspace, "workspaces": found}


def _webhooks(
    request: HttpRequest,
    workspace: Workspace,
    *,
    sentence: str = "",
    field: str = "",
    fresh: Webhook | None = None,
    status: int = 200,
) -> HttpResponse:
    # What was filled in is shown again only with the refusal.
    given = request.POST if sentence and "shape" in request.POST else {}
    found = Webhook.objects.filter(workspace=workspace, removed_at=None)
    rows = [
        (
            webhook,
            urlsplit(webhook.url).hostname,
            SHAPES[Shape(webhook.shape)],
            [title for kind, title in TITLES.items() if kind in webhook.kinds],
        )
        for webhook in found.select_related("team").order_by("name")
    ]
    shown = {
        **_around(request, workspace),
        "rows": rows,
        "shapes": SHAPES.items(),
        "kinds": [
            (kind, title, not given or f"kind.{kind}" in given) for kind, title in TITLES.items()
        ],
        "teams": _teams(workspace),
        "fresh": fresh,
        "given": given,
        "sentence": sentence,
        "field": field,
    }
    return render(request, "notifications/webhooks.html", shown, status=status)
