"""The ASGI application: live updates, MCP, agents' calls, and all other pages by Django."""

import gc
import os
from collections.abc import Awaitable, Callable
from typing import Any

from django.conf import settings
from django.core.asgi import get_asgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "opsconsole.settings")
os.umask(0o077)  # files written here are private: database, mail, keys
django = get_asgi_application()

from agents.external.carrying import carrying_out  # noqa: E402 - Django has to be set up first
from agents.external.waiting import Waiting  # noqa: E402
from agents.live.app import PATH, live  # noqa: E402
from opsconsole.intake import App, Intake, refuse, unfit  # noqa: E402

BODY_SECONDS = 15.0  # for a form to arrive
gc.collect()
gc.freeze()  # keep imported objects out of collections, which would cost a page 100 ms
waiting = Waiting(django)
app: App = waiting
if settings.OPSCONSOLE_MCP:  # its package is an extra
    from agents.external.mcp import Mcp

    app = Mcp(waiting)
pages = Intake(app, most=settings.DATA_UPLOAD_MAX_MEMORY_SIZE, seconds=BODY_SECONDS)


async def application(
    scope: dict[str, Any],
    receive: Callable[[], Awaitable[Any]],
    send: Callable[[Any], Awaitable[None]],
) -> None:
    """Serve a live stream without Django, whose middleware would hold a thread; else a page."""
    if scope["type"] == "lifespan":
        await receive()
        async with carrying_out():
            await send({"type": "lifespan.startup.complete"})
            await receive()
        return await send({"type": "lifespan.shutdown.complete"})
    is_live = scope["type"] == "http" and scope["path"] == PATH
    if is_live and (refusal := unfit(scope)):
        return await refuse(scope, send, 403, refusal)
    return await (live if is_live else pages)(scope, receive, send)
