"""What a review of the supervised graph may know: from the desk and its own record."""

from collections.abc import Sequence
from dataclasses import dataclass

from agents.core.compat_0_2 import CURRENCY
from agents.core.json_forms import Action
from agents.core.reviews import DeskFacts, Facts
from agents.desks.refunds import mail
from agents.desks.refunds.billing import ChargeFacts, CustomerAccount
from agents.desks.refunds.facts import ChargeFact, MailFact, RefundFact, RefundFacts
from agents.desks.refunds.limits import STRICT
from agents.sdk.rules import NO_CASE, Origin
from agents.sdk.values import write
from bench.supervised.record import Effect, Escalation

LIMITS = STRICT.of("supervisor", "refunds")


@dataclass(frozen=True)
class Ledger:
    """What is known of one customer and of one thread, at one moment."""

    customer: int
    account: CustomerAccount | None
    effects: Sequence[Effect] = ()  # of the thread
    escalations: Sequence[Escalation] = ()  # of the thread
    unattended: Sequence[tuple[int, int]] = ()  # of any thread: charge, minor units

    @property
    def charge(self) -> ChargeFacts | None:
        return self.account.charge if self.account else None

    def facts(
        self, action: Action, context_of: Sequence[int], *, granted_minor: int | None = None
    ) -> Facts:
        """Return the facts for reviewing `action`, as our engine gathers them.

        They are about the customer of the thread; an action that names another is blocked.
        `granted_minor` is what a person is about to grant.
        """
        tool, account = action.get("name"), self.account
        charge = self.charge if tool != "get_refund_context" else None
        effects = [effect for effect in self.effects if effect.state != "refused"]
        refunds = [effect for effect in effects if effect.tool == "issue_refund"]
        letters = [e.args["message"] for e in effects if e.tool == "send_refund_email"]
        named = {granted_minor, *(held.granted_minor for held in self.escalations)} - {None}
        is_by_person = action.get("args", {}).get("amount_minor") in named
        own = RefundFacts(
            subject=self.customer,
            context_of=tuple(context_of),
            refunds=tuple(_refund(effect, letters) for effect in refunds),
            country=account.country if account else "",
            charge=_charge(charge),
            unattended_minor=sum(
                minor for of, minor in self.unattended if charge and of == charge.charge_id
            ),
            mail=_mail(account, refunds, letters),
            amount_named_by=Origin.PERSON if is_by_person else Origin.NOBODY,
        )
        known = {"own": write(own), "unattended": {"launcher": 0, "workspace": 0}}
        return Facts(desk=DeskFacts(own, NO_CASE, (), known))


def _refund(effect: Effect, letters: Sequence[str]) -> RefundFact:
    reference = effect.reference
    return RefundFact(
        customer=effect.customer,
        amount_minor=effect.amount_minor,
        reference=reference,
        by_person=effect.by_person,
        mailed=bool(reference) and any(reference in letter for letter in letters),
        settled=effect.state == "done",
    )


def _charge(charge: ChargeFacts | None) -> ChargeFact | None:
    if charge is None:
        return None
    return ChargeFact(
        charge.amount_minor, charge.refundable_minor, charge.currency, charge.age_days
    )


def _mail(
    account: CustomerAccount | None, refunds: Sequence[Effect], letters: Sequence[str]
) -> MailFact | None:
    """Return the mail that is due: for the newest refund not yet written about."""
    for effect in reversed(refunds):
        reference = effect.reference
        if not reference or any(reference in letter for letter in letters):
            continue
        message = mail.refund_message(
            name=account.name if account else "",
            amount_minor=effect.amount_minor,
            currency=CURRENCY,
            reference=reference,
        )
        return MailFact(effect.customer, effect.amount_minor, message)
    return None
