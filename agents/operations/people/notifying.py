"""Change notification preferences and webhooks; each change is on record."""

from __future__ import annotations

import secrets
from collections.abc import Collection, Mapping
from datetime import datetime
from uuid import uuid4

from django.contrib.auth.models import User
from django.core.exceptions import ValidationError
from django.core.validators import validate_email
from django.db import transaction

from agents.core.actions import has_hidden
from agents.core.digest import sha256
from agents.core.notifications import DAY, Hours, Kind, Mode
from agents.core.requests import Json
from agents.models import (
    Delivery,
    Notification,
    NotificationPreference,
    Role,
    Shape,
    Team,
    Webhook,
    Workspace,
)
from agents.models.notifications import check_of, secret_of
from agents.models.record import Entry, append_events
from agents.notifications.messages import TEST
from agents.notifications.webhooks import BadAddress, read_url
from agents.shell.refusal import Refused, require_member

MOST = 20  # webhooks of a workspace
LONGEST_NAME = 80  # characters


def set_preference(
    *,
    workspace: Workspace,
    by: User,
    modes: Mapping[Kind, Mode],
    hours: Hours,
    at: datetime,
    hears_all: bool = False,
    is_for_all: bool = False,
) -> None:
    """Set a person's preferences, or as an admin the workspace's defaults. Raises Refused."""
    require_member(workspace, by, *((Role.ADMIN,) if is_for_all else Role))
    minutes = (hours.digest_at, hours.quiet_from or 0, hours.quiet_until or 0)
    if not all(0 <= minute < DAY for minute in minutes):
        raise Refused("bad_hours", "Enter a time of day, such as 22:00.")
    chosen = {kind.value: mode.value for kind, mode in modes.items()}
    columns = {
        "modes": chosen,
        "hears_all": hears_all,
        "quiet_from": hours.quiet_from,
        "quiet_until": hours.quiet_until,
        "digest_at": hours.digest_at,
        "zone": hours.zone,
    }
    whom = None if is_for_all else by
    with transaction.atomic():
        NotificationPreference.objects.update_or_create(
            workspace=workspace, user=whom, defaults=columns
        )
        facts = {"of": by.get_username() if whom else "", **columns}
        _say(workspace, "notifications.set", facts, by, at)


def set_email(*, workspace: Workspace, user: User, email: str, at: datetime, actor: str) -> None:
    """Set a person's email address; "": none. The address itself is not recorded."""
    try:
        if email:
            validate_email(email)
    except ValidationError:
        raise Refused("bad_email", "That is not the address of a mailbox.") from None
    with transaction.atomic():
        require_member(workspace, user, *Role)
        User.objects.filter(pk=user.pk).update(email=email)
        facts = {"user": user.get_username(), "email": bool(email)}
        append_events(
            [Entry("notifications.address", facts, actor)], workspace_id=workspace.pk, at=at
        )


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
    if not name or len(name) > LONGEST_NAME or has_hidden(name):
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
        if there.count() >= MOST:
            raise Refused("too_many", f"A workspace has at most {MOST} webhooks.")
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
        found, workspace = _lock_webhook(webhook, by)
        is_known = check_of(found.secret) == found.check_sha256
        found.former_salt = found.salt if is_known else ""
        found.salt, found.salted_at = secrets.token_hex(16), at
        found.check_sha256 = check_of(found.secret)
        found.save(update_fields=["former_salt", "salt", "salted_at", "check_sha256"])
        _say(workspace, "webhook.rotated", {"name": found.name}, by, at)
    return found


def remove_webhook(*, webhook: Webhook, by: User, at: datetime) -> Webhook:
    """Remove a webhook and its address. Raises Refused."""
    with transaction.atomic():
        found, workspace = _lock_webhook(webhook, by)
        found.removed_at, found.url = at, ""
        found.save(update_fields=["removed_at", "url"])
        _say(workspace, "webhook.removed", {"name": found.name}, by, at)
    return found


def try_webhook(*, webhook: Webhook, by: User, at: datetime) -> Webhook:
    """Send a test to a webhook. Raises Refused."""
    with transaction.atomic():
        found, workspace = _lock_webhook(webhook, by)
        about = uuid4().hex
        notification = Notification.objects.create(
            workspace=workspace, kind=TEST, about=about, due_at=at, addressed_at=at
        )
        Delivery.objects.create(
            workspace=workspace,
            notification=notification,
            webhook=found,
            key=f"{TEST}:{about}",
            due_at=at,
            next_at=at,
        )
        _say(workspace, "webhook.tried", {"name": found.name}, by, at)
    return found


def _lock_webhook(webhook: Webhook, by: User) -> tuple[Webhook, Workspace]:
    # The workspace first, as every writer of its record does.
    workspace = Workspace.objects.select_for_update().get(pk=webhook.workspace_id)
    require_member(workspace, by, Role.ADMIN)
    found = Webhook.objects.filter(pk=webhook.pk, removed_at=None).first()
    if found is None:
        raise Refused("removed", "This webhook was removed already.")
    return found, workspace


def _say(workspace: Workspace, kind: str, facts: Json, by: User, at: datetime) -> None:
    append_events([Entry(kind, facts, by.get_username())], workspace_id=workspace.pk, at=at)
