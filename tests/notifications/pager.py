"""A channel as somebody else may add one: settings name its class."""

from datetime import datetime

from agents.notifications.channels import Channel, Message

PATH = "tests.notifications.pager.Pager"
sent: list[tuple[str, str]] = []


class Pager(Channel):
    """Keeps whom it paged, and why."""

    name, label = "pager", "Pager"

    async def send(self, message: Message, *, at: datetime) -> None:
        sent.extend((str(message.first.user), note.headline) for note in message.notes)
