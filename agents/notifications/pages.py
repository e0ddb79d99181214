"""Notification preferences and the delivery log.

Nothing here decides a request, and links in messages lead here only by path.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from django.contrib.auth.models import User
from django.db.models import Q
from django.http import HttpRequest, HttpResponse, QueryDict
from django.shortcuts import redirect, render
from django.utils import timezone

from agents.core.notifications import Hours, Kind, Mode, mode_of
from agents.models import Delivery, Membership, NotificationPreference, Role
from agents.models.notifications import RECIPIENTS
from agents.notifications import channels
from agents.notifications.fan_out import KEPT, set_preference
from agents.notifications.messages import BREAK_GLASS, INVITATION, NOTICES, TEST
from agents.shell import access, refusal
from agents.shell.formats import CHIPS
from agents.shell.listing import Keyset
from agents.shell.pages import BadForm, action, only, page

_LOG_PAGE = 100
_TITLES = NOTICES | {TEST: "Test", INVITATION: "Invitation", BREAK_GLASS: "Break-glass sign-in"}
_OWN = NOTICES | {Kind.ASSIGNED: "Assigned to me or my team"}
_MODES = {Mode.NOW: "at once", Mode.DIGEST: "in the digest", Mode.OFF: "never"}
_FIELDS = {"csrfmiddlewaretoken", "workspace", "for", "hears_all", "digest_at", "channel"}
_TIMES = {"quiet_from", "quiet_until"}
_TIME = re.compile(r"([01][0-9]|2[0-3]):([0-5][0-9])")


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
        set_preference(
            workspace=workspace, by=user, at=timezone.now(), **_read_preference(request.POST)
        )
    except (BadForm, refusal.Refused) as no:
        status = 403 if getattr(no, "code", "") == "not_permitted" else 422
        return _preferences(request, sentence=str(no), status=status)
    return redirect("notifications")


def _preferences(request: HttpRequest, *, sentence: str = "", status: int = 200) -> HttpResponse:
    user, known = access.person(request), channels.channels_of_members()
    boards = list(_boards(user, access.parts_of(user)))
    own = {board["channel"] for board in boards if not board["is_for_all"]}
    shown = {
        "nav": "notifications",
        "tabs": channels.tabs(),
        "boards": boards,
        "channels": known,
        "where": [one.where(user) for one in known if one.name in own],
        "modes": _MODES.items(),
        "sentence": sentence,
    }
    return render(request, "notifications/page.html", shown, status=status)


def _boards(user: User, parts: Sequence[Membership]) -> Iterator[dict[str, Any]]:
    """Yield a person's preferences by workspace, followed for admins by its defaults."""
    mine = [part.workspace_id for part in parts]
    chosen = NotificationPreference.objects.filter(Q(user=user) | Q(user=None))
    rows = {(row.workspace_id, row.user_id): row for row in chosen.filter(workspace__in=mine)}
    for part in parts:
        for whose in (user.pk, None) if part.role == Role.ADMIN else (user.pk,):
            own = rows.get((part.workspace_id, whose))
            row = own or rows.get((part.workspace_id, None)) or NotificationPreference()
            yield {
                "workspace": part.workspace,
                "is_for_all": whose is None,
                "is_chosen": own is not None,
                "events": [(kind, _OWN[kind], mode_of(kind, row.modes)) for kind in Kind],
                **{name: _clock(getattr(row, name)) for name in (*_TIMES, "digest_at")},
                "hears_all": own is not None and whose is not None and own.hears_all,
                "zone": row.zone,
                "channel": channels.channel_of_member(row.channel).name,
            }


def _read_preference(posted: QueryDict) -> dict[str, Any]:
    """Return the preferences in the form, as operations take them. Raises BadForm."""
    only(posted, _FIELDS | _TIMES | set(Kind))
    modes: Mapping[Kind, str] = {kind: posted.get(kind, "") for kind in Kind}
    if not all(mode in list(Mode) for mode in modes.values()):
        raise BadForm("modes", "Choose for each event how you are told.")
    begin, end = (_minute(posted, name) for name in ("quiet_from", "quiet_until"))
    if (begin is None) != (end is None):
        raise BadForm("quiet_from", "Quiet hours have a beginning and an end.")
    digest_at = _minute(posted, "digest_at")
    return {
        "modes": {kind: Mode(mode) for kind, mode in modes.items()},
        "hears_all": posted.get("hears_all") == "1",
        "is_for_all": posted.get("for") == "all",
        "channel": posted.get("channel", ""),
        "hours": Hours(
            begin,
            end,
            480 if digest_at is None else digest_at,
            timezone.get_current_timezone_name(),
        ),
    }


def _minute(posted: QueryDict, name: str) -> int | None:
    text = posted.get(name, "").strip()
    if not text:
        return None
    time = _TIME.fullmatch(text)
    if not time:
        raise BadForm(name, "Enter a time of day, such as 22:00.")
    return int(time[1]) * 60 + int(time[2])


def _clock(minute: int | None) -> str:
    """Return a minute of the day as a form shows it."""
    return "" if minute is None else f"{minute // 60:02}:{minute % 60:02}"


# The delivery log.


@page
def deliveries(request: HttpRequest) -> HttpResponse:
    """List deliveries with their results, newest first."""
    workspace = channels.chosen_workspace(request)
    sent = Delivery.objects.filter(workspace=workspace)
    sent = sent.select_related(*RECIPIENTS, "notification")
    listed = Keyset().page(sent, request.GET.get("before", ""), _LOG_PAGE)
    shown = {
        **channels.page_frame(request, workspace),
        "lines": [log_line(row) for row in listed.rows],
        "older": listed.older,
        "kept": KEPT.days,
    }
    return render(request, "notifications/log.html", shown)


def log_line(row: Delivery) -> dict[str, Any]:
    """Return a row of the log in words. Expects its recipient and notification loaded."""
    role, state = CHIPS["delivery"][row.state]
    what = _TITLES.get(row.notification.kind, row.notification.kind)
    to = channels.channel_of(row).recipient(row)
    return {"delivery": row, "what": what, "to": to, "role": role, "state": state}
