"""Where requests go: a model server, or the demo model. Settings are read at each call."""

from __future__ import annotations

from dataclasses import dataclass, field
from urllib.parse import urlsplit

from django.conf import settings

from agents.llm.exchange import ModelFailed

LONGEST_ADDRESS = 500  # characters of it that count
OFFICIAL = "https://api.openai.com/v1"
NO_KEY = "not-needed"  # for servers without keys: the header must be sent


@dataclass(frozen=True)
class Backend:
    """A server of models, or the demo model."""

    base_url: str
    key: str = field(repr=False)
    demo: bool = False


def is_demo() -> bool:
    """Tell whether the demo model answers: neither a key nor an address is configured."""
    return not (settings.OPENAI_API_KEY or settings.OPENAI_BASE_URL)


def backend() -> Backend:
    """Return the present backend. Raises ModelFailed for an address that is not HTTP(S)."""
    if is_demo():
        return Backend("https://demo.invalid/v1", NO_KEY, demo=True)
    url = settings.OPENAI_BASE_URL or OFFICIAL
    if not url.startswith(("https://", "http://")):
        message = "OPENAI_BASE_URL must begin with https:// or http://."
        raise ModelFailed("llm_error", message, outage=True)
    return Backend(url, settings.OPENAI_API_KEY or NO_KEY)


def address() -> str:
    """Return the server's address without credentials; "" for the demo model."""
    if is_demo():
        return ""
    parts = urlsplit(settings.OPENAI_BASE_URL or OFFICIAL)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"[:LONGEST_ADDRESS]
