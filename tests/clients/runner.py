"""Run a program of docs/agents*.md in the frameworks' environment, and die where the test says.

`runner.py PROGRAM …`, with DIE=before (the refund is proposed), after (it was) or told (what
became of it is known, and the model is not told). By SIGKILL: nothing of the program's is run.
"""

import os
import runpy
import signal
import sys
from typing import Any

import httpx2

DIE, TOOL = os.environ.get("DIE", ""), "issue_refund"


def die_if(point: str) -> None:
    if point == DIE:
        os.kill(os.getpid(), signal.SIGKILL)


def is_proposal(request: httpx2.Request) -> bool:
    return request.url.path.endswith("/calls") and TOOL.encode() in request.content


def look(request: httpx2.Request, answer: httpx2.Response) -> None:
    if is_proposal(request):
        die_if("after")
    if "/calls" in request.url.path:
        told = answer.json()
        if (told.get("tool"), told.get("status")) == (TOOL, "executed"):
            die_if("told")


send, asend = httpx2.Client.send, httpx2.AsyncClient.send


def watched(self: Any, request: httpx2.Request, **more: Any) -> httpx2.Response:
    if is_proposal(request):
        die_if("before")
    answer = send(self, request, **more)
    look(request, answer)
    return answer


async def awatched(self: Any, request: httpx2.Request, **more: Any) -> httpx2.Response:
    if is_proposal(request):
        die_if("before")
    answer = await asend(self, request, **more)
    look(request, answer)
    return answer


httpx2.Client.send, httpx2.AsyncClient.send = watched, awatched  # type: ignore[method-assign]
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
