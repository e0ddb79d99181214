"""What a review of a refund may know, beyond what every desk does."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from agents.core.facts import Facts
from agents.core.requests import Json
from agents.core.statements import NO_MONEY

UNTOLD = "The customer has not been told."


@dataclass(frozen=True)
class RefundFact:
    """One refund that was executed, or may have been, by this run or one that it continues.

    Amounts are in minor units.
    """

    customer: int
    amount_minor: int
    reference: str  # "" while its outcome is not known
    by_person: bool
    mailed: bool
    settled: bool  # the system of record confirmed it
    earlier: bool = False  # by a run that ended and that this one is launched anew for


@dataclass(frozen=True)
class ChargeFact:
    """The latest charge of the customer that an action names."""

    amount_minor: int
    refundable_minor: int  # charge less what was refunded and what is held
    currency: str
    age_days: int


@dataclass(frozen=True)
class MailFact:
    """The mail that the ledger calls for next: for the newest refund not yet mailed."""

    customer: int
    amount_minor: int
    message: str


@dataclass(frozen=True)
class RefundFacts(Facts):
    """Everything that the rules of refunds may look at."""

    FOR_STAFF: ClassVar[frozenset[str]] = frozenset({NO_MONEY, UNTOLD})
    COURTESY: ClassVar[tuple[str, ...]] = (
        "dear customer",
        "(?:your|the|our) customer (?:support|service)(?: team)?",
    )

    subject: int | None = None  # the customer the run may act on; None: not bound
    context_of: tuple[int, ...] = ()  # customers whose context this run has read
    refunds: tuple[RefundFact, ...] = ()
    country: str = ""  # where the customer lives that an action names, as US; "": not known
    charge: ChargeFact | None = None
    unattended_minor: int = 0  # refunded on this charge without a person, over the rolling window
    unattended_today_minor: int = 0  # refunded without a person today, in the whole workspace
    unattended_by_launcher_minor: int = 0  # of that, by runs of who launched this one
    mail: MailFact | None = None
    replies: int = 0  # to the customer, sent by this run or maybe sent

    @property
    def own_texts(self) -> list[str]:
        return [*super().own_texts, *([self.mail.message] if self.mail else [])]

    @property
    def refunded_minor(self) -> int:
        """Return what this run has refunded or has in flight."""
        return sum(refund.amount_minor for refund in self.refunds)

    def as_json(self) -> Json:
        # Not asdict, which copies all that it finds: the facts of every review are written down.
        return {
            **super().as_json(),
            "refunds": [{**vars(refund)} for refund in self.refunds],
            "charge": {**vars(self.charge)} if self.charge else None,
            "mail": {**vars(self.mail)} if self.mail else None,
        }
