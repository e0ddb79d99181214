"""Read a table of customers and charges, and name every fault with its lines."""

from __future__ import annotations

import csv
import re
import unicodedata
from codecs import BOM_UTF16_BE, BOM_UTF16_LE
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, time
from itertools import groupby
from typing import Any

from django.core.exceptions import ValidationError
from django.core.validators import validate_email
from django.utils.dateparse import parse_date

from agents.core.actions import is_hidden
from agents.core.money import MAX_MINOR, BadAmount, minor_of_text, plain_amount
from agents.core.names import holds_address, holds_link, is_plain_plan
from agents.core.old_names import CURRENCY
from agents.desks.refunds import billing

COLUMNS = ("number", "name", "email", "country", "tier", "plan", "amount", "currency", "paid_on")
REFERENCE = "reference"  # a tenth column, which can be left out
ABOUT = {"name": "names", "email": "emails", "country": "countries", "tier": "tiers"}
LONGEST = {"name": 80, "email": 254, "tier": 20, "plan": 40, REFERENCE: 60}  # characters
MOST = 100_000  # lines of one file
ENCODINGS = ("utf-8", "cp1250", "cp1251", "cp1252", "utf-16-le", "utf-16-be")
_NUMBER = re.compile(r"[0-9]{1,19}", re.ASCII)
_COUNTRY = re.compile(r"[A-Z]{2}", re.ASCII)
_BREAKS = "\t\u2028\u2029"
_SAVE = "save it as “CSV UTF-8”, or name its encoding with --encoding"


@dataclass(frozen=True)
class ChargeLine:
    """What a line says of a charge, but for its reference; of a customer alone without a plan."""

    number: int  # the customer's
    plan: str = ""
    amount_minor: int = 0
    currency: str = ""
    paid_at: datetime | None = None


@dataclass(frozen=True)
class CustomerTable:
    """A table as it was read: its lines by what they say, its customers, and its faults."""

    lines: dict[ChargeLine, list[tuple[int, str]]] = field(default_factory=dict)  # and references
    about: dict[int, tuple[int, dict[str, str]]] = field(default_factory=dict)  # by number
    faults: dict[str, dict[int, None]] = field(default_factory=dict)  # lines by cause

    def add_fault(self, cause: str, *lines: int) -> None:
        self.faults.setdefault(cause, {}).update(dict.fromkeys(lines))

    def add_customer(self, line: int, number: int, about: dict[str, str]) -> None:
        """Add a line's customer, who is the same on all lines with this number."""
        first, known = self.about.setdefault(number, (line, about))
        for name, plural in ABOUT.items():
            if about[name] != known[name]:
                two = f"{known[name]!r} and {about[name]!r}"
                self.add_fault(f"number {number} has two {plural}: {two}", first, line)

    def equal_lines(self) -> list[str]:
        """Return which lines are equal, each of which is a charge: "line 2, line 5"."""
        found: dict[tuple[ChargeLine, str], list[int]] = {}
        for charge, told in self.lines.items():
            for line, reference in told if charge.plan else ():
                found.setdefault((charge, reference), []).append(line)
        return [_in_words(lines) for lines in found.values() if len(lines) > 1]

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


def read_table(lines: Iterable[str], at: datetime) -> CustomerTable:
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
        _enter(table, place, {REFERENCE: "", **dict(zip(names, cells, strict=True))}, at)
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


def _enter(table: CustomerTable, line: int, read: dict[str, str], at: datetime) -> None:
    """Add a line to the table, or its faults."""
    number = int(read["number"]) if _NUMBER.fullmatch(read["number"]) else None
    faults, charge = [*_faults(read)], dict[str, Any]()
    try:
        charge = _charge(read, at)
    except ValueError as error:
        faults.append(str(error))
    if not billing.could_be(number):
        faults.append("number must be a whole number")
    else:
        table.add_customer(line, number, {name: read[name] for name in ABOUT})
        if not faults:
            told = table.lines.setdefault(ChargeLine(number, **charge), [])
            told.append((line, read[REFERENCE]))
    for fault in faults:
        table.add_fault(fault, line)


def _faults(read: Mapping[str, str]) -> Iterator[str]:
    """Yield what is wrong with a line's texts."""
    for name, most in LONGEST.items():
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


def _charge(read: Mapping[str, str], at: datetime) -> dict[str, Any]:
    """Return what a line says of a charge, or nothing. Raises ValueError."""
    told = [read[name] for name in ("plan", "amount", "currency", "paid_on")]
    if not any((*told, read[REFERENCE])):
        return {}
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
    charge = {"plan": read["plan"], "amount_minor": amount}
    return {**charge, "currency": CURRENCY, "paid_at": datetime.combine(day, time(), UTC)}
