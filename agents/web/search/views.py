"""The search page, whose results also stand under the field at the top of every page."""

from __future__ import annotations

from django.http import HttpResponse
from django.shortcuts import render

from agents.shell import access
from agents.shell.pages import HtmxRequest, page
from agents.web.search.found import LONGEST, find


@page
def search(request: HtmxRequest) -> HttpResponse:
    """Show what has the words in the address. A field that is typed in takes the results alone."""
    text = request.GET.get("q", "").strip()
    shown = {"groups": find(access.person(request), text), "text": text[:LONGEST], "nav": "search"}
    is_part = (request.htmx.target or "").endswith("found")  # found, as htmx writes it: div#found
    return render(request, "search/_found.html" if is_part else "search/page.html", shown)
