"""The business behind refunds, as the protocol in `agents.systems` requires."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from uuid import UUID

from django.db import transaction
from django.db.models import Exists, OuterRef

from agents.core.actions import Action
from agents.core.digest import sha256
from agents.core.former import CURRENCY
from agents.core.limits import Limits
from agents.core.requests import Json
from agents.core.terms import Terms
from agents.desks.refunds import billing, books
from agents.desks.refunds.facts import fetch_facts
from agents.desks.refunds.models import Customer, Refund, SentMail
from agents.desks.refunds.models.mail import MailState
from agents.desks.refunds.models.refund import RefundState
from agents.desks.refunds.profiles import PROFILES
from agents.desks.refunds.scenarios import PURPOSES, SCENARIOS
from agents.engine.desk_system import DeclaredSystem
from agents.models import Effect, Run, Workspace
from agents.patterns import PATTERNS
from agents.record.claimed_rows import Derived
from agents.systems import Example, History, KnownSubject, Shelf, UnknownSubject

WORKFLOWS = sorted((Path(__file__).parent / "workflows").glob("*.json"))
CUSTOMER = "user_id"  # the argument that names one
CHOICE = re.compile(r"\((\d+)\)\Z", re.ASCII)  # the number in "Anna (42)"
NUMBER = re.compile(r"0|[1-9]\d{0,18}", re.ASCII)  # as keys write it: one number, one key
DIGITS = 18  # of the longest number
SHORTEST_NAME = 3  # letters; shorter parts of a name occur in too many sentences
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

    def bound_arguments(self, run: Run) -> Mapping[str, Json]:
        return {CUSTOMER: int(run.subject_key)} if run.subject_key else {}

    def new_book(self, name: str, *, is_demo: bool, at: datetime) -> int:
        book = books.open_demo_book(at=at) if is_demo else books.open_book(name, at=at)
        return int(book.pk)

    def open_book(self, workspace: Workspace, at: datetime) -> int:
        demo = books.open_demo_book(at=at) if workspace.is_demo else None
        return int(demo.pk if demo else workspace.book_id)

    def find_subject(self, given: int | str | None, *, book_id: int) -> KnownSubject:
        if given is None:
            return KnownSubject("", "")
        number = given if isinstance(given, int) else int(given) if given.isdecimal() else None
        known = number and billing.customer(book_id=book_id, customer_number=number)
        if not known or number is None:
            raise UnknownSubject(f"There is no customer {given} in this book.")
        return KnownSubject(str(number), billing.label_of(number, known.name))

    def terms_of(self, run: Run, action: Action) -> Terms:
        args = action.get("args") or {}
        amount, key = args.get("amount_minor"), run.subject_key
        if CUSTOMER in args:
            key = str(args[CUSTOMER]) if billing.could_be(args[CUSTOMER]) else ""
        # The charge that it uses comes with the facts of its review.
        return Terms(key, amount_minor=amount, currency="" if amount is None else CURRENCY)

    def label_of(self, key: str, name: str) -> str:
        if not NUMBER.fullmatch(key) or not billing.could_be(int(key)):
            raise UnknownSubject(f"{key!r} is no customer's number.")
        return billing.label_of(int(key), name)

    def names_of(self, key: str, *, books: Collection[int]) -> frozenset[str]:
        known = [billing.customer(book_id=book, customer_number=int(key)) for book in books]
        parts = {part for one in known if one for part in one.name.split()}
        emails = {one.email for one in known if one} - {""}
        return frozenset({key, *emails, *(part for part in parts if len(part) >= SHORTEST_NAME)})

    @transaction.atomic
    def forget(self, key: str, *, books: Collection[int]) -> int:
        """Empty every text about a customer; their payments and refunds stay."""
        found = Customer.objects.filter(book_id__in=books, number=int(key))
        SentMail.objects.filter(customer__in=found).update(to="", body="", fault="")
        Refund.objects.filter(charge__customer__in=found).update(reason="")
        return found.update(name="", email="", country="")

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
