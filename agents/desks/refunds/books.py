"""Fill a book: a demo's with its customers, a workspace's with those of a company's table."""

import csv
import re
import time
import unicodedata
from codecs import BOM_UTF16_BE, BOM_UTF16_LE
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, timedelta
from datetime import time as time_of_day
from itertools import groupby
from typing import Any, TypeAlias

from django.core.exceptions import ValidationError
from django.core.validators import validate_email
from django.db import connection, transaction
from django.db.models import Count, F, Sum
from django.utils.dateparse import parse_date

from agents.core.compat_0_2 import CURRENCY, FIRST_DESK, erased_subject
from agents.core.json_forms import is_hidden
from agents.core.money import MAX_MINOR, BadAmount, minor_of_text, plain_amount
from agents.core.names import holds_address, holds_link, is_plain_plan
from agents.db.compiled import send_rows
from agents.desks.refunds import billing
from agents.desks.refunds.models import Charge, Customer, DailyMetrics, Subscription
from agents.models import Event, Workspace
from agents.record.seals import ERASURE
from agents.shell.refusal import Refused


@dataclass(frozen=True)
class _Person:
    """A demo customer; ages are days before the book is opened."""

    number: int
    name: str
    tier: str
    charge: tuple[str, int, int]  # plan, minor units, days ago
    subscription: tuple[str, int, int]  # plan, minor units a month, days since first paid


_PEOPLE = (
    _Person(
        42, "Anna", "enterprise", ("annual_enterprise", 120_000, 10), ("pro_monthly", 4900, 10)
    ),
    _Person(7, "Max", "pro", ("pro_monthly", 4900, 35), ("free", 0, 120)),
)


_RECORDED = date(2026, 2, 26)  # named by the recorded cases
_DAYS = 3  # up to yesterday
_DAY = {
    "currency": CURRENCY,
    "gross_sales_minor": 18_245_000,
    "orders": 4820,
    "failed_payments_per_mille": 23,
    "chargeback_alerts": 3,
    "low_stock_skus": ["SKU-4411", "SKU-8820"],
    "out_of_stock_skus": ["SKU-9033"],
    "restock_days": 2,
}
_GREEN = {
    "US": {**_DAY, "chargeback_alerts": 1, "out_of_stock_skus": []},
    "EU": {**_DAY, "gross_sales_minor": 9_130_500, "orders": 2510, "out_of_stock_skus": []},
}


def fill_demo(book: int, at: datetime) -> None:
    """Enter the demo's customers, and charges and daily numbers dated from `at`.

    So that a demo can be repeated, even next month.
    """
    with transaction.atomic():
        _enter(book, at, _PEOPLE)
        _fill_days(book, at)


def fill_past(book: int, at: datetime, key: str, number: int, name: str) -> None:
    """Enter the same, with one of the customers under another number and name."""
    with transaction.atomic():
        [known] = [person for person in _PEOPLE if str(person.number) == key]
        _enter(book, at, [replace(known, number=number, name=name)])
        _fill_days(book, at)


@transaction.atomic
def refill(book: int, at: datetime) -> None:
    """Give a demo's lasting book the days of newly filled ones, from which it is copied."""
    of_book = DailyMetrics.objects.filter(book=book).exclude(day=_RECORDED)
    of_book.filter(day__lt=at.date() - timedelta(days=_DAYS)).delete()
    _fill_days(book, at)


def _fill_days(book: int, at: datetime) -> None:
    """Enter the numbers of the days up to yesterday that a demo's book lacks.

    Yesterday's in the US are those of the scenarios; the others are green.
    """
    yesterday = at.date() - timedelta(days=1)
    days = [(yesterday - timedelta(days=ago), region) for ago in range(_DAYS) for region in _GREEN]
    rows = [
        DailyMetrics(
            book_id=book,
            day=day,
            region=region,
            **(_DAY if region == "US" and day in (yesterday, _RECORDED) else _GREEN[region]),
        )
        for day, region in (*days, (_RECORDED, "US"))
    ]
    DailyMetrics.objects.bulk_create(rows, ignore_conflicts=True)


def _enter(book: int, at: datetime, people: Sequence[_Person]) -> None:
    """Enter demo customers with their charges and subscriptions."""
    customers = [
        Customer(
            book_id=book,
            number=person.number,
            name=person.name,
            email=f"{person.name.lower()}@example.com",
            country="US",
            tier=person.tier,
        )
        for person in people
    ]
    send_rows(*customers).get()
    entered = list(zip(customers, people, strict=True))
    send_rows(*(_charge(customer, *person.charge, at) for customer, person in entered)).get()
    send_rows(
        *(_subscription(customer, *person.subscription, at) for customer, person in entered)
    ).get()


def _charge(customer: Customer, plan: str, amount: int, days: int, at: datetime) -> Charge:
    return Charge(
        customer=customer,
        plan=plan,
        amount_minor=amount,
        currency=CURRENCY,
        paid_at=at - timedelta(days=days),
    )


def _subscription(
    customer: Customer, plan: str, price: int, days: int, at: datetime
) -> Subscription:
    return Subscription(
        customer=customer,
        plan=plan,
        price_minor=price,
        currency=CURRENCY,
        first_paid_at=at - timedelta(days=days),
    )


# A table of customers and charges; each fault is reported with its lines.

COLUMNS = ("number", "name", "email", "country", "tier", "plan", "amount", "currency", "paid_on")
REFERENCE = "reference"  # a tenth column, which can be left out
_ABOUT = {"name": "names", "email": "emails", "country": "countries", "tier": "tiers"}
_LONGEST = {"name": 80, "email": 254, "tier": 20, "plan": 40, REFERENCE: 60}  # characters
MOST = 100_000  # lines of one file
ENCODINGS = ("utf-8", "cp1250", "cp1251", "cp1252", "utf-16-le", "utf-16-be")
_NUMBER = re.compile(r"[0-9]{1,19}", re.ASCII)
_COUNTRY = re.compile(r"[A-Z]{2}", re.ASCII)
_BREAKS = "\t\u2028\u2029"
_SAVE = "save it as “CSV UTF-8”, or name its encoding with --encoding"


@dataclass(frozen=True)
class ChargeLine:
    """A line's data on a charge, without its reference; without a plan, on a customer alone."""

    number: int  # the customer's
    plan: str = ""
    amount_minor: int = 0
    currency: str = ""
    paid_at: datetime | None = None


@dataclass(frozen=True)
class CustomerTable:
    """A parsed table: its lines by content, its customers, and its faults."""

    lines: dict[ChargeLine, list[tuple[int, str]]] = field(default_factory=dict)  # and references
    about: dict[int, tuple[int, dict[str, str]]] = field(default_factory=dict)  # by number
    faults: dict[str, dict[int, None]] = field(default_factory=dict)  # lines by cause

    def add_fault(self, cause: str, *lines: int) -> None:
        self.faults.setdefault(cause, {}).update(dict.fromkeys(lines))

    def add_customer(self, line: int, number: int, about: dict[str, str]) -> None:
        """Add a line's customer, who is the same on all lines with this number."""
        first, known = self.about.setdefault(number, (line, about))
        for name, plural in _ABOUT.items():
            if about[name] != known[name]:
                two = f"{known[name]!r} and {about[name]!r}"
                self.add_fault(f"number {number} has two {plural}: {two}", first, line)

    def equal_lines(self) -> list[str]:
        """Return the equal lines, each of which is a charge: "line 2, line 5"."""
        by_charge: dict[tuple[ChargeLine, str], list[int]] = {}
        for charge, places in self.lines.items():
            for line, reference in places if charge.plan else ():
                by_charge.setdefault((charge, reference), []).append(line)
        return [_in_words(lines) for lines in by_charge.values() if len(lines) > 1]

    def faults_in_words(self) -> str:
        return "\n".join(f"{_in_words(lines)}: {cause}" for cause, lines in self.faults.items())


def _in_words(lines: Iterable[int]) -> str:
    """Return ascending numbers of lines in words: "line 3, lines 5-9"."""
    words: list[str] = []
    for _, places in groupby(enumerate(lines), key=lambda place: place[1] - place[0]):
        run = [line for _, line in places]
        each = [f"line {line}" for line in run]
        words += [f"lines {run[0]}-{run[-1]}"] if len(run) > 2 else each
    return ", ".join(words)


def decode_table(raw: bytes, encoding: str | None = None) -> str:
    """Return a file's text: UTF-8, or UTF-16 with its mark. Raises ValueError with the cause."""
    is_marked = raw.startswith((BOM_UTF16_LE, BOM_UTF16_BE))
    name = encoding or ("utf-16" if is_marked else "utf-8")
    if name == "utf-8" and b"\0" in raw[:64]:
        raise ValueError(f"line 1: it is a workbook, or UTF-16 without its mark; {_SAVE}")
    try:
        return raw.decode(name).removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise ValueError(f"line {line}: it is not text in {name}; {_SAVE}") from None


def _read_table(lines: Iterable[str], at: datetime) -> CustomerTable:
    """Read the lines of a file, with commas, semicolons or tabs between the columns."""
    table, numbered = CustomerTable(), enumerate(lines, 1)
    place, first = next(numbered, (1, ""))
    if first.lower().startswith("sep="):  # as Excel writes it
        place, first = next(numbered, (2, ""))
    comma = max(",;\t", key=first.count)
    try:
        names = _columns(first, comma)
    except ValueError as error:
        table.add_fault(str(error), place)
        return table
    filled = ((place, line) for place, line in numbered if line.strip(f"{comma} \r\n"))
    for count, (place, line) in enumerate(filled, 1):
        if count > MOST:
            table.add_fault(f"a table has at most {MOST} lines", place)
            break
        try:
            cells = _cells(line, comma)
            if len(cells) != len(names):
                raise ValueError(f"it does not have {len(names)} columns")
        except ValueError as error:
            table.add_fault(str(error), place)
            continue
        _enter_rows(table, place, {REFERENCE: "", **dict(zip(names, cells, strict=True))}, at)
    return table


def _columns(line: str, comma: str) -> list[str]:
    """Return the names in a table's first line. Raises ValueError."""
    names = [name.lower() for name in _cells(line, comma)]
    missing = [name for name in COLUMNS if name not in names]
    other = [name for name in names if name not in (*COLUMNS, REFERENCE)]
    if missing or other or len(set(names)) < len(names):
        lacks = f"; it lacks {', '.join(missing)}" if missing else ""
        has = f"; it has {', '.join(map(repr, other))}" if other else ""
        raise ValueError(f"it must be {','.join(COLUMNS)}[,{REFERENCE}]{lacks}{has}")
    return names


def _cells(line: str, comma: str) -> list[str]:
    """Return a line's values. Raises ValueError; a value never continues on the next line."""
    try:
        [cells] = csv.reader([line], delimiter=comma, strict=True)
    except csv.Error:
        raise ValueError(
            "a quotation mark is not closed on the line, or a value holds one that is not doubled; "
            "no value has a line break"
        ) from None
    return [unicodedata.normalize("NFC", value.strip()) for value in cells]


def _enter_rows(table: CustomerTable, line: int, read: dict[str, str], at: datetime) -> None:
    """Add a line to the table, or its faults."""
    number = int(read["number"]) if _NUMBER.fullmatch(read["number"]) else None
    faults, charge = [*_faults(read)], dict[str, Any]()
    try:
        charge = _charge_of_row(read, at)
    except ValueError as error:
        faults.append(str(error))
    if not billing.could_be(number):
        faults.append("number must be a whole number")
    else:
        table.add_customer(line, number, {name: read[name] for name in _ABOUT})
        if not faults:
            lines = table.lines.setdefault(ChargeLine(number, **charge), [])
            lines.append((line, read[REFERENCE]))
    for fault in faults:
        table.add_fault(fault, line)


def _faults(read: Mapping[str, str]) -> Iterator[str]:
    """Yield the faults in a line's texts."""
    for name, most in _LONGEST.items():
        text = read[name]
        odd = [] if text.isprintable() else [c for c in text if is_hidden(c) or c in _BREAKS]
        has_address = {"name": holds_address, "tier": holds_address, REFERENCE: holds_link}
        if len(text) > most or odd:
            without = f", without U+{ord(odd[0]):04X}" if odd else ""
            yield f"{name} is a line of at most {most} characters{without}"
        elif name in has_address and has_address[name](text):
            yield f"{name} looks like an address or a telephone number"
    if not read["name"]:
        yield "name is missing"
    try:
        validate_email(read["email"])
    except ValidationError:
        yield "email is not an address"
    if not _COUNTRY.fullmatch(read["country"]):
        yield "country must be two capital letters, such as US"


def _charge_of_row(read: Mapping[str, str], at: datetime) -> dict[str, Any]:
    """Return a line's data on a charge, or nothing. Raises ValueError."""
    texts = [read[name] for name in ("plan", "amount", "currency", "paid_on")]
    if not any((*texts, read[REFERENCE])):
        return {}
    if not all(texts):
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
    charge = {"plan": read["plan"], "amount_minor": amount}
    return {**charge, "currency": CURRENCY, "paid_at": datetime.combine(day, time_of_day(), UTC)}


# The import of a table into a workspace's book.

BATCH = 500  # lines of one transaction
# Seconds between transactions on SQLite, where a waiting process looks every 0.1 s for its turn.
_PAUSE = 0.12
_OF_LINE = ("plan", "amount_minor", "currency", "paid_at")

# Equal charges: the references of all in the table up to here, and the number of new ones here.
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

    def __add__(self, more: "Imported") -> "Imported":
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

    - `lines` are those of a file with the header COLUMNS and maybe REFERENCE, one per charge;
      without plan, amount, currency and day a line is only a customer. Equal lines are as many
      charges.
    - The book is brought up to the table and never beyond, in transactions of BATCH lines, between
      which others write: a table can be imported again, also after an interruption.
    - A customer's name, address, country and tier are updated.
    - Lines of erased numbers are left out and named in `erased`: an older table would bring the
      person back.
    - `tell` gets the number of finished lines, and of all.
    """
    if workspace.is_demo or workspace.book_id is None:
        raise Refused("demo_book", "A demo run has customers of its own; import into another one.")
    table = _read_table(lines, at)
    if table.faults:
        raise Refused("bad_table", f"Nothing was imported: {table.faults_in_words()}.")
    imported = Imported(equal=tuple(table.equal_lines()))
    done, total = 0, sum(map(len, table.lines.values()))
    tell(done, total)
    for batch in _batches(table):
        if done and connection.vendor == "sqlite":
            time.sleep(_PAUSE)
        imported += _import_batch(workspace, batch, table, at=at, actor=actor)
        done += sum(own for _, own in batch.values())
        tell(done, total)
    return imported


def _batches(table: CustomerTable) -> Iterator[_Batch]:
    """Yield a table's lines in batches. Many equal charges are in several."""
    batch: _Batch = {}
    size = 0
    for charge, lines in table.lines.items():
        for start in range(0, len(lines), BATCH):
            references = [reference for _, reference in lines[: start + BATCH]]
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
    kept = {charge: places for charge, places in batch.items() if charge.number not in erased}
    keys, new = _enter_customers(
        workspace.book_id, {number: table.about[number][1] for number in numbers - erased}
    )
    charges = _enter_charges(keys, kept)
    paying = {charge.number for charge in kept if charge.plan}
    lines = sum(own for _, own in kept.values())
    imported = Imported(
        customers=len(new),
        charges=charges,
        known=lines - charges - len(new - paying),
        left_out=sum(own for _, own in batch.values()) - lines,
        erased=tuple(erased),
    )
    facts = {"customers": imported.customers, "charges": imported.charges, "known": imported.known}
    if erased:
        facts["left_out"] = imported.left_out
    workspace.say("book.imported", at=at, facts=facts, actor=actor)
    return imported


def _erased_numbers(book_id: int) -> set[int]:
    """Return the numbers of a book's erased customers, from the record."""
    erasures = Event.objects.filter(workspace__book=book_id, run=None, kind=ERASURE)
    erased = map(erased_subject, erasures.order_by().values_list("facts", flat=True))
    return {int(key) for desk, key in erased if desk == FIRST_DESK}


def _enter_customers(
    book_id: int, about: Mapping[int, Mapping[str, str]]
) -> tuple[dict[int, int], set[int]]:
    """Add or update customers. Return their keys by number, and the numbers of the new ones."""
    ours = Customer.objects.filter(book=book_id, number__in=about)
    known = {one.number: {name: getattr(one, name) for name in _ABOUT} for one in ours}
    changed = [number for number, columns in about.items() if known.get(number) != columns]
    Customer.objects.bulk_create(
        [Customer(book_id=book_id, number=number, **about[number]) for number in changed],
        update_conflicts=True,
        unique_fields=["book", "number"],
        update_fields=list(_ABOUT),
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
        if used and not reference:  # it is unknown which of equal charges was refunded
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
