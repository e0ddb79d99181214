"""The business behind refunds, as the protocol in `agents.systems` requires."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from uuid import UUID

from django.db.models import Exists, OuterRef

from agents.core.digest import sha256
from agents.core.limits import Limits
from agents.core.requests import Json
from agents.desks.refunds import billing, books
from agents.desks.refunds.facts import fetch_facts
from agents.desks.refunds.models import Customer, Refund, SentMail
from agents.desks.refunds.models.mail import MailState
from agents.desks.refunds.models.refund import RefundState
from agents.desks.refunds.profiles import PROFILES
from agents.desks.refunds.scenarios import PURPOSES, SCENARIOS
from agents.engine.desk_system import DeclaredSystem
from agents.models import Effect, Workspace
from agents.patterns import PATTERNS
from agents.record.claimed_rows import Derived
from agents.systems import Example, History, KnownSubject, Shelf

WORKFLOWS = sorted((Path(__file__).parent / "workflows").glob("*.json"))
CHOICE = re.compile(r"\((\d+)\)\Z", re.ASCII)  # the number in "Anna (42)"
DIGITS = 18  # of the longest number
IN_BOOKS = {"issue_refund", "send_refund_email", "send_reply"}  # tools that write to them


class RefundSystem(DeclaredSystem):
    """Books of customers with their charges, refunds and mails."""

    patterns = PATTERNS
    fetch_facts = staticmethod(fetch_facts)

    profiles: Mapping[str, Limits] = PROFILES
    workflows: Mapping[str, Json] = {path.stem: json.loads(path.read_text()) for path in WORKFLOWS}

    @property
    def history(self) -> History:
        from agents.desks.refunds.gallery import history  # only a demo needs it

        return history

    def shelves(self) -> list[Shelf]:
        return [
            Shelf(
                pattern,
                pattern.capitalize(),
                purpose,
                [
                    Example(one.key, one.title, one.watch, one.ends, one.goal)._replace(
                        subject=str(one.subject or ""),
                        pattern=pattern,
                        workflow=one.workflow,
                        off=one.off,
                    )
                    for one in SCENARIOS
                    if one.pattern == pattern
                ],
            )
            for pattern, purpose in PURPOSES.items()
        ]

    def find_all(self, text: str, *, book_id: int, most: int) -> list[KnownSubject]:
        chosen = CHOICE.search(text)
        number = chosen[1] if chosen else text
        if number.isascii() and number.isdigit() and len(number) <= DIGITS:
            return [KnownSubject(number, text)]  # the launch checks that it exists
        called = billing.customers_called(text, book_id=book_id, most=most)
        return [KnownSubject(str(number), name) for number, name in called]

    def first_subjects(self, *, book_id: int, most: int) -> list[KnownSubject]:
        found = billing.first_customers(book_id=book_id, most=most)
        return [KnownSubject(str(number), f"{name} ({number})") for number, name in found]

    def names(self, keys: Collection[tuple[int, str]]) -> Mapping[tuple[int, str], str]:
        numbers = {(book, int(key)) for book, key in keys if key}
        found = billing.customer_names(numbers) if numbers else {}
        return {(book, str(number)): name for (book, number), name in found.items()}

    def new_book(self, name: str, *, is_demo: bool, at: datetime) -> int:
        book = books.open_demo_book(at=at) if is_demo else books.open_book(name, at=at)
        return int(book.pk)

    def open_book(self, workspace: Workspace, at: datetime) -> int:
        demo = books.open_demo_book(at=at) if workspace.is_demo else None
        return int(demo.pk if demo else workspace.book_id)

    def traces_of(self, effects: Sequence[Effect], erased: Collection[UUID]) -> Mapping[str, Json]:
        keys = [effect.key for effect in effects]
        payments = Refund.objects.filter(key__in=keys).select_related("charge__customer")
        letters = SentMail.objects.filter(key__in=keys).select_related("customer")
        refunds = {one.key: one for one in payments}
        mails = {one.key: one for one in letters}
        return {
            effect.key: _trace(
                effect, refunds.get(effect.key), mails.get(effect.key), effect.run_id in erased
            )
            for effect in effects
        }

    def without_intent(self) -> Iterator[str]:
        mine = Effect.objects.filter(key=OuterRef("key"))
        for model, name in ((Refund, "refund"), (SentMail, "mail")):
            lost = model._default_manager.filter(~Exists(mine)).order_by("pk")
            for key in lost.values_list("key", flat=True).iterator():
                if ":" in key:  # other keys belong to no run
                    yield f"{name} {key}"


def _trace(effect: Effect, refund: Refund | None, mail: SentMail | None, is_erased: bool) -> Json:
    row: dict[str, Json] = {}
    if refund:
        row["paid_minor"] = refund.amount_minor
        row["paid_currency"] = Derived(refund.currency, effect.currency)
        row["paid_to"] = Derived(*_to(refund.charge.customer, effect))
        row["its charge"] = Derived(effect.resource, str(refund.charge_id))
    if mail:
        row["mailed_minor"] = mail.amount_minor
        row["mailed_to"] = Derived(*_to(mail.customer, effect))
        row["mailed_currency"] = Derived(mail.currency, effect.currency)
        row["mailed from book"] = Derived(mail.book_id, effect.run.book_id)
        if not is_erased and isinstance(effect.args, dict) and "message" in effect.args:
            written = {**effect.args, "message": mail.body}
            row["mailed_sha256"] = sha256({"kind": "tool", "name": effect.tool, "args": written})
    if effect.tool in IN_BOOKS:
        is_paid = refund is not None and refund.state == RefundState.PAID
        is_sent = mail is not None and mail.state == MailState.SENT
        row["took_place"] = is_paid if effect.tool == "issue_refund" else is_sent
    return row


def _to(customer: Customer, effect: Effect) -> tuple[str, str]:
    """Return who received money or a mail, and who should have, in words."""
    word = "customer {} in book {}"
    there = word.format(customer.number, customer.book_id)
    return there, word.format(effect.subject_key, effect.run.book_id)
