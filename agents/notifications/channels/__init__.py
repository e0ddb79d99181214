"""Channels: ways on which a message leaves. `settings.OPSCONSOLE_CHANNELS` names their classes.

A channel is a module or a folder with all that is its own: what it sends, its pages, the words of
its events and its rows in the record. Nothing else knows which channels there are.
"""

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple, TypeVar
from uuid import UUID

from django.conf import settings
from django.contrib.auth.models import User
from django.db.models import Model
from django.http import HttpRequest
from django.urls import URLPattern
from django.utils.module_loading import import_string

from agents.core.requests import Json
from agents.engine.runtime.database import in_own_thread
from agents.models import Delivery, Membership, Notification, Workspace
from agents.models.notifications import LONGEST_FAULT, RECIPIENTS
from agents.notifications.messages import Note
from agents.record.event_kinds import EVENTS, EventKind, Rows
from agents.shell import access

T = TypeVar("T")


class NotDelivered(Exception):
    """A failed delivery. `is_final`: it never will succeed; `is_server`: the whole server fails."""

    def __init__(self, fault: str, *, is_final: bool = False, is_server: bool = True) -> None:
        super().__init__(fault)
        self.fault, self.is_final, self.is_server = fault[:LONGEST_FAULT], is_final, is_server


class Destination(NamedTuple):
    """A recipient who is no member, and what they are notified of."""

    columns: Mapping[str, Any]  # of the outbox: its channel and itself
    kinds: Collection[str]
    team: int | None  # only of requests assigned to it


@dataclass(frozen=True)
class Message:
    """One message to one recipient, about one thing or everything that is due."""

    id: UUID
    first: Delivery  # of its rows in the outbox
    notes: Sequence[Note]


class Channel:
    """One way on which messages leave.

    Without a name it stands for a channel that was removed from the settings.
    """

    name = ""  # in the outbox and in preferences
    label = ""  # the name that members see
    recipients: Sequence[str] = ("user",)  # columns of the outbox
    most = 1  # notes in a message to a member
    page = ("", "")  # of its settings: the name of its address, and the title
    urls: Sequence[URLPattern] = ()
    events: Mapping[str, EventKind] = {}

    async def send(self, message: Message, *, at: datetime) -> None:
        """Send a message under its id. Raises NotDelivered."""
        raise NotImplementedError

    def destinations(self, workspace: int) -> list[Destination]:
        """Return the recipients who are no members."""
        return []

    def why_not(self, to: Delivery) -> str:
        """Return why a message is no longer for its recipient; "" if it is."""
        if not self.name:
            return "its channel is not set up any more"
        mine = Membership.objects.filter(workspace=to.workspace_id, user=to.user_id)
        return "" if mine.filter(user__is_active=True).exists() else "no longer a member"

    def same_server(self, to: Delivery) -> Mapping[str, Any]:
        """Return the columns of messages that wait while the server of this one fails."""
        return {"channel": self.name}

    def recipient(self, to: Delivery) -> str:
        """Return the recipient as the delivery log names them."""
        return str(to.user or to.channel)

    def where(self, user: User) -> str:
        """Return a sentence about where a member's messages go."""
        return ""

    def rows(self, workspace: Workspace) -> Rows:
        """Return its settings, to be compared with the record."""
        return {}


_GONE = Channel()


def channels() -> list[Channel]:
    """Return all channels; members who chose none get their messages by the first."""
    return [import_string(path)() for path in settings.OPSCONSOLE_CHANNELS]


def channels_of_members() -> list[Channel]:
    """Return the channels that members may choose."""
    return [channel for channel in channels() if "user" in channel.recipients]


def channel_of_member(name: str) -> Channel:
    """Return the channel that a member chose, or the first if there is no such channel."""
    known = channels_of_members()
    return next((one for one in known if one.name == name), known[0] if known else _GONE)


def channel_of(row: Delivery) -> Channel:
    """Return the channel of a row; of one without a name, the first that reaches its recipient."""
    [recipient] = [name for name in RECIPIENTS if row.recipient[name]]
    fits = (one for one in channels() if recipient in one.recipients)
    return next((one for one in fits if row.channel in ("", one.name)), _GONE)


def enter_channels() -> None:
    """Let the log word the channels' events, and the record describe their rows."""
    for channel in channels():
        EVENTS.update(channel.events)


def notify_one(
    *, channel: str, workspace: Workspace, kind: str, what: object, at: datetime, **to: Model
) -> None:
    """Put a message into the outbox that is for one recipient only."""
    about = f"{kind}:{what}"
    due = {"workspace": workspace, "due_at": at}
    notification = Notification.objects.create(**due, kind=kind, about=about, addressed_at=at)
    row = {**due, "notification": notification, "channel": channel, "key": about, "next_at": at}
    Delivery.objects.create(**row, **to)


async def in_daemon(work: Callable[..., T], *args: Any) -> T:
    """Run `work` in its own thread; cancelling the wait abandons the thread."""
    return await asyncio.wrap_future(in_own_thread("notification", work, *args))


# What the pages of notifications have in common.


def tabs() -> list[tuple[str, str]]:
    """Return the pages of notifications: the name of each one's address, and its title."""
    own = [channel.page for channel in channels() if channel.page[0]]
    return [("notifications", "Notifications"), *own, ("deliveries", "Delivery log")]


def chosen_workspace(request: HttpRequest) -> Workspace:
    """Return the workspace that an admin views. Raises PermissionDenied."""
    workspaces = access.workspaces_to(access.NOTIFY, access.person(request))
    given = request.POST if request.method == "POST" else request.GET
    return access.choose_workspace(workspaces, given.get("workspace", ""))


def page_frame(request: HttpRequest, workspace: Workspace) -> dict[str, Json]:
    workspaces = access.workspaces_to(access.NOTIFY, access.person(request))
    around = {"nav": "notifications", "tabs": tabs()}
    return {**around, "workspace": workspace, "workspaces": workspaces}
