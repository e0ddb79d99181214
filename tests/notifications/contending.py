"""What six workers do at the same moment."""

from datetime import timedelta

from django.utils import timezone

from agents.notifications.fan_out import share_out
from agents.notifications.outbox import take


def share() -> int:
    """Address the notifications due in an hour."""
    return share_out(at=timezone.now() + timedelta(hours=1))


def take_messages() -> list[str]:
    """Take the messages due in an hour."""
    return [str(message.id) for message in take(at=timezone.now() + timedelta(hours=1))]
