"""Decorators for the views of people's pages: signed in, by one method, never cached."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Set
from datetime import datetime
from functools import wraps
from typing import Any, TypeVar

from django.contrib.auth.decorators import login_required
from django.contrib.auth.views import redirect_to_login
from django.db import connection, connections
from django.db.models import Model, Q, QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseNotAllowed, QueryDict
from django.http.response import HttpResponseBase
from django.shortcuts import redirect
from django.template.loader import render_to_string
from django.urls import is_valid_path, resolve, reverse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe
from django_htmx.http import HttpResponseClientRedirect
from django_htmx.middleware import HtmxDetails

_ACTIONS: set[Callable[..., HttpResponseBase]] = set()


class HtmxRequest(HttpRequest):
    """A request as extended by django-htmx."""

    htmx: HtmxDetails


def page(view: Callable[..., HttpResponseBase]) -> Callable[..., HttpResponseBase]:
    """Decorate a view that shows something to a signed-in person."""
    return require_safe(never_cache(login_required(view)))


def action(view: Callable[..., HttpResponseBase]) -> Callable[..., HttpResponseBase]:
    """Decorate a view that changes something by POST for a signed-in person.

    Anyone else signs in first, is told that nothing was sent, and returns to the page with the
    form; a script has kept what was typed. Signing in sends nothing.
    """

    @never_cache
    @wraps(view)
    def answer(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        shown_at = page_of(request.get_full_path())
        if not request.user.is_authenticated and request.method in ("GET", "HEAD", "POST"):
            is_sent = request.method == "POST"
            login = reverse("sign-in") + ("?unsent=1" if is_sent else "")
            return redirect_to_login(shown_at, login)
        if request.method != "POST":  # a form's address, typed or sent to a colleague
            told = render_to_string("405.html", {"request": request, "shown_at": shown_at})
            return HttpResponseNotAllowed(["POST"], told)
        return view(request, *args, **kwargs)

    _ACTIONS.add(answer)
    return answer


def lead(request: HttpRequest, address: str) -> HttpResponse:
    """Redirect the whole page, even from a partial request."""
    if getattr(request, "htmx", False):
        return HttpResponseClientRedirect(address)
    return redirect(address)


def page_of(address: str) -> str:
    """Return the page at an address; for an action, the nearest page above it, with its form."""
    path, _, query = address.partition("?")
    if not is_valid_path(path) or resolve(path).func not in _ACTIONS:
        return address
    parts = path.strip("/").split("/")
    above = (
        "/" + "".join(f"{part}/" for part in parts[:end]) for end in reversed(range(len(parts)))
    )
    found = next(at for at in above if is_valid_path(at) and resolve(at).func not in _ACTIONS)
    return f"{found}?{query}" if query else found


# Errors that every form shares.


DIGITS = 19


class BadForm(Exception):
    """The form cannot be acted on: `field` says where, the message what to do."""

    def __init__(self, field: str, sentence: str) -> None:
        super().__init__(sentence)
        self.field = field


class NotOurForm(BadForm):
    """The form has fields that no page of ours sends: made by hand or by another version."""


def whole_number(text: str) -> int | None:
    """Return the number that an address names; None unless it fits a column of 64 bits."""
    return int(text) if text.isascii() and text.isdigit() and len(text) < DIGITS else None


def only(posted: QueryDict, fields: Set[str]) -> None:
    """Refuse a form with other fields, or with a field twice. Raises NotOurForm."""
    if set(posted) - fields or any(len(values) > 1 for _, values in posted.lists()):
        raise NotOurForm("", "The form holds fields that it should not. Load the page again.")


# The newest rows of several workspaces, in one query that reads at most a page of each.
#
# Ordering by time over `workspace IN (...)` can use no index: a database would read and sort all
# rows. In a union by workspace, each part ends after a page, by its index.


M = TypeVar("M", bound=Model)


def newest(found: QuerySet[M], workspaces: Iterable[int], column: str, most: int) -> QuerySet[M]:
    """Return the `most` rows of these workspaces that are newest by `column`, then by key."""
    if found.query.is_empty():
        return found
    ordered = found.order_by(f"-{column}", "-pk")
    homes = list(workspaces)
    if len(homes) < 2:
        return ordered.filter(workspace__in=homes)[:most]
    # Django builds only two, as each takes it long; the others differ from these in one place.
    parts = [ordered.filter(workspace=one).values_list(column, "pk")[:most] for one in homes[:2]]
    (part, params), (_, others) = (one.query.sql_with_params() for one in parts)
    (at,) = (n for n, pair in enumerate(zip(params, others, strict=True)) if pair[0] != pair[1])
    asked = [f"SELECT * FROM ({part}) AS part_{n}" for n in range(len(homes))]  # noqa: S608
    sql = " UNION ALL ".join(asked) + f" ORDER BY 1 DESC, 2 DESC LIMIT {most}"
    given = [value for one in homes for value in (*params[:at], one, *params[at + 1 :])]
    with connections[found.db].cursor() as cursor:
        cursor.execute(sql, given)
        keys = [found.model._meta.pk.to_python(key) for _, key in cursor.fetchall()]
    return found.model._default_manager.filter(pk__in=keys).order_by(f"-{column}", "-pk")


def older(found: QuerySet[M], column: str, when: datetime, pk: object) -> QuerySet[M]:
    """Return the rows after a place in that order."""
    # A database begins there in its index only if a separate condition says so.
    behind = Q(**{f"{column}__lt": when}) | Q(**{column: when}, pk__lt=pk)
    return found.filter(behind, **{f"{column}__lte": when})


# The values that occur in a column, for a filter to offer.


MOST = 1000  # values that are read


def occurring(
    model: type[Model], column: str, workspaces: Iterable[int], *, condition: str = "true"
) -> set[str]:
    """Return what stands in a text column of these workspaces, "" aside, in one query.

    From each value to the next by an index of workspace and column, however many rows have it.
    Where that is a partial one, its `condition` is repeated, of the row `e`.
    """
    homes = ", ".join(str(int(one)) for one in workspaces)
    if not homes:
        return set()
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
