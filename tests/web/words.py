"""The words on a page, without its markup."""

import re
from html import unescape

_TAG = re.compile(r"<(?:script|style).*?</(?:script|style)>|<[^>]*>", re.DOTALL)


def words(page: str) -> str:
    """Return the text of a page or part of one, with single blanks."""
    return " ".join(unescape(_TAG.sub("", page.replace("><", "> <"))).split())
