"""How a view of people's pages answers: signed in, by its method, kept by no cache."""

from __future__ import annotations

from collections.abc import Callable

from django.contrib.auth.decorators import login_required
from django.http.response import HttpResponseBase
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_POST, require_safe


def page(view: Callable[..., HttpResponseBase]) -> Callable[..., HttpResponseBase]:
    """Have a view show something, for whoever is signed in."""
    return require_safe(never_cache(login_required(view)))


def action(view: Callable[..., HttpResponseBase]) -> Callable[..., HttpResponseBase]:
    """Have a view change something, by POST, for whoever is signed in."""
    return require_POST(never_cache(login_required(view)))
