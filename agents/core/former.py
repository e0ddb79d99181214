"""Names that rows, events and policy documents had before there was more than one desk.

What was stored or sealed under them is read for ever; whatever is new names its desk itself.
"""

from __future__ import annotations

FIRST_DESK = "refunds"  # of a run, an event or a limit that names none
CURRENCY = "USD"  # of its amounts
ERASED_NUMBER = "customer"  # in the event of an erasure: whose, by their number
LIMIT = "refund_limit_minor"  # of a person: up to what they granted there
