"""What a call means to ledger and inbox, whatever its tool calls its arguments."""

from __future__ import annotations

from typing import NamedTuple


class Terms(NamedTuple):
    """Whom or what it is about, what is locked and counted for it, and how much of it it moves.

    Keys are the desk's own, the amount is in minor units.
    """

    subject_key: str = ""
    resource: str = ""
    amount_minor: int | None = None
    currency: str = ""
