"""Decorators for the views of people's pages: signed in, by one method, never cached."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

from django.contrib.auth.decorators import login_required
from django.contrib.auth.views import redirect_to_login
from django.http import HttpRequest, HttpResponse, HttpResponseNotAllowed
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
