"""Save an address of the queue under a name, for oneself or for a workspace."""

from __future__ import annotations

from datetime import datetime

from django.contrib.auth.models import User
from django.db import transaction

from agents.engine.redaction import redact_in
from agents.models import DECIDES, Membership, Role, SavedView, Workspace
from agents.shell.refusal import Refused, check_text, require_member

MAX_NAME = 40  # characters
MAX_QUERY = 1000
MOST = 30  # of one person


def save_view(
    *, by: User, name: str, query: str, at: datetime, workspace: Workspace | None = None
) -> SavedView:
    """Save a view, replacing one's own of that name. Raises Refused.

    With a workspace its members see it too; only a person who may decide there can share one.
    """
    name = " ".join(name.split())
    if not name or len(name) > MAX_NAME:
        raise Refused("bad_name", f"Give the view a name of at most {MAX_NAME} characters.")
    check_text(name, most=MAX_NAME, what="name")
    if len(query) > MAX_QUERY:
        raise Refused("long_query", "This filter is too long to save.")
    for part in Membership.objects.filter(user=by).select_related("workspace__policy"):
        if redact_in(part.workspace, [name, query]) != [name, query]:
            raise Refused("masked", "A view is kept as typed: leave out what the policy masks.")
    if workspace:
        require_member(workspace, by, *DECIDES)
    with transaction.atomic():
        User.objects.select_for_update().get(pk=by.pk)  # one at a time, so that MOST holds
        own = SavedView.objects.filter(owner=by)
        if not own.filter(name=name).exists() and own.count() >= MOST:
            raise Refused("many_views", f"You have saved {MOST} views. Delete one first.")
        values = {"query": query, "workspace": workspace, "created_at": at}
        return own.update_or_create(owner=by, name=name, defaults=values)[0]


def delete_view(*, view: SavedView, by: User) -> None:
    """Delete one's own view or, as an admin, a shared one. Raises Refused."""
    is_admin = Membership.objects.filter(
        workspace=view.workspace, user=by, role=Role.ADMIN
    ).exists()
    if view.owner_id != by.pk and not (view.workspace_id and is_admin):
        raise Refused("not_yours", "Only the person who shared a view, or an admin, can delete it.")
    view.delete()
