"""How indexes and constraints of tables are written: a name, the columns, and for which rows."""

from django.db.models import CheckConstraint, Index, Q, UniqueConstraint


def index(name: str, *columns: str, where: Q | None = None) -> Index:
    return Index(fields=columns, condition=where, name=name)


def once(name: str, *columns: str, where: Q | None = None) -> UniqueConstraint:
    """Let these columns have each value in one row only."""
    return UniqueConstraint(fields=columns, condition=where, name=name)


def check(name: str, condition: Q) -> CheckConstraint:
    return CheckConstraint(condition=condition, name=name)


def has(column: str) -> Q:
    """Return the condition for rows with a value in a column."""
    return Q(**{f"{column}__isnull": False})
