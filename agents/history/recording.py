"""Drive cases once with the real engine, in a temporary database.

A separate process does this (manage.py record_cases), so that originals never appear among the rows
that people see, whatever database the demo uses.
"""

from __future__ import annotations

import asyncio
import os
import pickle
import subprocess
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from django.conf import settings
from django.contrib.auth.models import User
from django.utils import timezone

from agents.core.decisions import Decision
from agents.engine.turns.advance import advance
from agents.history.copying import Original, read_original
from agents.models import Escalation, Run, Workspace
from agents.requests import deciding
from agents.runs import launching
from agents.sdk.demo import PastCase
from agents.sdk.desk import DESKS

CASES, ORIGINALS = "cases", "originals"  # files in the folder that both processes share


class Recording:
    """Cases being driven, in their own folder."""

    def __init__(self, desk: str, cases: Sequence[PastCase]) -> None:
        """Start the process, without waiting for it."""
        self._folder = TemporaryDirectory(prefix="opsconsole-recording-")
        folder = self._folder.name
        (Path(folder) / CASES).write_bytes(pickle.dumps((desk, list(cases))))
        scratch = {
            "DATABASE_URL": f"sqlite:///{folder}/scratch.sqlite3",
            "OPSCONSOLE_DATA_DIR": folder,
            "OPSCONSOLE_DISPATCH": "polling",
            "OPSCONSOLE_DEMO_PACE": "0",
        }
        self._process = subprocess.Popen(  # noqa: S603 - our own command
            [*settings.OPSCONSOLE_MANAGE, "record_cases", folder],
            env={**os.environ, **scratch},
        )

    def originals(self) -> list[Original]:
        """Wait, and return a run for each case: ended or, if the case has no answer, waiting."""
        if self._process.wait():
            raise RuntimeError("The demo's cases could not be driven; its output says why.")
        with self._folder as folder:
            found: list[Original] = pickle.loads((Path(folder) / ORIGINALS).read_bytes())  # noqa: S301
            return found


def record(folder: Path, workspace: Workspace) -> None:
    """Drive the cases in a folder in a workspace, and store the resulting runs there."""
    desk, cases = pickle.loads((folder / CASES).read_bytes())  # noqa: S301 - our parent's
    if past := DESKS[desk].past:
        past.hurry()
    originals = [_drive(desk, case, workspace) for case in cases]
    (folder / ORIGINALS).write_bytes(pickle.dumps(originals))


def _drive(desk: str, case: PastCase, workspace: Workspace) -> Original:
    run = launching.launch(
        workspace=workspace,
        desk=desk,
        pattern=case.pattern,
        goal=case.goal,
        subject=case.subject or None,
        by=User.objects.get(username=case.by),
        at=timezone.now(),
        options=launching.LaunchOptions(workflow=case.workflow or None),
    )
    asyncio.run(_advance(run))
    while case.answer and (asked := Escalation.objects.filter(run=run, state="open").first()):
        deciding.decide(
            escalation_id=asked.pk,
            by=User.objects.get(username=case.answer.by),
            at=timezone.now(),
            wanted=Decision(
                approve=case.answer.approve,
                patch=case.answer.patch or None,
                comment=case.answer.comment,
            ),
        )
        asyncio.run(_advance(run))
    return read_original(run.pk)


async def _advance(run: Run) -> None:
    await advance(run.pk)
