"""Lists that people filter and page through.

A list is a `Filter` with its fields, a `Keyset` for its order, and a template; its form is
`_filter_fields.html`.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import Any, ClassVar, Generic, Self, TypeAlias, TypeVar
from urllib.parse import urlencode

from django.core.exceptions import ValidationError
from django.db import connection, connections
from django.db.models import Model, Q, QuerySet

from agents.shell.formats import read_amount, read_currency, read_time
from agents.shell.pages import whole_number

LONGEST = 200  # characters of a filter
_INPUTMODES: Mapping[Callable[[str], object], str] = {
    read_amount: "decimal",
    whole_number: "numeric",
}
M = TypeVar("M", bound=Model)
R = TypeVar("R")


def read_text(text: str) -> str | None:
    """Return a text that a row may hold; PostgreSQL rejects NUL."""
    return None if "\0" in text or len(text) > LONGEST else text


@dataclass(frozen=True)
class Field:
    """A field of a filter. Its reader returns None for a text that it cannot read."""

    name: str  # in the address
    label: str
    column: str = ""  # the look-up of its value in a row; "": the list looks it up itself
    read: Callable[[str], Any] = read_text

    @property
    def is_time(self) -> bool:
        return self.read is read_time

    @property
    def inputmode(self) -> str:
        return _INPUTMODES.get(self.read, "")


AMOUNT_FIELDS = (
    Field("amount_from", "Amount from", read=read_amount),
    Field("amount_to", "Amount to", read=read_amount),
    Field("currency", "Currency", read=read_currency),
)
# A field, its choices with their words, and its text. Without choices, the text is typed.
FormField: TypeAlias = tuple[Field, Sequence[tuple[str, str]], str]


@dataclass(frozen=True)
class Filter:
    """The filter in an address. If a field cannot be read, no row matches."""

    fields: ClassVar[Sequence[Field]] = ()
    given: Mapping[str, str]

    @classmethod
    def of(cls, address: Mapping[str, str], **more: str) -> Self:
        """Read the parameters of an address."""
        texts = {field.name: address.get(field.name, "").strip() for field in cls.fields}
        return cls({name: text for name, text in texts.items() if text}, **more)

    @cached_property
    def values(self) -> dict[Field, Any]:
        """Return the given values; None for one that cannot be read."""
        known = {field.name: field for field in self.fields}
        return {known[name]: known[name].read(text) for name, text in self.given.items()}

    @property
    def unreadable(self) -> Field | None:
        return next((field for field, value in self.values.items() if value is None), None)

    def value(self, name: str) -> Any:
        """Return a field's given value; None if it is missing."""
        return next((value for field, value in self.values.items() if field.name == name), None)

    def keep(self, rows: QuerySet[M]) -> QuerySet[M]:
        """Keep the rows that match the fields with a column."""
        return rows.none() if self.unreadable else rows.filter(self.matches)

    @property
    def matches(self) -> Q:
        return Q(**{f.column: value for f, value in self.values.items() if f.column})

    def other(self, **changed: object) -> str:
        """Return the address's query with some parameters replaced, or removed by ""."""
        return urlencode({name: text for name, text in {**self.given, **changed}.items() if text})

    @property
    def query(self) -> str:
        return self.other()

    def form(self, **choices: Iterable[tuple[str, str]]) -> list[FormField]:
        """Return each field with its choices and text; leave out empty choices."""
        shown: list[FormField] = []
        for field in self.fields:
            offered, text = list(choices.get(field.name, ())), self.given.get(field.name, "")
            if offered and text and text not in dict(offered):
                offered.insert(0, (text, text))
            if offered or field.name not in choices:
                shown.append((field, offered, text))
        return shown


@dataclass(frozen=True)
class Page(Generic[R]):
    """A page of a list, and the mark of the next one; "" if nothing follows."""

    rows: Sequence[R]
    older: str


@dataclass(frozen=True)
class Keyset:
    """The order of a list: by a time and then by key, or by key alone.

    A page begins after the last row of the previous page, so its cost does not grow with the list.
    """

    column: str = ""  # of the time
    is_oldest_first: bool = False

    @property
    def order(self) -> list[str]:
        sign = "" if self.is_oldest_first else "-"
        return [f"{sign}{column}" for column in (self.column, "pk") if column]

    def mark(self, row: Any) -> str:
        """Return the mark of the page that begins after a row."""
        # In UTC with a Z: the + of an offset would be a blank in an address.
        at = f"{getattr(row, self.column):%Y-%m-%dT%H:%M:%S.%fZ}_" if self.column else ""
        return f"{at}{row.pk}"

    def place(self, model: type[Model], mark: str) -> tuple[datetime | None, Any] | None:
        """Return the time, if it has one, and the key of a mark; None if it cannot be read."""
        at, _, text = mark.rpartition("_")
        when = read_time(at) if at else None
        try:
            key = model._meta.pk.to_python(text)
        except ValidationError:
            return None
        if bool(self.column) != bool(when) or (isinstance(key, int) and whole_number(text) is None):
            return None
        return when, key

    def after(self, rows: QuerySet[M], mark: str) -> QuerySet[M]:
        """Return the rows after a mark; all rows if it cannot be read."""
        place, than = self.place(rows.model, mark), "gt" if self.is_oldest_first else "lt"
        if place is None:
            return rows
        when, key = place
        if not when:
            return rows.filter(**{f"pk__{than}": key})
        # A database begins there in its index only if a separate condition says so.
        behind = Q(**{f"{self.column}__{than}": when}) | Q(
            **{self.column: when, f"pk__{than}": key}
        )
        return rows.filter(behind, **{f"{self.column}__{than}e": when})

    def page(self, rows: QuerySet[M], mark: str, most: int) -> Page[M]:
        return self.cut(list(self.after(rows, mark).order_by(*self.order)[: most + 1]), most)

    def cut(self, rows: Sequence[R], most: int) -> Page[R]:
        """Return a page of rows, of which one more than a page was read."""
        return Page(rows[:most], self.mark(rows[most - 1]) if len(rows) > most else "")


# The newest rows of several workspaces, in one query that reads at most a page of each.
#
# Ordering by time over `workspace IN (...)` can use no index: a database would read and sort all
# rows. In a union by workspace, each part ends after a page, by its index.


def newest(rows: QuerySet[M], workspaces: Iterable[int], column: str, most: int) -> QuerySet[M]:
    """Return the `most` rows of these workspaces that are newest by `column`, then by key."""
    if rows.query.is_empty():
        return rows
    ordered = rows.order_by(f"-{column}", "-pk")
    homes = list(workspaces)
    if len(homes) < 2:
        return ordered.filter(workspace__in=homes)[:most]
    # Django builds only two, as each takes it long; the others differ from these in one place.
    parts = [ordered.filter(workspace=one).values_list(column, "pk")[:most] for one in homes[:2]]
    (part, params), (_, others) = (one.query.sql_with_params() for one in parts)
    (at,) = (n for n, pair in enumerate(zip(params, others, strict=True)) if pair[0] != pair[1])
    selects = [f"SELECT * FROM ({part}) AS part_{n}" for n in range(len(homes))]  # noqa: S608
    sql = " UNION ALL ".join(selects) + f" ORDER BY 1 DESC, 2 DESC LIMIT {most}"
    given = [value for one in homes for value in (*params[:at], one, *params[at + 1 :])]
    with connections[rows.db].cursor() as cursor:
        cursor.execute(sql, given)
        keys = [rows.model._meta.pk.to_python(key) for _, key in cursor.fetchall()]
    return rows.model._default_manager.filter(pk__in=keys).order_by(f"-{column}", "-pk")


# The values that occur in a column, for a filter to offer.


MOST = 1000  # values that are read


def distinct_values(
    model: type[Model], column: str, workspaces: Iterable[int], *, condition: str = ""
) -> set[str]:
    """Return the values of a text column in these workspaces, without "", in one query.

    It goes from each value to the next by an index of workspace and column, however many rows have
    it. For a partial index, repeat its `condition` on the row `e`.
    """
    homes = ", ".join(str(int(one)) for one in workspaces)
    if not homes:
        return set()
    condition = condition or f"NOT (e.{column} = '')"
    # With another bound beside this one SQLite may begin at that, and read every row.
    after = (
        f"(SELECT e.{column} FROM {model._meta.db_table} e WHERE e.workspace_id = {{}} "  # noqa: S608
        f"AND e.{column} > {{}} AND {condition} ORDER BY e.{column} LIMIT 1)"
    )
    first, following = after.format("w.id", "''"), after.format("k.w", "k.v")
    sql = (
        f"WITH RECURSIVE k(w, v) AS (SELECT w.id, {first} FROM agents_workspace w "  # noqa: S608
        f"WHERE w.id IN ({homes}) UNION ALL SELECT k.w, {following} FROM k WHERE v IS NOT NULL) "
        f"SELECT v FROM k WHERE v IS NOT NULL LIMIT {MOST}"
    )
    with connection.cursor() as cursor:
        cursor.execute(sql)
        return {value for (value,) in cursor.fetchall()}
