"""Invitations that end without being accepted, and whose addresses are forgotten."""

from __future__ import annotations

from datetime import datetime

from django.contrib.auth.models import User
from django.db import transaction

from agents.models import Invitation, InvitationState, Workspace
from agents.models.record import Entry, append_events

_BATCH = 100


def expire_invitations(*, at: datetime) -> int:
    """End invitations that nobody accepted in time. Return their number."""
    due = Invitation.objects.filter(state=InvitationState.OPEN, expires_at__lte=at)
    found = list(due.select_related("workspace").order_by("expires_at", "pk")[:_BATCH])
    return sum(end_invitation(one, InvitationState.EXPIRED, at=at) for one in found)


def revoke_invitations_of(by: User, workspace: Workspace, *, at: datetime, actor: str) -> None:
    """End the open invitations of somebody who is no longer an admin of a workspace."""
    sent = Invitation.objects.filter(workspace=workspace, by=by, state=InvitationState.OPEN)
    for one in sent.order_by("pk"):
        end_invitation(one, InvitationState.REVOKED, at=at, actor=actor)


def end_invitation(
    invitation: Invitation, state: InvitationState, *, at: datetime, actor: str = ""
) -> bool:
    """End an invitation and forget its address. Return False if it has already ended."""
    with transaction.atomic():
        Workspace.objects.select_for_update().get(pk=invitation.workspace_id)
        still = Invitation.objects.filter(pk=invitation.pk, state=InvitationState.OPEN)
        if not still.update(state=state, email=""):
            return False
        facts = {"invitation": invitation.pk}
        said = Entry(f"invitation.{state.value}", facts, actor)
        append_events([said], workspace_id=invitation.workspace_id, at=at)
        return True
