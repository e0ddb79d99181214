"""Import customers and charges into a workspace's book from a table."""

from __future__ import annotations

import csv
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import UTC, datetime, time
from typing import Any

from django.core.exceptions import ValidationError
from django.core.validators import validate_email
from django.db import transaction
from django.utils.dateparse import parse_date

from agents.core.actions import has_hidden
from agents.core.money import MAX_MINOR, BadAmount, minor_of_text, plain_amount
from agents.core.names import holds_address, is_plain_plan
from agents.core.old_names import CURRENCY, FIRST_DESK, erased_subject
from agents.desks.refunds import billing
from agents.desks.refunds.models import Charge, Customer
from agents.models import Event, Workspace
from agents.models.event import Entry, append_events
from agents.operations.refusal import Refused
from agents.record.erasable_texts import ERASURE

COLUMNS = ("number", "name", "email", "country", "tier", "plan", "amount", "currency", "paid_on")
LONGEST = {"name": 80, "email": 254, "country": 2, "tier": 20, "plan": 40}  # characters
MOST = 100_000  # lines of one file
SHOWN = 10  # faults named in a refusal


@dataclass(frozen=True)
class Imported:
    """The result of an import: new rows, existing ones, and lines left out."""

    customers: int
    charges: int
    known: int
    left_out: int = 0  # lines of customers who were erased
    erased: tuple[int, ...] = ()  # their numbers


def import_customers(
    *, workspace: Workspace, lines: Iterable[str], at: datetime, actor: str
) -> Imported:
    """Import customers and charges, the whole table or nothing. Raises Refused.

    `lines` are CSV with the header COLUMNS, one line per charge; without plan, amount, currency and
    day it is only a customer. Existing charges are left as they are, so a table can be imported
    again; a customer's name, address, country and tier are updated. Lines of erased numbers are
    left out and named in `erased`: a table from before the erasure would bring the person back.
    """
    if workspace.is_demo or workspace.book_id is None:
        raise Refused("demo_book", "A demo run has customers of its own; import into another one.")
    rows, faults = _read_rows(lines, at)
    if faults:
        more = f" and {len(faults) - SHOWN} more" if len(faults) > SHOWN else ""
        raise Refused("bad_table", f"Nothing was imported: {'; '.join(faults[:SHOWN])}{more}.")
    with transaction.atomic():
        # An erasure locks the workspace before its customers too: we see it, or it sees our rows.
        Workspace.objects.select_for_update().get(pk=workspace.pk)
        erased = _erased_numbers(workspace.book_id)
        kept = [row for row in rows if row["number"] not in erased]
        found = replace(
            _enter(workspace.book_id, kept),
            left_out=len(rows) - len(kept),
            erased=tuple(sorted(erased & {row["number"] for row in rows})),
        )
        facts = {"customers": found.customers, "charges": found.charges, "known": found.known}
        if found.erased:
            facts["left_out"] = found.left_out
        append_events([Entry("book.imported", facts, actor)], workspace_id=workspace.pk, at=at)
    return found


def _read_rows(lines: Iterable[str], at: datetime) -> tuple[list[dict[str, Any]], list[str]]:
    """Return the rows of a table, and its faults by line."""
    table = csv.DictReader(lines, strict=True)
    rows: list[dict[str, Any]] = []
    faults: list[str] = []
    try:
        if tuple(table.fieldnames or ()) != COLUMNS:
            return [], [f"the first line must be {','.join(COLUMNS)}"]
        for row in table:
            if len(rows) == MOST:
                return [], [f"a table has at most {MOST} lines"]
            try:
                rows.append(_row(row, at))
            except ValueError as error:
                faults.append(f"line {table.line_num}: {error}")
    except csv.Error as error:
        faults.append(f"line {table.line_num}: {error}")
    return rows, faults


def _row(given: dict[str, str], at: datetime) -> dict[str, Any]:
    """Return one line as values. Raises ValueError with its faults."""
    if None in given or None in given.values():
        raise ValueError(f"it does not have {len(COLUMNS)} columns")
    read = {name: value.strip() for name, value in given.items()}
    if not (read["number"].isascii() and read["number"].isdigit()) or not billing.could_be(
        int(read["number"])
    ):
        raise ValueError("number must be a whole number")
    for name, most in LONGEST.items():
        if len(read[name]) > most or has_hidden(read[name]):
            raise ValueError(f"{name} is a line of at most {most} characters")
    if not read["name"]:
        raise ValueError("name is missing")
    for name in ("name", "tier"):
        if holds_address(read[name]):
            raise ValueError(f"{name} looks like an address or a telephone number")
    try:
        validate_email(read["email"])
    except ValidationError:
        raise ValueError("email is not an address") from None
    if len(read["country"]) != 2 or not read["country"].isupper():
        raise ValueError("country must be two capital letters, such as US")
    about = {name: read[name] for name in ("name", "email", "country", "tier")}
    return {"number": int(read["number"]), "about": about, "charge": _charge(read, at)}


def _charge(read: dict[str, str], at: datetime) -> dict[str, Any] | None:
    told = [read[name] for name in ("plan", "amount", "currency", "paid_on")]
    if not any(told):
        return None
    if not all(told):
        raise ValueError("plan, amount, currency and paid_on come together")
    if not is_plain_plan(read["plan"]):
        raise ValueError("plan is up to three words of letters, with at most four digits")
    if read["currency"] != CURRENCY:
        raise ValueError(f"currency must be {CURRENCY}")
    try:
        amount = minor_of_text(read["amount"], CURRENCY)
        day = parse_date(read["paid_on"])
    except BadAmount as error:
        raise ValueError(f"amount: {error}") from None
    except ValueError:
        day = None
    if not 0 < amount <= MAX_MINOR:
        raise ValueError(f"amount is above 0 and at most {plain_amount(MAX_MINOR, CURRENCY)}")
    if day is None or day > at.date():
        raise ValueError("paid_on must be a day in the past, such as 2026-11-02")
    paid_at = datetime.combine(day, time(), UTC)
    charge = {"plan": read["plan"], "amount_minor": amount}
    return {**charge, "currency": read["currency"], "paid_at": paid_at}


def _erased_numbers(book_id: int) -> set[int]:
    """Return the numbers of a book's erased customers, from the record."""
    told = Event.objects.filter(workspace__book=book_id, run=None, kind=ERASURE)
    erased = map(erased_subject, told.order_by().values_list("facts", flat=True))
    return {int(key) for desk, key in erased if desk == FIRST_DESK}


def _enter(book_id: int, rows: list[dict[str, Any]]) -> Imported:
    customers = charges = known = 0
    for row in rows:
        customer, is_new = Customer.objects.update_or_create(
            book_id=book_id, number=row["number"], defaults=row["about"]
        )
        customers += is_new
        if row["charge"] is None:
            known += not is_new
            continue
        _, is_new = Charge.objects.get_or_create(customer=customer, **row["charge"])
        charges += is_new
        known += not is_new
    return Imported(customers, charges, known)
