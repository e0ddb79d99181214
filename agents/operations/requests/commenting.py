"""Comment on a request for those who decide it. Comments are permanent."""

from __future__ import annotations

from datetime import datetime

from django.contrib.auth.models import User
from django.db import transaction

from agents.engine.redaction import redact_words
from agents.operations.requests.claiming import is_told_again, lock_open, tell_of
from agents.shell.refusal import Refused, check_text

MAX_COMMENT = 2000  # characters
COMMENTED = "escalation.commented"


def comment(*, escalation_id: int, by: User, text: str, at: datetime) -> None:
    """Add a comment to an open request. Raises Refused.

    It is an event with an erasable text. A repetition of the person's latest comment, as by sending
    a form twice, is ignored.
    """
    if not text.strip():
        raise Refused("no_comment", "Write a comment first.")
    check_text(text, most=MAX_COMMENT, what="comment")
    with transaction.atomic():
        found = lock_open(escalation_id, by, at=at)
        said = redact_words(found.run, text.strip())
        if is_told_again(found, COMMENTED, by, comment=said):
            return
        tell_of(found, COMMENTED, by, at, comment=said)
