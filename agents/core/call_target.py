"""What a call means to ledger and inbox, whatever its arguments are named."""

from __future__ import annotations

from typing import NamedTuple


class CallTarget(NamedTuple):
    """A call's subject, the resource that is locked and counted, and the amount it moves.

    Keys are the desk's own, the amount is in minor units.
    """

    subject_key: str = ""
    resource: str = ""
    amount_minor: int | None = None
    currency: str = ""
