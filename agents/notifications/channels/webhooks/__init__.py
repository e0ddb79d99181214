"""Webhooks: addresses that a workspace calls about its events."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, cast
from urllib.parse import urlsplit

from django.urls import path

from agents.core.json_forms import sha256
from agents.models import Delivery, Webhook, Workspace
from agents.notifications.channels import Channel, Destination, Message
from agents.notifications.channels.webhooks import admin, calls
from agents.record.event_kinds import Derived, EventKind, Row, Rows, known_facts


def _added(rows: Rows, facts: Row, event: Row) -> None:
    columns = known_facts(facts, "host", "shape", "kinds", "url_sha256")
    columns |= {"team": facts.get("team", ""), "salted_at": event["at"]}
    rows[f"webhook {facts['name']}"] = columns


def _rotated(rows: Rows, facts: Row, event: Row) -> None:
    rows[f"webhook {facts['name']}"]["salted_at"] = event["at"]


class Webhooks(Channel):
    """Signed calls of addresses that admins add; each answers for itself."""

    name = "webhook"
    recipients = ("webhook",)
    page = ("webhooks", "Webhooks")
    urls = (
        path("webhooks/", admin.webhooks, name="webhooks"),
        path("webhooks/add/", admin.webhook_add, name="webhook-add"),
        path("webhooks/<int:pk>/change/", admin.webhook_change, name="webhook-change"),
    )
    events = {
        "webhook.added": EventKind("Webhook added", "Added the webhook {name} to {host}.", _added),
        "webhook.rotated": EventKind(
            "Webhook secret renewed", "Made a new secret for the webhook {name}.", _rotated
        ),
        "webhook.removed": EventKind(
            "Webhook removed",
            "Removed the webhook {name}.",
            lambda rows, facts, _: rows.pop(f"webhook {facts['name']}"),
        ),
        "webhook.tried": EventKind("Webhook tested", "Sent a test to the webhook {name}."),
    }

    async def send(self, message: Message, *, at: datetime) -> None:
        webhook, key = cast("Webhook", message.first.webhook), str(message.id)
        body = calls.body_of(message.notes[0], webhook.shape, message=key, at=at)
        await calls.call(webhook, body, message=key, at=at)

    def destinations(self, workspace: int) -> list[Destination]:
        webhooks = Webhook.objects.filter(workspace=workspace, removed_at=None).order_by("pk")
        own = {"channel": self.name}
        return [Destination({**own, "webhook": one}, one.kinds, one.team_id) for one in webhooks]

    def why_not(self, to: Delivery) -> str:
        return "the webhook was removed" if to.webhook and to.webhook.removed_at else ""

    def same_server(self, to: Delivery) -> Mapping[str, Any]:
        return {"webhook": to.webhook_id}

    def recipient(self, to: Delivery) -> str:
        return f"webhook {to.webhook}"

    def rows(self, workspace: Workspace) -> Rows:
        webhooks = Webhook.objects.filter(workspace=workspace, removed_at=None).order_by("pk")
        return {f"webhook {one.name}": _row(one) for one in webhooks.select_related("team")}


def _row(webhook: Webhook) -> Row:
    team = webhook.team
    return {
        "host": urlsplit(webhook.url).hostname,
        "shape": webhook.shape,
        "kinds": webhook.kinds,
        "url_sha256": sha256(webhook.url),
        "team": team.slug if team else "",
        "workspace of its team": Derived(team and team.workspace_id, team and webhook.workspace_id),
        "salted_at": webhook.salted_at,
    }
