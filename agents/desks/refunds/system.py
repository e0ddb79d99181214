"""The business behind refunds, as the protocol in `agents.systems` requires."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from datetime import datetime

from agents.desks.refunds import billing, books
from agents.desks.refunds.facts import fetch_facts
from agents.desks.refunds.scenarios import PURPOSES
from agents.engine.desk.system import DeclaredSystem
from agents.models import Workspace
from agents.patterns import PATTERNS
from agents.systems import Example, KnownSubject, Shelf

CHOICE = re.compile(r"\((\d+)\)\Z", re.ASCII)  # the number in "Anna (42)"
DIGITS = 18  # of the longest number


class RefundSystem(DeclaredSystem):
    """Books of customers with their charges, refunds and mails."""

    patterns = PATTERNS
    fetch_facts = staticmethod(fetch_facts)

    def shelves(self) -> list[Shelf]:
        return [
            Shelf(
                pattern,
                pattern.capitalize(),
                purpose,
                [
                    Example(one.key, one.title, one.expect, one.ends, one.goal)._replace(
                        subject=one.subject,
                        pattern=pattern,
                        workflow=one.workflow,
                        off=tuple(one.off),
                    )
                    for one in self.desk.scenarios
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
