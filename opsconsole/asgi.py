"""The application as an ASGI server runs it: the pages, and live updates in front of them."""

import gc
import os
from collections.abc import Awaitable, Callable
from typing import Any

from django.conf import settings
from django.core.asgi import get_asgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "opsconsole.settings")
os.umask(0o077)  # what is written here is its owner's alone: database, mail, keys
django = get_asgi_application()

from agents.web.live.app import PATH, live  # noqa: E402 - Django has to be set up first
from opsconsole.intake import Intake  # noqa: E402

BODY_SECONDS = 15.0  # for a form to arrive
gc.collect()
gc.freeze()  # what was imported stays; to look through it again takes a page 100 ms now and then
pages = Intake(django, most=settings.DATA_UPLOAD_MAX_MEMORY_SIZE, seconds=BODY_SECONDS)


async def application(
    scope: dict[str, Any],
    receive: Callable[[], Awaitable[Any]],
    send: Callable[[Any], Awaitable[None]],
) -> None:
    """Serve a stream past Django, whose middleware would hold a thread for each; else a page."""
    is_live = scope["type"] == "http" and scope["path"] == PATH
    await (live if is_live else pages)(scope, receive, send)
