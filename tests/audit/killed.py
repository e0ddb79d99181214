"""Archive, or erase archived texts, killed before the n-th lasting change.

That is a commit, or a file being flushed, renamed or removed. Runs as a contender.
"""

import os
import signal
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

LASTING = ("fsync", "replace", "unlink")  # of os


def dies(number: int, act: str, slug: str, directory: str) -> int:
    """Return the exit code of a process killed before change `number` (from 1): -9, or 0."""
    child = os.fork()  # which costs no start; this process has no connection that it could share
    if not child:
        try:
            _die(number, act, slug, Path(directory))
        except BaseException:
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def _die(number: int, act: str, slug: str, directory: Path) -> None:
    from django.db import connection
    from django.utils import timezone

    from agents.audit import archiving
    from agents.models import Head, Workspace

    archiving.TOGETHER = 1  # runs a transaction: it may die between two deletions
    left = number

    def count() -> None:
        nonlocal left
        left -= 1
        if not left:
            os.kill(os.getpid(), signal.SIGKILL)

    def mortal(act: Callable[..., Any]) -> Callable[..., Any]:
        def acts(*given: Any, **named: Any) -> Any:
            count()
            return act(*given, **named)

        return acts

    def execute(act: Callable[..., Any], sql: str, *rest: Any) -> Any:
        if not connection.in_atomic_block and sql.startswith(("INSERT", "UPDATE", "DELETE")):
            count()
        return act(sql, *rest)

    for name in LASTING:
        setattr(os, name, mortal(getattr(os, name)))
    connection.commit = mortal(connection.commit)  # type: ignore[method-assign]
    at = timezone.now()
    given: Any = {"workspace": Workspace.objects.get(slug=slug), "directory": directory, "at": at}
    with connection.execute_wrapper(execute):
        if act == "forget":
            archiving.forget_archived(**given, actor="ada")
        else:
            before = Head.objects.latest("number").at
            archiving.archive_runs(**given, actor="ada", before=before)
