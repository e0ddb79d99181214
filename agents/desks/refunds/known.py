"""The facts for reviewing a refund, beyond those of every desk."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from agents.core.facts import Facts
from agents.core.requests import Json
from agents.core.statements import NO_MONEY

UNTOLD = "The customer has not been told."


@dataclass(frozen=True)
class RefundFact:
    """One refund that was or may have been executed, by this run or one that it repeats.

    Amounts are in minor units.
    """

    customer: int
    amount_minor: int
    reference: str  # "" while its outcome is unknown
    by_person: bool
    mailed: bool
    settled: bool  # confirmed by the system of record
    earlier: bool = False  # by an ended run that this one repeats


@dataclass(frozen=True)
class ChargeFact:
    """The latest charge of the customer that an action names."""

    amount_minor: int
    refundable_minor: int  # the charge less refunded and held amounts
    currency: str
    age_days: int


@dataclass(frozen=True)
class MailFact:
    """The next mail due by the ledger: for the newest refund not yet mailed."""

    customer: int
    amount_minor: int
    message: str


@dataclass(frozen=True)
class RefundFacts(Facts):
    """All facts for the rules of refunds."""

    FOR_STAFF: ClassVar[frozenset[str]] = frozenset({NO_MONEY, UNTOLD})
    COURTESY: ClassVar[tuple[str, ...]] = (
        "dear customer",
        "(?:your|the|our) customer (?:support|service)(?: team)?",
    )

    subject: int | None = None  # the customer the run may act on; None: not bound
    context_of: tuple[int, ...] = ()  # customers whose context this run has read
    refunds: tuple[RefundFact, ...] = ()
    country: str = ""  # of the customer in the action, such as US; "": unknown
    charge: ChargeFact | None = None
    unattended_minor: int = 0  # refunded on this charge without a person, over the rolling window
    unattended_today_minor: int = 0  # refunded without a person today, in the whole workspace
    unattended_by_launcher_minor: int = 0  # of that, by runs of the same launcher
    mail: MailFact | None = None
    replies: int = 0  # to the customer that this run sent or may have sent

    @property
    def unattended(self) -> Mapping[str, int]:
        launcher, workspace = self.unattended_by_launcher_minor, self.unattended_today_minor
        return {"launcher": launcher, "workspace": workspace}

    @property
    def own_texts(self) -> list[str]:
        return [*super().own_texts, *([self.mail.message] if self.mail else [])]

    @property
    def refunded_minor(self) -> int:
        """Return the sum that this run has or may have refunded."""
        return sum(refund.amount_minor for refund in self.refunds)

    def as_json(self) -> Json:
        # Not asdict, whose deep copy is slow: the facts of every review are stored.
        return {
            **super().as_json(),
            "refunds": [{**vars(refund)} for refund in self.refunds],
            "charge": {**vars(self.charge)} if self.charge else None,
            "mail": {**vars(self.mail)} if self.mail else None,
        }
