"""Pages on which admins change webhooks, and these changes, each of which is on record."""

import secrets
from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Any
from urllib.parse import urlencode, urlsplit
from uuid import uuid4

from django.contrib.auth.models import User
from django.db import transaction
from django.http import HttpRequest, HttpResponse, QueryDict
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.utils import timezone

from agents.core.json_forms import has_hidden, sha256
from agents.core.notifications import Kind
from agents.core.requests import Json
from agents.models import Role, Shape, Team, Webhook, Workspace
from agents.models.notifications import check_of, secret_of
from agents.notifications.channels import chosen_workspace, notify_one, page_frame
from agents.notifications.channels.webhooks.calls import BadAddress, read_url
from agents.notifications.messages import NOTICES, TEST
from agents.shell import access
from agents.shell.pages import BadForm, action, only, page
from agents.shell.refusal import Refused, require_member

_MOST = 20  # webhooks of a workspace
_LONGEST_NAME = 80  # characters
_SHAPES = {Shape.JSON: "JSON, signed", Shape.SLACK: "Slack", Shape.TEAMS: "Microsoft Teams"}
_WEBHOOK = {"csrfmiddlewaretoken", "workspace", "name", "url", "shape", "team"}


@page
def webhooks(request: HttpRequest) -> HttpResponse:
    """List a workspace's webhooks, with a form to add one."""
    return _webhooks(request, chosen_workspace(request))


@action
def webhook_add(request: HttpRequest) -> HttpResponse:
    """Add a webhook and show its secret, only this once."""
    user, workspace = access.person(request), chosen_workspace(request)
    try:
        added = add_webhook(
            workspace=workspace,
            by=user,
            at=timezone.now(),
            **_read_webhook(request.POST, _teams(workspace)),
        )
    except (BadForm, Refused) as no:
        return _webhooks(request, workspace, sentence=str(no), field=no.field, status=422)
    return _webhooks(request, workspace, fresh=added)


@action
def webhook_change(request: HttpRequest, pk: int) -> HttpResponse:
    """Replace a webhook's secret, test it, or remove it."""
    user = access.person(request)
    mine = Webhook.objects.filter(workspace__in=access.workspaces_to(access.NOTIFY, user))
    webhook = get_object_or_404(mine.select_related("workspace"), pk=pk)
    try:
        only(request.POST, {"csrfmiddlewaretoken", "change"})
        change = _CHANGES.get(request.POST.get("change", ""))
        if change is None:
            raise BadForm("", "There is no such change. Load the page again.")
        changed = change(webhook=webhook, by=user, at=timezone.now())
    except (BadForm, Refused) as no:
        return _webhooks(request, webhook.workspace, sentence=str(no), status=422)
    if change is rotate_webhook:
        return _webhooks(request, webhook.workspace, fresh=changed)
    shown = reverse("deliveries" if change is try_webhook else "webhooks")
    return redirect(f"{shown}?{urlencode({'workspace': webhook.workspace.slug})}")


def _webhooks(
    request: HttpRequest,
    workspace: Workspace,
    *,
    sentence: str = "",
    field: str = "",
    fresh: Webhook | None = None,
    status: int = 200,
) -> HttpResponse:
    # The form is filled in again only with the refusal.
    given = request.POST if sentence and "shape" in request.POST else {}
    webhooks = Webhook.objects.filter(workspace=workspace, removed_at=None)
    rows = [
        (
            webhook,
            urlsplit(webhook.url).hostname,
            _SHAPES[Shape(webhook.shape)],
            [title for kind, title in NOTICES.items() if kind in webhook.kinds],
        )
        for webhook in webhooks.select_related("team").order_by("name")
    ]
    shown = {
        **page_frame(request, workspace),
        "rows": rows,
        "shapes": _SHAPES.items(),
        "kinds": [
            (kind, title, not given or f"kind.{kind}" in given) for kind, title in NOTICES.items()
        ],
        "teams": _teams(workspace),
        "fresh": fresh,
        "given": given,
        "sentence": sentence,
        "field": field,
    }
    return render(request, "notifications/webhooks.html", shown, status=status)


def _read_webhook(posted: QueryDict, teams: Sequence[Team]) -> dict[str, Any]:
    """Return the new webhook in the form, as operations take it. Raises BadForm."""
    only(posted, _WEBHOOK | {f"kind.{kind}" for kind in Kind})
    shape = posted.get("shape", "")
    if shape not in list(Shape):
        raise BadForm("shape", "Choose a format.")
    slug = posted.get("team", "")
    team = next((team for team in teams if team.slug == slug), None)
    if slug and team is None:
        raise BadForm("team", "There is no such team.")
    return {
        "name": posted.get("name", ""),
        "url": posted.get("url", "").strip(),
        "shape": Shape(shape),
        "team": team,
        "kinds": [kind for kind in Kind if posted.get(f"kind.{kind}") == "1"],
    }


def _teams(workspace: Workspace) -> list[Team]:
    return list(Team.objects.filter(workspace=workspace).order_by("name"))


# The changes.


def add_webhook(
    *,
    workspace: Workspace,
    by: User,
    name: str,
    url: str,
    shape: Shape,
    kinds: Collection[Kind],
    at: datetime,
    team: Team | None = None,
) -> Webhook:
    """Add a webhook. The caller shows its secret, once. Raises Refused."""
    require_member(workspace, by, Role.ADMIN)
    name = name.strip()
    if not name or len(name) > _LONGEST_NAME or has_hidden(name):
        raise Refused("bad_name", "A name is a line of up to 80 characters.", field="name")
    if team and team.workspace_id != workspace.pk:
        raise Refused("no_team", "That team is not of this workspace.", field="team")
    if not kinds:
        raise Refused("no_kinds", "Choose at least one event.", field="kinds")
    try:
        host = read_url(url).hostname
        if len(url) > 1000:
            raise BadAddress("An address has at most 1000 characters.")
    except BadAddress as no:
        raise Refused("bad_url", str(no), field="url") from None
    with transaction.atomic():
        Workspace.objects.select_for_update().get(pk=workspace.pk)  # two may be added concurrently
        there = Webhook.objects.filter(workspace=workspace, removed_at=None)
        if there.filter(name=name).exists():
            raise Refused("taken", f"There is a webhook {name} already.", field="name")
        if there.count() >= _MOST:
            raise Refused("too_many", f"A workspace has at most {_MOST} webhooks.")
        salt = secrets.token_hex(16)
        webhook = Webhook.objects.create(
            workspace=workspace,
            name=name,
            url=url,
            shape=shape,
            kinds=[kind.value for kind in Kind if kind in kinds],
            team=team,
            salt=salt,
            salted_at=at,
            check_sha256=check_of(secret_of(salt)),
        )
        facts: Json = {"name": name, "host": host, "shape": shape.value, "kinds": webhook.kinds}
        facts["url_sha256"] = sha256(url)  # hashed, as its path may be a secret
        facts |= {"team": team.slug} if team else {}
        _say(workspace, "webhook.added", facts, by, at)
    return webhook


def rotate_webhook(*, webhook: Webhook, by: User, at: datetime) -> Webhook:
    """Replace a webhook's secret; the old one signs beside it for a day. Raises Refused."""
    with transaction.atomic():
        webhook, workspace = _lock_webhook(webhook, by)
        is_known = check_of(webhook.secret) == webhook.check_sha256
        webhook.former_salt = webhook.salt if is_known else ""
        webhook.salt, webhook.salted_at = secrets.token_hex(16), at
        webhook.check_sha256 = check_of(webhook.secret)
        webhook.save(update_fields=["former_salt", "salt", "salted_at", "check_sha256"])
        _say(workspace, "webhook.rotated", {"name": webhook.name}, by, at)
    return webhook


def remove_webhook(*, webhook: Webhook, by: User, at: datetime) -> Webhook:
    """Remove a webhook and its address. Raises Refused."""
    with transaction.atomic():
        webhook, workspace = _lock_webhook(webhook, by)
        webhook.removed_at, webhook.url = at, ""
        webhook.save(update_fields=["removed_at", "url"])
        _say(workspace, "webhook.removed", {"name": webhook.name}, by, at)
    return webhook


def try_webhook(*, webhook: Webhook, by: User, at: datetime) -> Webhook:
    """Send a test to a webhook. Raises Refused."""
    with transaction.atomic():
        webhook, workspace = _lock_webhook(webhook, by)
        test: Json = {"kind": TEST, "what": uuid4().hex, "webhook": webhook}
        notify_one(channel="webhook", workspace=workspace, at=at, **test)
        _say(workspace, "webhook.tried", {"name": webhook.name}, by, at)
    return webhook


def _lock_webhook(webhook: Webhook, by: User) -> tuple[Webhook, Workspace]:
    # The workspace first, as every writer of its record does.
    workspace = Workspace.objects.select_for_update().get(pk=webhook.workspace_id)
    require_member(workspace, by, Role.ADMIN)
    locked = Webhook.objects.filter(pk=webhook.pk, removed_at=None).first()
    if locked is None:
        raise Refused("removed", "This webhook was removed already.")
    return locked, workspace


def _say(workspace: Workspace, kind: str, facts: Json, by: User, at: datetime) -> None:
    workspace.say(kind, at=at, facts=facts, actor=by.get_username())


_CHANGES = {"rotate": rotate_webhook, "remove": remove_webhook, "try": try_webhook}
