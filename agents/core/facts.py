"""What a review may know. It comes from the ledger and the run, never from a model's text."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from agents.core.requests import Json
from agents.core.statements import LEDGER, NOT_FOR_LETTERS


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
class DeskFacts:
    """What a rule of a declared desk may look at; types are those of `agents.sdk`."""

    own: Any  # as the desk gathered it
    case: Any  # what the console itself knows
    done: tuple[str, ...]  # what the run has done, in the sentences of its tools
    stored: Json  # all of it, as it is kept with the ruling
    record: Mapping[str, str] = field(default_factory=dict)  # what it found, in sentences by name


@dataclass(frozen=True)
class Facts:
    """Everything the rules may look at."""

    subject: int | None = None  # the customer the run may act on; None: not bound
    context_of: tuple[int, ...] = ()  # customers whose context this run has read
    refunds: tuple[RefundFact, ...] = ()
    country: str = ""  # where the customer lives that an action names, as US; "": not known
    charge: ChargeFact | None = None
    unattended_minor: int = 0  # refunded on this charge without a person, over the rolling window
    unattended_today_minor: int = 0  # refunded without a person today, in the whole workspace
    unattended_by_launcher_minor: int = 0  # of that, by runs of who launched this one
    mail: MailFact | None = None
    evidence: tuple[Json, ...] = ()  # what specialists found, for an answer to rest on
    scope: Json = None  # the day and the region that a report is about; None: it is no report
    accepted: tuple[str, ...] = ()  # SHA-256 of each output that its supervision let stand
    replies: int = 0  # to the customer, sent by this run or maybe sent
    ledger: tuple[str, ...] = ()  # what this run did, in the console's sentences
    record: Mapping[str, str] = field(default_factory=dict)  # what it found, by name, likewise
    # Of what it found, what no longer holds though it is about to be written to a customer.
    outdated: Mapping[str, str] = field(default_factory=dict)
    letter: str = ""  # the argument of this action that a customer will read; "": none
    desk: DeskFacts | None = None  # then nothing else is known

    @property
    def sentences(self) -> dict[str, str]:
        """Return the console's own sentences, by the names that a text refers to them by."""
        # A run that did nothing knows nothing of other runs: no customer is told that none paid.
        ledger = [said for said in self.ledger if not (self.letter and said in NOT_FOR_LETTERS)]
        return {**self.record, **({LEDGER: " ".join(ledger)} if ledger else {})}

    @property
    def refunded_minor(self) -> int:
        """Return what this run has refunded or has in flight."""
        return sum(refund.amount_minor for refund in self.refunds)

    def as_json(self) -> Json:
        if self.desk:
            return self.desk.stored
        kept = {name: value for name, value in vars(self).items() if name != "desk"}
        if not self.outdated:  # as nearly always, and as facts were kept before it was there
            del kept["outdated"]
        # Not asdict, which copies all that it finds: the facts of every review are written down.
        return {
            **kept,
            "refunds": [{**vars(refund)} for refund in self.refunds],
            "charge": {**vars(self.charge)} if self.charge else None,
            "mail": {**vars(self.mail)} if self.mail else None,
        }
