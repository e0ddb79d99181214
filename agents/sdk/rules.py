"""What a rule sees and says, and the parts of its facts: past calls, origins, texts."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from datetime import date, datetime, timedelta
from enum import StrEnum
from typing import Any, Literal, Protocol, TypeAlias

from agents.core.finders import addresses, exact_place, ibans
from agents.core.redact import EMAILS, IBANS, texts_in
from agents.core.requests import Json
from agents.core.reviews import Ruling, RulingKind
from agents.sdk.amounts import holds_amount, read_amounts, ways_to_write
from agents.sdk.values import Days, Money, measured_value, show, unit_of_value

By: TypeAlias = Literal["subject", "resource", "launcher", "workspace"]
_AROUND = 200  # characters of a text around a named value
_SHORT_NUMBER = re.compile(r"[0-9]{1,4}")  # may also be a day, an hour, a year or a count
_OF_KEYS = ("id", "no", "nr", "number")


class Origin(StrEnum):
    """Who named a value of a call, the most trusted first."""

    GOAL = "goal"  # the run's launcher
    PERSON = "person"  # a person who decided
    LOOKED_UP = "looked_up"  # the company's own records, where the goal asks to look them up
    OUTSIDE = "outside"  # only a text of outsiders
    NOBODY = "nobody"  # invented or derived by the agent

    @property
    def is_of_people(self) -> bool:
        """Tell whether one of our own people named it."""
        return self in (Origin.GOAL, Origin.PERSON)

    @property
    def words(self) -> str:
        """Return it for a sentence: it was named by …"""
        return _WORDS[self]


_WORDS = {
    Origin.GOAL: "whoever launched the run",
    Origin.PERSON: "whoever decided",
    Origin.LOOKED_UP: "our own records",
    Origin.OUTSIDE: "an outside text alone",
    Origin.NOBODY: "the agent alone, as far as the console can read",
}


@dataclass(frozen=True)
class MadeCall:
    """A call that took effect or may have, by this run or one that it repeats."""

    subject: str
    args: Json
    result: Json  # {} while its outcome is unknown
    amount: Money | None
    is_settled: bool  # confirmed by the system of record
    is_by_person: bool  # somebody approved it
    is_earlier: bool  # by an ended run that this one repeats
    resource: str = ""  # the key of what it took from


@dataclass(frozen=True)
class EarlierReview:
    """The review that a person saw, or that allowed a call: a later one rests on it."""

    facts: Json
    at: datetime
    patch: Json = None  # the arguments that the person then set


class Asked(Protocol):
    """The queries for facts about one run and the action under review.

    Intended calls and those of unknown outcome count as done. `days` go back from now;
    `unattended` leaves out approved calls; `like` are arguments that the calls had.
    """

    @property
    def tool(self) -> str:
        """Return the tool of the action; "" for an answer."""

    @property
    def args(self) -> Any:
        """Return the typed arguments of the action, or None.

        For an answer, if a rule is about it: its `words`.
        """

    @property
    def given(self) -> Json:
        """Return these arguments as stored, with names for masked values."""

    @property
    def limits(self) -> Any:
        """Return the policy's limits of the desk, typed."""

    @property
    def fetched(self) -> Any:
        """Return the answer of `@desk.fetch`."""

    @property
    def locks(self) -> bool:
        """Tell whether `@desk.fetch` is to lock the row that a call takes from."""

    @property
    def at(self) -> datetime:
        """Return the time of the review."""

    @property
    def before(self) -> EarlierReview | None:
        """Return the review on which this one rests; None: the call is new."""

    @property
    def goals(self) -> Sequence[str]:
        """Return the goals of the run, and of those that it continues."""

    @property
    def advice(self) -> Sequence[str]:
        """Return people's reasons for sending a proposal back."""

    @property
    def accepted(self) -> tuple[str, ...]:
        """Return the SHA-256 of each text that a workflow's supervision accepted."""

    def made(self, tool: str) -> Sequence[MadeCall]:
        """Return the calls of a tool by this run and those that it repeats, oldest first."""

    def read(self, tool: str) -> Sequence[Json]:
        """Return a tool's answers in this run, oldest first."""

    @property
    def book(self) -> int:
        """Return the run's book: in a demo each launch has its own."""

    @property
    def today(self) -> date:
        """Return the day of the review (UTC)."""

    @property
    def ahead(self) -> Any:
        """Return the answer of `@desk.lookup`."""

    def count(
        self, tool: str, *, days: int, by: By = ..., unattended: bool = ..., **like: Any
    ) -> int:
        """Return how often a tool took effect, or may have."""

    def sum(
        self,
        tool: str,
        *,
        currency: str,
        days: int,
        by: By = ...,
        unattended: bool = ...,
        **like: Any,
    ) -> Money:
        """Return the sum that a tool's calls moved in one currency."""

    def last(self, tool: str, *, days: int, by: By = ..., **like: Any) -> date | None:
        """Return the day (UTC) of its newest call, or None."""

    def unattended_today(self, currency: str) -> Mapping[str, int]:
        """Return today's payments without a person, of the "launcher" and the "workspace".

        In minor units; empty where nothing was sent for.
        """

    def origin(self, argument: str, *also: str) -> Origin:
        """Return who named an argument's value; `also` are other names for it."""

    def parts(self, argument: str) -> Sequence[Any]:
        """Return the links, addresses, account numbers and amounts of a text: `TextPart`."""

    def outside(self) -> tuple[str, ...]:
        """Return the outsiders' texts that the run has read, newest last."""


def parts_of(value: Any, given: Json) -> list[Any]:
    """Return the separately named parts of an argument: elements of lists, fields of dataclasses.

    `given` is the argument as stored, whose texts count. An empty field names nothing, and an empty
    list is one part, which nobody names.
    """
    if isinstance(value, list) and isinstance(given, list) and value:
        pairs = zip(value, given, strict=True)
        return [part for one, kept in pairs for part in parts_of(one, kept)]
    if is_dataclass(value) and not isinstance(value, Money) and isinstance(given, dict):
        read = [(getattr(value, one.name), given.get(one.name)) for one in fields(value)]
        parts = [part for one, kept in read if one is not None for part in parts_of(one, kept)]
        return parts or [given]
    return [given if isinstance(value, str) else value]


def texts_at(reply: Json, place: str) -> list[str]:
    """Return all texts at a place in a tool's result: a field, or `mails.body` through lists."""
    if isinstance(reply, list):
        return [text for item in reply for text in texts_at(item, place)]
    if not place:
        return [text for _, text in texts_in(reply)]
    first, _, rest = place.partition(".")
    return texts_at(reply[first], rest) if isinstance(reply, dict) and first in reply else []


def values_at(reply: Json, place: str) -> Iterator[str]:
    """Yield the values at a place in a tool's result, as `texts_at`; "" for one that is no text.

    Also for one that is missing: of two who were found one has an address, and is not the only one.
    """
    if isinstance(reply, list):
        for item in reply:
            yield from values_at(item, place)
    elif place and isinstance(reply, dict):
        first, _, rest = place.partition(".")
        yield from values_at(reply.get(first), rest)
    else:
        yield reply if isinstance(reply, str) and not place else ""


_LIKE_ASCII = "\u0130\u0131\u017f\u212a"  # match i, s and k where case is ignored


def is_named(value: Any, texts: Iterable[str], *, called: str = "") -> bool:
    """Tell whether one of these texts names a value.

    Only whole words match; a count matches by number, an amount as `read_amounts` reads it. A short
    number that is the key of what an argument is `called` matches beside that: file 13, not the
    13 of a day or an hour.
    """
    if isinstance(value, Money):
        return holds_amount(texts, value)
    several = [text for text in texts if _may_name(text, value)]
    if not several:
        return False
    is_key = called and type(value) is str and _SHORT_NUMBER.fullmatch(value)
    pattern = _short_key(value, called) if is_key else _pattern(value)
    return any(map(pattern.search, several))


def _may_name(text: str, value: Any) -> bool:
    """Tell whether to look closer: the pattern of a long text takes longer than all else here."""
    if type(value) is not str or not value.isascii() or any(one in text for one in _LIKE_ASCII):
        return True
    return value.lower() in text.lower()


def names_used(values: Iterable[Any], text: str) -> list[str]:
    """Return how a text names these values, each way once, as it writes them."""
    ways = (way for value in values for way in _ways(value, text))
    return list(dict.fromkeys(ways))


def _ways(value: Any, text: str) -> list[str]:
    if isinstance(value, Money):
        return ways_to_write(value, text)
    return [match[0] for match in _pattern(value).finditer(text)]


def passage(text: str, mark: str) -> str:
    """Return what of a text surrounds its first mention of a mark, in whole words."""
    at = max(text.find(mark), 0)
    start, end = max(at - _AROUND, 0), at + len(mark) + _AROUND
    begun, _, cut = text[start:at].partition(" ") if start else ("", "", text[:at])
    before = f"… {cut or begun}" if start else cut
    after = text[at + len(mark) : end]
    return before + mark + (f"{after.rpartition(' ')[0]} …" if end < len(text) else after)


def _pattern(value: Any) -> re.Pattern[str]:
    return _day(value) if type(value) is date else _plain(value)


def _plain(value: Any) -> re.Pattern[str]:
    if isinstance(value, int) and not isinstance(value, bool):  # a count, whatever is counted
        return re.compile(rf"(?<![\w.,-])(?:{int(value)}|{int(value):,})(?![\w-]|[.,]\d)")
    return _whole(re.escape(show(value)))


def _day(value: date) -> re.Pattern[str]:
    spelled = (value.isoformat(), show(value), f"{value:%d.%m.%Y}", f"{value:%d/%m/%Y}")
    return _whole("|".join(map(re.escape, spelled)))


def _short_key(number: str, called: str) -> re.Pattern[str]:
    # In "from 9 to 13" an argument `to` names nothing.
    nouns = [word for word in called.split("_") if len(word) > len("to")]
    words = "|".join(map(re.escape, [*_OF_KEYS, *nouns]))
    beside = rf"(?:#|(?<![^\W_])(?:{words})[\s.:=#]{{1,3}}){number}(?![\w-]|[.,:/]\d)"
    return re.compile(rf"{beside}|[\"'“‘„«]{number}[\"'”’“»]", re.IGNORECASE)


def _whole(words: str) -> re.Pattern[str]:
    return re.compile(rf"(?<![\w.-])(?:{words})(?![\w-]|[.]\w)", re.IGNORECASE)


# What a text holds that somebody may act on: links, addresses, account numbers, amounts.

LINK, ADDRESS, ACCOUNT, AMOUNT = KINDS = ("link", "address", "account", "amount")
# As far as a browser may read it: who stands before an @ is not where a link goes. It ends where
# the next one begins.
_LINK = re.compile(
    r"(?:(?:[a-z][a-z0-9+.-]{1,20}:|(?<!\w))//(?=[\w\[])|www\.)"
    r"(?:(?!\]\(|https?://)[^\s<>\"]){1,2000}",
    re.IGNORECASE,
)
_BARE_LINK = re.compile(
    r"(?<![\w@./-])(?:[\w-]{1,63}\.){1,50}(?:xn--[a-z0-9-]{1,59}|[^\W\d_]{2,24})"
    r"(?:/[^\s<>\"]{0,2000})?(?![\w@])",
    re.IGNORECASE,
)
_AFTER_LINK = ".,;:!?)]}'`|*"
_MOST = 400  # parts of one text: no honest one of 4,000 characters has more


@dataclass(frozen=True)
class TextPart:
    """A part of a text: one of KINDS, as the text writes it, and who named it."""

    kind: str
    text: str
    origin: Origin


def find_parts(text: str) -> list[tuple[str, str]]:
    """Return kind and text of each part, each once.

    Addresses and account numbers are parts of their own in a link too. Raises ValueError for more
    than can be looked at, so that none is hidden behind others.
    """
    parts = list(dict.fromkeys(_find(text)))
    if len(parts) > _MOST:
        raise ValueError(f"more than {_MOST} links, addresses, account numbers and amounts")
    return parts


def _find(text: str) -> Iterator[tuple[str, str]]:
    links = [link[0] for link in _LINK.finditer(text)]
    rest = _LINK.sub(_blank, text)  # without links
    for kind, masked, spans in (
        (ADDRESS, EMAILS, [*addresses(text, ())]),
        (ACCOUNT, IBANS, [*ibans(text)]),
    ):
        for span in spans:
            begin, end = exact_place(masked, text, *span) or span
            yield kind, text[begin:end].strip()
            text = text[:begin] + " " * (end - begin) + text[end:]
    links += [link[0] for link in _BARE_LINK.finditer(_LINK.sub(_blank, text))]
    yield from ((LINK, link.rstrip(_AFTER_LINK)) for link in links)
    yield from ((AMOUNT, one.text) for one in read_amounts(rest) if one.codes != {"?"})


def _blank(match: re.Match[str]) -> str:
    return "|" * len(match[0])  # across which no number finds a currency


def other_names(kind: str, text: str) -> list[Any]:
    """Return what else names the same part: an amount's money, the host of a link."""
    if kind == LINK:
        bare = re.sub(r"^(?:(?:[a-z][a-z0-9+.-]*:)?//)?(?:www\.)?", "", text, flags=re.IGNORECASE)
        host = re.split(r"[/?#\\]", bare)[0].rpartition("@")[2].partition(":")[0]
        return [one for one in (bare, host) if one]
    amounts = read_amounts(text) if kind == AMOUNT else ()
    return [one.money for one in amounts if one.money]


# What a rule sees and says: the case without a clock, its rulings, and the evidence on a card.


@dataclass(frozen=True)
class Case:
    """What the console itself knows of a run; stored with each ruling like the desk's facts."""

    subject: str  # the key of the run's subject
    label: str  # its name
    today: date  # of the review, in UTC
    launched_by: str = ""


NO_CASE = Case("", "", date.min)


def tomorrow(case: Case) -> date:
    return case.today + timedelta(days=1)


def days_ahead(days: int) -> Callable[[Case], date]:
    """Return the bound of a day that a person sets: so many days from the one of the case."""
    return lambda case: case.today + timedelta(days=days)


def days_until(day: date, today: date) -> Days:
    """Return the number of days until `day`; negative if it is past."""
    return Days((day - today).days)


def approve(reason: str, sentence: str, *, risk: int = 10, **measured: Any) -> Ruling:
    """Let a call pass. `measured`, as of each ruling: observed, limit and their unit."""
    return Ruling(RulingKind.APPROVE, reason, sentence, risk, **_measures(**measured))


def revise(
    reason: str, sentence: str, *, to: Json, risk: int = 30, flip: str = "", **measured: Any
) -> Ruling:
    """Change arguments of the call to those in `to`; it is then reviewed again from the start."""
    measures = _measures(**measured)
    return Ruling(RulingKind.REVISE, reason, sentence, risk, flip=flip, action=to, **measures)


def escalate(
    reason: str,
    sentence: str,
    *,
    risk: int = 60,
    flip: str = "",
    shown: Any = None,
    **measured: Any,
) -> Ruling:
    """Ask a person. An approval holds for `shown`: for that name, or for numbers up to it.

    If the value is another or higher when the call is about to be made, they are asked again.
    """
    held = _measures(**({"observed": shown} if shown is not None else {}), **measured)
    return Ruling(RulingKind.ESCALATE, reason, sentence, risk, flip=flip, **held)


def block(reason: str, sentence: str, *, risk: int = 80, flip: str = "", **measured: Any) -> Ruling:
    return Ruling(RulingKind.BLOCK, reason, sentence, risk, flip=flip, **_measures(**measured))


def _measures(observed: Any = None, limit: Any = None, unit: str | None = None) -> dict[str, Any]:
    """Return what a ruling has measured; without a `unit`, in that of the value observed."""
    of_value = unit_of_value(observed) or unit_of_value(limit)
    return {
        "observed": measured_value(observed),
        "limit": measured_value(limit),
        "unit": of_value if unit is None else unit,
    }


def within(observed: Any, most: Any, *, reason: str, what: str) -> Ruling:
    """Approve up to `most`, and ask a person above it; `what` begins the sentence.

    Both have the same type: Days, Money of one currency, or another Count.
    """
    if type(observed) is not type(most) or unit_of_value(observed) != unit_of_value(most):
        raise TypeError(f"{observed!r} is not measured as {most!r} is")
    measured = {"observed": observed, "limit": most}
    if observed <= most:
        sentence = f"{what} {show(observed)}, within the automatic limit of {show(most)}."
        return approve(f"within_{reason}", sentence, risk=15, **measured)
    return escalate(
        reason,
        f"{what} {show(observed)}, over the automatic limit of {show(most)}.",
        risk=min(90, 40 + 30 * (int(observed) - int(most)) // max(int(most), 1)),
        flip=f"{show(most)} or less would have been approved automatically.",
        **measured,
    )


# Evidence is data without markup, stored with the review, with the values of that moment.


@dataclass(frozen=True)
class Fact:
    """A labelled value."""

    label: str
    value: Any


@dataclass(frozen=True)
class Table:
    """Rows under their columns."""

    label: str
    columns: tuple[str, ...]
    rows: Sequence[Sequence[Any]]


@dataclass(frozen=True)
class Link:
    """Where a person can look it up: http or https."""

    label: str
    address: str


@dataclass(frozen=True)
class Quote:
    """An outsider's text, shown as theirs."""

    label: str
    text: str


Evidence: TypeAlias = Fact | Table | Link | Quote


def write_evidence(evidence: Sequence[Evidence]) -> list[Json]:
    """Return evidence as stored with a review. Raises TypeError if it is not evidence."""
    return [_as_json(item) for item in evidence]


def _as_json(item: Evidence) -> Json:
    match item:
        case Fact(label, value):
            return {"kind": "fact", "label": label, "value": show(value)}
        case Table(label, columns, rows):
            shown = [[show(cell) for cell in row] for row in rows]
            return {"kind": "table", "label": label, "columns": list(columns), "rows": shown}
        case Link(label, address):
            if not address.startswith(("https://", "http://")):
                raise TypeError(f"{address!r} is no address of a page")
            return {"kind": "link", "label": label, "address": address}
        case Quote(label, text):
            return {"kind": "quote", "label": label, "text": text}
        case _:
            raise TypeError(f"{item!r} is no evidence: use Fact, Table, Link or Quote")


# Beside a request: what a desk's own books say at this moment, which is kept nowhere.


@dataclass(frozen=True)
class HeldRequest:
    """A request that a person reads."""

    subject: str  # the key of what its run is about; ""
    label: str  # its name
    book: int
    at: datetime
    key: str = ""  # of the call that it started, or that it asks about; "": none
    is_lost: bool = False  # it asks whether that call took effect
    is_open: bool = True
    attempts: int = 1  # at its step
    is_demo: bool = False  # its run has books of its own
    resource: str = ""  # what its call takes from, as far as that was judged
    facts: Any = None  # of its review, which was made at `asked_at`
    asked_at: datetime | None = None


@dataclass(frozen=True)
class Section:
    """A section of a card: Fact, Table, Link, Quote under a title."""

    title: str
    items: Sequence[Any]
    note: str = ""


@dataclass(frozen=True)
class Beside:
    """The present state of a desk's own books, for the reader of a request."""

    name: str = ""  # what people call whom it is about; "": nobody knows
    note: str = ""  # a line under the headline
    sections: Sequence[Section] = ()
    resource: str = ""  # that the amount is taken from, where the request does not name it
    left_minor: int | None = None  # of what the amount is taken from; None: it has no measure
