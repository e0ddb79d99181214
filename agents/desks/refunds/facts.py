"""Gather the facts for reviewing a refund, from the ledger, the run and the books.

One file, as its queries are sent and answered together.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from agents.core.actions import Action
from agents.core.facts import Facts
from agents.core.letter_phrases import free_passages
from agents.core.limits import Limits
from agents.core.money import format_money
from agents.core.old_names import CURRENCY
from agents.core.requests import Json
from agents.core.statements import Deed, ledger_sentences
from agents.core.states import EffectState
from agents.db.compiled import CompiledSelect, Param
from agents.db.driver import Pending
from agents.desks.refunds import billing, mail
from agents.desks.refunds.declared import desk
from agents.desks.refunds.known import UNTOLD, ChargeFact, MailFact, RefundFact, RefundFacts
from agents.desks.refunds.tools import policy_hint
from agents.engine.desk.ledger import EFFECTS, MAYBE_DONE, fetch_unattended
from agents.engine.desk.origins import origins_of
from agents.engine.desk.rules import limits_of
from agents.engine.desk.step_facts import (
    accepted_outputs,
    sent_back_sentences,
    sentences_on_record,
    specialist_results,
)
from agents.engine.redaction import RunBorder
from agents.engine.tools import simulation
from agents.models import Effect, Run, Step
from agents.sdk.placeholders import fill
from agents.tools import Tool, ask_in_words

NOTHING: Pending[list[tuple[Any, ...]]] = Pending(list)  # the answer without a query
NO_EFFECTS: Pending[list[Effect]] = Pending(list)
NO_SUMS: Pending[dict[str, int]] = Pending(dict)


# Not filtered by escalation: SQLite would then choose the index of unattended effects.
_UNATTENDED = CompiledSelect(
    lambda: Effect.objects.filter(
        run__book=Param("book"),
        tool="issue_refund",
        subject_key=Param("subject"),
        state__in=MAYBE_DONE,
        intended_at__gte=Param("since"),
    ).only("resource", "escalation", "amount_minor")
)


def fetch_facts(
    run: Run,
    action: Action,
    limits: Limits,
    steps: Sequence[Step],
    *,
    at: datetime,
    lock: bool,
    done: Mapping[int, Json],
    ahead: object = None,
) -> Pending[tuple[Facts, str]]:
    """Fetch the facts of a review; the resource is the charge that the action is about.

    `lock` holds it until the transaction ends, so that two runs cannot use the same remainder.
    """
    tool, subject = action.get("name"), int(run.subject_key) if run.subject_key else None
    customer = action.get("args", {}).get("user_id", subject)
    is_final = action["kind"] == "final"
    named = billing.fetch_account(book_id=run.book_id, customer_number=customer, at=at, lock=lock)
    # After the account: once its charge is locked, no other refund is added to it.
    is_refund = tool == "issue_refund"
    unattended = _fetch_unattended(run.book_id, customer, limits, at) if is_refund else NOTHING
    has_caps = is_refund and bool(limits.caps_of(run.desk))
    daily = fetch_unattended(desk, run, CURRENCY, at=at) if has_caps else NO_SUMS
    # A run's effects all come from its steps.
    registered = simulation.registry(run)
    letter = registered[tool].letter if tool and tool in registered else ""
    says = is_final or bool(letter)
    called = {step.asked["tool"] for step in steps if step.kind == "use"}
    has_acted = any(name not in registered or registered[name].writes for name in called)
    ledger = EFFECTS.fetch(run=run.pk) if has_acted else NO_EFFECTS

    def answer() -> tuple[Facts, str]:
        account, effects = named.get(), [_as_settled(e, done) for e in ledger.get()]
        effects = _effects_of(run.earlier_runs()) + effects
        charge = account.charge if account and tool != "get_refund_context" else None
        refunds = [effect for effect in effects if effect.tool == "issue_refund"]
        today = daily.get()
        letters = [e.args["message"] for e in effects if e.tool == "send_refund_email"]
        due = _mail(run, refunds, letters, {customer: account.name} if account else {})
        border = RunBorder(run)
        record = sentences_on_record(steps, registered, border=border) if says else {}
        true_now = record
        if letter and record:
            now = _context_now(account, customer, limits)
            true_now = sentences_on_record(steps, registered, now=now, border=border)
        known = registered.get(str(tool))
        given = action.get("args", {}) if known and known.writes else {}
        on_record = [charge.amount_minor] if charge else []
        origins, doubts = origins_of(run, given, steps, on_record)
        facts = RefundFacts(
            subject=subject,
            context_of=tuple(sorted(_customers_read(steps))),
            refunds=tuple(_refund(effect, letters, run) for effect in refunds),
            country=account.country if account else "",
            charge=_charge(charge),
            unattended_minor=_unattended_minor(charge, unattended.get()),
            unattended_today_minor=today.get("workspace", 0),
            unattended_by_launcher_minor=today.get("launcher", 0),
            mail=due,
            evidence=specialist_results(steps) if is_final else (),
            scope=run.scope,
            accepted=accepted_outputs(steps) if tool == "send_reply" else (),
            replies=sum(effect.tool == "send_reply" for effect in effects),
            ledger=(
                *(_completed_work([_deed(e, registered) for e in effects], due) if says else ()),
                *(_sent_back(steps, run) if is_final else ()),
            ),
            record=true_now,
            outdated={n: said for n, said in record.items() if true_now.get(n) != said},
            letter=letter,
            origins=origins,
            doubts=() if letter else doubts,
        )
        if letter:
            text = str(given.get(letter, ""))
            own = free_passages(text, facts.own_texts, facts.COURTESY)
            facts = replace(facts, own_words=tuple(own))
        return facts, str(charge.charge_id) if charge else ""

    return Pending(answer)


def _customers_read(steps: Iterable[Step]) -> set[int]:
    """Return the customers whose context was read, as named in the desk's answer."""
    return {
        step.reply["user"]["id"]
        for step in steps
        if step.kind == "use"
        and step.asked["tool"] == "get_refund_context"
        and isinstance(step.reply, dict)
        and isinstance(step.reply.get("user"), dict)
        and isinstance(step.reply["user"].get("id"), int)
    }


def _context_now(
    account: billing.CustomerAccount | None, customer: int | None, limits: Limits
) -> dict[str, Json]:
    """Return what the tool for reading a customer's context would find now."""
    found = billing.context_of(account, customer) if account and customer is not None else {}
    return {"get_refund_context": {**found, "policy_hint": policy_hint(limits_of(desk, limits))}}


def _effects_of(runs: list[UUID]) -> list[Effect]:
    """Return the effects of these runs that happened or may have, oldest first."""
    found = Effect.objects.filter(run__in=runs, state__in=MAYBE_DONE) if runs else []
    return sorted(found, key=lambda effect: effect.pk)


def _as_settled(effect: Effect, done: Mapping[int, Json]) -> Effect:
    """Return an effect as it will be once the calls in `done` are committed."""
    if effect.step_id in done:
        effect.state, effect.result = EffectState.DONE, done[effect.step_id]
    return effect


def _deed(effect: Effect, registered: Mapping[str, Tool]) -> Deed:
    known = registered[effect.tool]
    amount = (
        format_money(effect.amount_minor, effect.currency) if effect.amount_minor else "nothing"
    )
    return Deed(
        sentence=fill(known.after, {"amount_minor": amount, "user_id": effect.subject_key}),
        subject=effect.subject_key,
        amount_minor=effect.amount_minor,
        currency=effect.currency,
        moves_money=effect.amount_minor is not None and not known.letter,  # letters only mention it
        settled=effect.state == EffectState.DONE,
    )


def _completed_work(deeds: list[Deed], due: MailFact | None) -> tuple[str, ...]:
    """Return what a run has done and, if so, that its customer was not told of a payment."""
    return (*ledger_sentences(deeds), *((UNTOLD,) if due else ()))


def _sent_back(steps: Sequence[Step], run: Run) -> tuple[str, ...]:
    """Return what people sent back, in sentences."""

    def tell(step: Step) -> str:
        action = step.asked["action"]
        minor = (action.get("args") or {}).get("amount_minor")
        asked = format_money(minor, CURRENCY) if minor else ""
        about = run.subject_label or "nobody"
        return ask_in_words(step.asked["kind"], action, asked=asked, subject=about)

    return sent_back_sentences(steps, tell)


def _refund(effect: Effect, letters: list[str], run: Run) -> RefundFact:
    reference = _reference(effect)
    return RefundFact(
        customer=_customer(effect) or 0,
        amount_minor=effect.amount_minor or 0,
        reference=reference,
        by_person=effect.escalation_id is not None,
        mailed=bool(reference) and any(reference in letter for letter in letters),
        settled=effect.state == EffectState.DONE,
        earlier=effect.run_id != run.pk,
    )


def _customer(effect: Effect) -> int | None:
    return int(effect.subject_key) if effect.subject_key else None


def _reference(effect: Effect) -> str:
    """Return the desk's reference for a paid refund, which its letter quotes."""
    refund = (effect.result or {}).get("refund") or {}
    return str(refund.get("transaction_id", "")) if effect.state == EffectState.DONE else ""


def _charge(charge: billing.ChargeFacts | None) -> ChargeFact | None:
    if charge is None:
        return None
    return ChargeFact(
        charge.amount_minor, charge.refundable_minor, charge.currency, charge.age_days
    )


def _fetch_unattended(
    book_id: int, customer: int | None, limits: Limits, at: datetime
) -> Pending[list[tuple[Any, ...]]]:
    """Fetch the refunds to a customer without a person, by any run, within the window."""
    if not billing.could_be(customer):
        return NOTHING
    since = at - timedelta(days=limits.rolling_days)
    return _UNATTENDED.fetch_tuples(book=book_id, subject=str(customer), since=since)


def _unattended_minor(charge: billing.ChargeFacts | None, refunded: list[tuple[Any, ...]]) -> int:
    """Return the sum of these refunds on this charge."""
    ours = str(charge.charge_id) if charge else ""
    return sum(
        amount
        for _, escalation, resource, amount in refunded
        if resource == ours and escalation is None and amount
    )


def _mail(
    run: Run, refunds: list[Effect], letters: list[str], names: dict[int, str]
) -> MailFact | None:
    """Return the mail that is due: for the newest refund of the run not yet written about.

    `names` are those of customers looked up before.
    """
    for effect in reversed(refunds):
        reference = _reference(effect)
        if not reference or any(reference in letter for letter in letters):
            continue
        customer, amount = _customer(effect) or 0, effect.amount_minor or 0
        name = names.get(customer)
        if name is None:
            name = billing.customer_name(book_id=run.book_id, customer_number=customer)
        message = mail.refund_message(
            name=name,
            amount_minor=amount,
            currency=effect.currency,
            reference=reference,
        )
        return MailFact(customer, amount, message)
    return None
