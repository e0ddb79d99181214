"""Decorators for the views of people's pages: signed in, by one method, never cached."""

from collections.abc import Callable, Set
from functools import wraps
from typing import Any
from uuid import UUID

from django.contrib.auth.decorators import login_required
from django.contrib.auth.views import redirect_to_login
from django.http import HttpRequest, HttpResponse, HttpResponseNotAllowed, QueryDict
from django.http.response import HttpResponseBase
from django.shortcuts import redirect
from django.template.loader import render_to_string
from django.urls import is_valid_path, resolve, reverse
from django.utils.http import url_has_allowed_host_and_scheme
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
            html = render_to_string("405.html", {"request": request, "shown_at": shown_at})
            return HttpResponseNotAllowed(["POST"], html)
        return view(request, *args, **kwargs)

    _ACTIONS.add(answer)
    return answer


def lead(request: HttpRequest, address: str) -> HttpResponse:
    """Redirect the whole page, even from a partial request."""
    if getattr(request, "htmx", False):
        return HttpResponseClientRedirect(address)
    return redirect(address)


def own_address(address: str) -> str:
    """Return where a form leads on to: a page of this site, or else the overview."""
    is_ours = address.startswith("/") and url_has_allowed_host_and_scheme(address, None)
    return address if is_ours else "/"


def page_of(address: str) -> str:
    """Return the page at an address; for an action, the nearest page above it, with its form."""
    path, _, query = address.partition("?")
    if not is_valid_path(path) or resolve(path).func not in _ACTIONS:
        return address
    parts = path.strip("/").split("/")
    above = (
        "/" + "".join(f"{part}/" for part in parts[:end]) for end in reversed(range(len(parts)))
    )
    nearest = next(at for at in above if is_valid_path(at) and resolve(at).func not in _ACTIONS)
    return f"{nearest}?{query}" if query else nearest


# Errors that every form shares.


DIGITS = 19


class BadForm(Exception):
    """The form cannot be acted on: `field` says where, the message what to do."""

    def __init__(self, field: str, sentence: str) -> None:
        super().__init__(sentence)
        self.field = field


class NotOurForm(BadForm):
    """The form has fields that none of our pages sends: made by hand or by another version."""


def whole_number(text: str) -> int | None:
    """Return the number that an address names; None unless it fits a column of 64 bits."""
    return int(text) if text.isascii() and text.isdigit() and len(text) < DIGITS else None


def uuid_of(text: str) -> UUID | None:
    """Return the id that an address names; None for any other text."""
    try:
        return UUID(text)
    except ValueError:
        return None


def only(posted: QueryDict, fields: Set[str]) -> None:
    """Refuse a form with other fields, or with a field twice. Raises NotOurForm."""
    if set(posted) - fields or any(len(values) > 1 for _, values in posted.lists()):
        raise NotOurForm("", "The form holds fields that it should not. Load the page again.")
