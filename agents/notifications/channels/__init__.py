"""Ways on which a message leaves: each is a module that words it for its receiver and sends it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Future
from threading import Thread
from typing import Any, TypeVar

from django.http import HttpRequest

from agents.core.requests import Json
from agents.models import Workspace
from agents.models.notifications import LONGEST_FAULT
from agents.shell import access

T = TypeVar("T")


class NotDelivered(Exception):
    """Not delivered. `is_final`: it never will be; `is_server`: the whole server fails."""

    def __init__(self, fault: str, *, is_final: bool = False, is_server: bool = True) -> None:
        super().__init__(fault)
        self.fault, self.is_final, self.is_server = fault[:LONGEST_FAULT], is_final, is_server


async def in_daemon(work: Callable[..., T], *args: Any) -> T:
    """Run `work` in its own thread; cancelling the wait abandons the thread."""
    done: Future[T] = Future()

    def run() -> None:
        if not done.set_running_or_notify_cancel():
            return
        try:
            done.set_result(work(*args))
        except BaseException as error:
            done.set_exception(error)

    Thread(target=run, name="notification", daemon=True).start()
    return await asyncio.wrap_future(done)


def chosen_workspace(request: HttpRequest) -> Workspace:
    found = access.workspaces_to_notify(access.person(request))
    given = request.POST if request.method == "POST" else request.GET
    return access.choose_workspace(found, given.get("workspace", ""))


def page_frame(request: HttpRequest, workspace: Workspace) -> dict[str, Json]:
    found = access.workspaces_to_notify(access.person(request))
    return {"nav": "notifications", "workspace": workspace, "workspaces": found}
