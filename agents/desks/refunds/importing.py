"""Import customers and charges into a workspace's book from a table."""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TypeAlias

from django.db import connection, transaction
from django.db.models import Count, F, Sum

from agents.core.old_names import FIRST_DESK, erased_subject
from agents.desks.refunds.customer_table import (
    ABOUT,
    COLUMNS,
    ChargeLine,
    CustomerTable,
    read_table,
)
from agents.desks.refunds.models import Charge, Customer
from agents.models import Event, Workspace
from agents.models.record import Entry, append_events
from agents.record.chain import ERASURE
from agents.shell.refusal import Refused

__all__ = ["COLUMNS", "Imported", "import_customers"]

BATCH = 500  # lines of one transaction
# Seconds between transactions on SQLite, where a waiting process looks every 0.1 s for its turn.
PAUSE = 0.12
_OF_LINE = ("plan", "amount_minor", "currency", "paid_at")

# Equal charges: the references of all in the table up to here, and how many of them are new here.
_Batch: TypeAlias = dict[ChargeLine, tuple[list[str], int]]


@dataclass(frozen=True)
class Imported:
    """The result of an import: new rows, existing ones, and lines left out."""

    customers: int = 0
    charges: int = 0
    known: int = 0
    left_out: int = 0  # lines of customers who were erased
    erased: tuple[int, ...] = ()  # their numbers
    equal: tuple[str, ...] = ()  # lines that are equal, each a charge: "line 2, line 5"

    def __add__(self, more: Imported) -> Imported:
        return Imported(
            self.customers + more.customers,
            self.charges + more.charges,
            self.known + more.known,
            self.left_out + more.left_out,
            tuple(sorted({*self.erased, *more.erased})),
            self.equal,
        )


def import_customers(
    *,
    workspace: Workspace,
    lines: Iterable[str],
    at: datetime,
    actor: str,
    tell: Callable[[int, int], object] = lambda done, total: None,
) -> Imported:
    """Import customers and charges, if no line of the table has a fault. Raises Refused.

    `lines` are those of a file with the header COLUMNS and maybe REFERENCE, one per charge; without
    plan, amount, currency and day it is only a customer. Equal lines are as many charges. The book
    is brought up to the table and never beyond, in transactions of BATCH lines, between which
    others write: a table can be imported again, also after an interruption. A customer's name,
    address, country and tier are updated. Lines of erased numbers are left out and named in
    `erased`: a table from before the erasure would bring the person back. `tell` gets the number
    of lines that are done, and of all.
    """
    if workspace.is_demo or workspace.book_id is None:
        raise Refused("demo_book", "A demo run has customers of its own; import into another one.")
    table = read_table(lines, at)
    if table.faults:
        raise Refused("bad_table", f"Nothing was imported: {table.faults_in_words()}.")
    found = Imported(equal=tuple(table.equal_lines()))
    done, total = 0, sum(map(len, table.lines.values()))
    tell(done, total)
    for batch in _batches(table):
        if done and connection.vendor == "sqlite":
            time.sleep(PAUSE)
        found += _import_batch(workspace, batch, table, at=at, actor=actor)
        done += sum(own for _, own in batch.values())
        tell(done, total)
    return found


def _batches(table: CustomerTable) -> Iterator[_Batch]:
    """Yield a table's lines in batches. Many equal charges are in several."""
    batch: _Batch = {}
    size = 0
    for charge, told in table.lines.items():
        for start in range(0, len(told), BATCH):
            references = [reference for _, reference in told[: start + BATCH]]
            own = len(references) - start
            batch[charge] = references, own
            size += own
            if size >= BATCH:
                yield batch
                batch, size = {}, 0
    if batch:
        yield batch


@transaction.atomic
def _import_batch(
    workspace: Workspace, batch: _Batch, table: CustomerTable, *, at: datetime, actor: str
) -> Imported:
    # An erasure locks the workspace before its customers too: we see it, or it sees our rows.
    Workspace.objects.select_for_update().get(pk=workspace.pk)
    numbers = {charge.number for charge in batch}
    erased = _erased_numbers(workspace.book_id) & numbers
    kept = {charge: told for charge, told in batch.items() if charge.number not in erased}
    keys, new = _enter_customers(
        workspace.book_id, {number: table.about[number][1] for number in numbers - erased}
    )
    charges = _enter_charges(keys, kept)
    paying = {charge.number for charge in kept if charge.plan}
    lines = sum(own for _, own in kept.values())
    found = Imported(
        customers=len(new),
        charges=charges,
        known=lines - charges - len(new - paying),
        left_out=sum(own for _, own in batch.values()) - lines,
        erased=tuple(erased),
    )
    facts = {"customers": found.customers, "charges": found.charges, "known": found.known}
    if erased:
        facts["left_out"] = found.left_out
    append_events([Entry("book.imported", facts, actor)], workspace_id=workspace.pk, at=at)
    return found


def _erased_numbers(book_id: int) -> set[int]:
    """Return the numbers of a book's erased customers, from the record."""
    told = Event.objects.filter(workspace__book=book_id, run=None, kind=ERASURE)
    erased = map(erased_subject, told.order_by().values_list("facts", flat=True))
    return {int(key) for desk, key in erased if desk == FIRST_DESK}


def _enter_customers(
    book_id: int, about: Mapping[int, Mapping[str, str]]
) -> tuple[dict[int, int], set[int]]:
    """Add or update customers. Return their keys by number, and the numbers of the new ones."""
    ours = Customer.objects.filter(book=book_id, number__in=about)
    known = {one.number: {name: getattr(one, name) for name in ABOUT} for one in ours}
    changed = [number for number, told in about.items() if known.get(number) != told]
    Customer.objects.bulk_create(
        [Customer(book_id=book_id, number=number, **about[number]) for number in changed],
        update_conflicts=True,
        unique_fields=["book", "number"],
        update_fields=list(ABOUT),
    )
    return dict(ours.values_list("number", "pk")), about.keys() - known.keys()


def _enter_charges(keys: Mapping[int, int], wanted: _Batch) -> int:
    """Add the charges that the book lacks. Return how many."""
    numbers = {key: number for number, key in keys.items()}
    ours = Charge.objects.filter(
        customer__in=numbers, paid_at__in={line.paid_at for line in wanted if line.paid_at}
    )
    groups = ours.order_by().values_list("customer_id", *_OF_LINE, "reference")
    groups = groups.annotate(count=Count("pk"), used=Sum(F("refunded_minor") + F("held_minor")))
    stored: defaultdict[ChargeLine, Counter[str]] = defaultdict(Counter)
    unsure: set[ChargeLine] = set()
    for customer, *of_line, reference, count, used in groups:
        line = ChargeLine(numbers[customer], *of_line)
        stored[line][reference] = count
        if used and not reference:  # which of equal charges was refunded is not known
            unsure.add(line)
    added: list[Charge] = []
    named: list[Charge] = []
    for line, (references, _) in wanted.items():
        if not line.plan:
            continue
        about = {name: getattr(line, name) for name in _OF_LINE}
        new, given = compare(references, stored[line])
        added += [Charge(customer_id=keys[line.number], reference=one, **about) for one in new]
        if given and line not in unsure:
            blank = ours.filter(customer=keys[line.number], reference="", **about).order_by("pk")
            for one, reference in zip(blank[: len(given)], given, strict=True):
                one.reference = reference
                named.append(one)
    Charge.objects.bulk_create(added)
    Charge.objects.bulk_update(named, ["reference"])
    return len(added)


def compare(wanted: Sequence[str], stored: Counter[str]) -> tuple[list[str], list[str]]:
    """Return references of equal charges to add, and those for stored charges without one.

    A charge without a reference may be any: on either side one counts for any on the other.
    """
    lacking, spare = Counter(wanted) - stored, stored - Counter(wanted)
    named = sorted(one for one in lacking.elements() if one)
    covered = spare[""]
    blank = max(0, lacking[""] - (spare.total() - covered))
    return [*named[covered:], *[""] * blank], named[:covered]
