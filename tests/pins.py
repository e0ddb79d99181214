"""Pinned numbers: the database queries of pages. Raising one needs a reason in the commit."""

from collections.abc import Iterator
from contextlib import contextmanager

from django.db import connection
from django.test.utils import CaptureQueriesContext

MOST = 12  # of any page that has no row below
QUERIES = {
    "healthz": 0,
    "home": 11,
    "approvals": 8,
    "decided": 5,
    "runs": 8,
    "audit": 11,
    "kill": 8,
    "kill of many workspaces": 9,
    "launch": 7,
    "policy": 9,
    "card": 10,
    "card above a limit": 11,
    "card after a decision": 11,
}


@contextmanager
def pinned(page: str = "") -> Iterator[None]:
    """Fail if the block takes another number of queries than pinned for the page, or too many."""
    with CaptureQueriesContext(connection) as asked:
        yield
    told = "\n".join(query["sql"] for query in asked)
    assert len(asked) <= QUERIES.get(page, MOST), told
    assert page not in QUERIES or len(asked) == QUERIES[page], told
