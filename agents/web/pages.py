"""How a view of people's pages answers: signed in, by its method, kept by no cache."""

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
    """What django-htmx makes of a request."""

    htmx: HtmxDetails


def page(view: Callable[..., HttpResponseBase]) -> Callable[..., HttpResponseBase]:
    """Have a view show something, for whoever is signed in."""
    return require_safe(never_cache(login_required(view)))


def action(view: Callable[..., HttpResponseBase]) -> Callable[..., HttpResponseBase]:
    """Have a view change something, by POST, for whoever is signed in.

    Whoever is not signs in first, is told that nothing was sent, and is led to the page that has
    the form; with a script it has kept what was typed. Nothing is sent by signing in.
    """

    @never_cache
    @wraps(view)
    def answer(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        shown_at = page_of(request.get_full_path())
        if not request.user.is_authenticated and request.method in ("GET", "HEAD", "POST"):
            is_sent = request.method == "POST"
            login = reverse("sign-in") + ("?unsent=1" if is_sent else "")
            return redirect_to_login(shown_at, login)
        if request.method != "POST":  # a refused form's address, typed or sent to a colleague
            told = render_to_string("405.html", {"request": request, "shown_at": shown_at})
            return HttpResponseNotAllowed(["POST"], told)
        return view(request, *args, **kwargs)

    _ACTIONS.add(answer)
    return answer


def lead(request: HttpRequest, address: str) -> HttpResponse:
    """Lead the whole page to an address, also where a part of it asked."""
    if getattr(request, "htmx", False):
        return HttpResponseClientRedirect(address)
    return redirect(address)


def page_of(address: str) -> str:
    """Return the page that an address shows; of an action the nearest above it, with its form."""
    path, _, query = address.partition("?")
    if not is_valid_path(path) or resolve(path).func not in _ACTIONS:
        return address
    parts = path.strip("/").split("/")
    above = (
        "/" + "".join(f"{part}/" for part in parts[:end]) for end in reversed(range(len(parts)))
    )
    found = next(at for at in above if is_valid_path(at) and resolve(at).func not in _ACTIONS)
    return f"{found}?{query}" if query else found
