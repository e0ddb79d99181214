"""Record who read the record."""

from __future__ import annotations

from datetime import datetime

from django.contrib.auth.models import User
from django.db import transaction

from agents.core.requests import Json
from agents.engine.redaction import redact_in
from agents.models import Role, Workspace
from agents.models.record import Entry, append_events
from agents.shell.refusal import require_member


def record_export(*, workspace: Workspace, by: User, facts: Json, at: datetime) -> None:
    """Record that a person exported the record, and the filter. Raises Refused."""
    said = Entry("audit.exported", redact_in(workspace, facts), by.get_username())
    with transaction.atomic():
        require_member(workspace, by, Role.AUDITOR, Role.ADMIN)
        append_events([said], workspace_id=workspace.pk, at=at)


def record_command_export(*, workspace: Workspace, facts: Json, at: datetime) -> None:
    """Record an export on the command line, where nobody is signed in."""
    with transaction.atomic():
        append_events([Entry("audit.exported", facts)], workspace_id=workspace.pk, at=at)
