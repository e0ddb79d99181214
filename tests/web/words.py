"""What people read on a page: its words without its markup."""

from __future__ import annotations

import re
from html import unescape

_TAG = re.compile(r"<(?:script|style).*?</(?:script|style)>|<[^>]*>", re.DOTALL)


def words(page: str) -> str:
    """Return the text of a page or a part of one, blanks as one."""
    return " ".join(unescape(_TAG.sub("", page.replace("><", "> <"))).split())
