"""Encrypt stored values with the newest key, so that an old one can be given up."""

from __future__ import annotations

from cryptography.fernet import InvalidToken
from django.db import transaction

from agents.models import MaskedValue
from agents.models.runs import cipher
from agents.shell.refusal import Refused

TOGETHER = 500  # values in one transaction


def rotate_values() -> int:
    """Return how many values were encrypted anew. Raises Refused where a key is missing.

    Runs go on meanwhile: what was encrypted with an old key is read until that is taken away.
    """
    lock, count, last = cipher(), 0, 0
    while True:
        with transaction.atomic():
            found = MaskedValue.objects.select_for_update().filter(pk__gt=last).order_by("pk")
            rows = list(found[:TOGETHER])
            if not rows:
                return count
            try:
                for row in rows:
                    row.token = lock.rotate(row.token.encode()).decode()
            except InvalidToken:
                raise Refused(
                    "key_missing",
                    f"A value is encrypted with a key that is not given, after {count} that are "
                    "not: put that key into OPSCONSOLE_VALUE_OLD_KEYS.",
                ) from None
            MaskedValue.objects.bulk_update(rows, ["token"])
        count, last = count + len(rows), rows[-1].pk
