"""Show people who decide the values behind names: the one place that says who sees them.

Everything is kept, rendered, exported and sent with names. Only HTML on its way to a person whose
role sees values gets them, as its last step, and only those of the runs that it links to.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Collection
from html import escape
from uuid import UUID

from django.contrib.auth.models import User
from django.db import DatabaseError
from django.db.models import Q
from django.http import HttpRequest, HttpResponse

from agents.core import redact
from agents.core.pseudonyms import NAME, Pseudonyms
from agents.models import DECIDES, Escalation, MaskedValue, Role, Run
from agents.models.masked_value import ValuesLocked, naming, read_values
from agents.web import access

log = logging.getLogger(__name__)

SEE_VALUES = (*DECIDES, Role.OPERATOR)  # viewers and auditors read names
NAME_IN_HTML = re.compile(NAME.pattern.encode())
_RUN = re.compile(rb"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_REQUEST = re.compile(rb"/approvals/([0-9]{1,18})/")
# A value does not go into an address, where servers log it; nor where a page finds an element.
_KEPT = re.compile(
    rb"""\s(?:href|src|action|formaction|id|name|for|hx-[a-z-]+)="[^"]*"|""" + NAME_IN_HTML.pattern
)
_EMPTIED = Q(erased_at__isnull=False) | Q(archived_at__isnull=False)
Answer = Callable[[HttpRequest], HttpResponse]


def values_for_people(get_response: Answer) -> Answer:
    """Put values into the pages of people who may see them."""

    def answer(request: HttpRequest) -> HttpResponse:
        response = get_response(request)
        is_page = response.get("Content-Type", "").startswith("text/html")
        if response.streaming or not is_page or not NAME_IN_HTML.search(response.content):
            return response
        if request.user.is_authenticated:
            place = request.path.encode()
            response.content = with_values(response.content, request.user, place)
        return response

    return answer


def with_values(html: bytes, user: User, place: bytes = b"") -> bytes:
    """Return HTML with the values that a person may see of the runs that it, or its `place`, names.

    Of an erased run the names stay, and say so.
    """
    named = {found.decode() for found in NAME_IN_HTML.findall(html)}
    spaces = [part.workspace_id for part in access.parts_of(user) if part.role in SEE_VALUES]
    if not named or not spaces:
        return html
    linked = _links(html + place)
    try:
        shown = _values(named, linked, spaces)
        gone = named - shown.keys()
        if gone and Run.objects.filter(linked, _EMPTIED, workspace__in=spaces).exists():
            shown |= {name: f"{name} (erased)".encode() for name in gone}
    except DatabaseError as missing:  # a page with names is better than none
        log.warning("A page is shown with names: %s", missing)
        return html

    def put(found: re.Match[bytes]) -> bytes:
        return shown.get(found[0].decode("utf-8", "replace"), found[0])

    return _KEPT.sub(put, html)


def spellings(text: str, workspaces: Collection[int]) -> list[str]:
    """Return a text to look for as it is typed, and as each workspace keeps the values in it."""
    by_name = dict.fromkeys(redact.KINDS, redact.NAME)
    kept = (redact.mask_json(text, by_name, namer=Pseudonyms(naming(one))) for one in workspaces)
    return list(dict.fromkeys([text, *kept]))


def _links(html: bytes) -> Q:
    """Return a filter of the runs that HTML links to, by themselves or by a request of theirs."""
    runs = {UUID(found.decode()) for found in _RUN.findall(html)}
    requests = {int(found) for found in _REQUEST.findall(html)}
    of_requests = Escalation.objects.filter(pk__in=requests).values("run")
    return Q(pk__in=runs) | Q(pk__in=of_requests)


def _values(named: Collection[str], linked: Q, spaces: Collection[int]) -> dict[str, bytes]:
    """Return the values of names that these runs can resolve, as HTML."""
    runs = Run.objects.filter(linked, workspace__in=spaces, has_values=True)
    rows = MaskedValue.objects.filter(run__in=runs, name__in=named).select_related("run")
    values: dict[str, bytes] = {}
    for row in rows.only("name", "token", "run__workspace"):
        try:
            known = dict(read_values(row.run.workspace_id, [row]))
        except ValuesLocked as missing:  # another run's may be readable
            log.warning("A page is shown with names: %s", missing)
            continue
        values |= {name: escape(value).encode() for name, value in known.items()}
    return values
