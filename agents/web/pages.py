"""How a view of people's pages answers: signed in, by its method, kept by no cache."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

from django.contrib.auth.decorators import login_required
from django.contrib.auth.views import redirect_to_login
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.urls import is_valid_path, resolve
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_POST, require_safe
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

    Whoever is not signs in first and is led to the page that has the form, which keeps what was
    typed: nothing is sent by signing in.
    """
    signed_in = require_POST(view)

    @never_cache
    @wraps(view)
    def answer(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        if not request.user.is_authenticated and request.method in ("GET", "HEAD", "POST"):
            return redirect_to_login(page_of(request.get_full_path()))
        return signed_in(request, *args, **kwargs)

    _ACTIONS.add(answer)
    return answer


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
