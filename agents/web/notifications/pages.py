"""The data of the pages about notifications."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from django.contrib.auth.models import User
from django.db.models import Q

from agents.core.notifications import TITLES, Kind, Mode, mode_of
from agents.models import (
    Delivery,
    DeliveryState,
    Membership,
    Notification,
    NotificationPreference,
    Role,
    Workspace,
)
from agents.notifications.messages import INVITATION, TEST
from agents.shell.pages import whole_number
from agents.web.notifications.forms import clock

LOG_PAGE = 100
STATES = {
    DeliveryState.WAITING: ("waiting", "Waiting"),
    DeliveryState.SENT: ("approve", "Sent"),
    DeliveryState.FAILED: ("block", "Given up"),
    DeliveryState.DROPPED: ("neutral", "Not sent"),
}


@dataclass(frozen=True)
class PreferenceBoard:
    """A person's preferences in a workspace, or the workspace's defaults."""

    workspace: Workspace
    is_for_all: bool
    is_chosen: bool
    events: Sequence[tuple[str, str, str]]  # kind, title, mode
    quiet_from: str
    quiet_until: str
    digest_at: str
    hears_all: bool
    zone: str


def boards(user: User, parts: Sequence[Membership]) -> list[PreferenceBoard]:
    """Return a person's preferences by workspace, followed for admins by its defaults."""
    mine = [part.workspace_id for part in parts]
    rows = NotificationPreference.objects.filter(Q(user=user) | Q(user=None), workspace__in=mine)
    said = {(row.workspace_id, row.user_id): row for row in rows}
    found = []
    for part in parts:
        common = said.get((part.workspace_id, None))
        own = said.get((part.workspace_id, user.pk))
        found.append(_board(part.workspace, own or common, is_chosen=own is not None))
        if part.role == Role.ADMIN:
            found.append(_board(part.workspace, common, is_chosen=bool(common), is_for_all=True))
    return found


def _board(
    workspace: Workspace,
    row: NotificationPreference | None,
    *,
    is_chosen: bool,
    is_for_all: bool = False,
) -> PreferenceBoard:
    said = row or NotificationPreference(workspace=workspace)
    return PreferenceBoard(
        workspace,
        is_for_all,
        is_chosen,
        [(kind.value, _OWN[kind], mode_of(kind, said.modes).value) for kind in Kind],
        clock(said.quiet_from),
        clock(said.quiet_until),
        clock(said.digest_at),
        said.hears_all and not is_for_all and is_chosen,
        said.zone,
    )


_OWN = {**TITLES, Kind.ASSIGNED: "Assigned to me or my team"}
MODES = {Mode.NOW: "at once", Mode.DIGEST: "in the digest", Mode.OFF: "never"}


@dataclass(frozen=True)
class LogLine:
    """One row of the delivery log."""

    delivery: Delivery
    what: str
    to: str
    role: str
    state: str


def deliveries(workspace: Workspace, before: str) -> tuple[list[LogLine], str]:
    """Return a page of the delivery log, newest first, and the beginning of the next."""
    found = Delivery.objects.filter(workspace=workspace)
    if (start := whole_number(before)) is not None:
        found = found.filter(pk__lt=start)
    rows = found.select_related("user", "webhook", "invitation", "notification").order_by("-pk")
    page = list(rows[: LOG_PAGE + 1])
    lines = [log_line(row) for row in page[:LOG_PAGE]]
    return lines, str(page[LOG_PAGE - 1].pk) if len(page) > LOG_PAGE else ""


def log_line(row: Delivery) -> LogLine:
    """Return a row of the log in words. Expects its user, webhook and notification loaded."""
    role, state = STATES[DeliveryState(row.state)]
    return LogLine(row, _title(row.notification), _recipient(row), role, state)


def _title(notification: Notification) -> str:
    if notification.kind == TEST:
        return "Test"
    if notification.kind == INVITATION:
        return "Invitation"
    known = notification.kind in list(Kind)
    return TITLES[Kind(notification.kind)] if known else notification.kind


def _recipient(row: Delivery) -> str:
    if row.user is not None:
        return row.user.get_username()
    if row.invitation is not None:
        return row.invitation.email or "an invited person"
    return f"webhook {row.webhook}"
