"""The application as an ASGI server runs it: the pages, and live updates in front of them."""

import os
from collections.abc import Awaitable, Callable
from typing import Any

from django.core.asgi import get_asgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "opsconsole.settings")
pages = get_asgi_application()

from agents.web.live.app import PATH, live  # noqa: E402 - Django has to be set up first


async def application(
    scope: dict[str, Any],
    receive: Callable[[], Awaitable[Any]],
    send: Callable[[Any], Awaitable[None]],
) -> None:
    """Serve a stream past Django, whose middleware would hold a thread for each; else a page."""
    is_live = scope["type"] == "http" and scope["path"] == PATH
    await (live if is_live else pages)(scope, receive, send)
