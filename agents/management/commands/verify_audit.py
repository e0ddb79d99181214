"""Prove the record: walk every chain and name the first event that does not fit."""

from __future__ import annotations

import json
import sys
from argparse import ArgumentParser
from typing import Any
from uuid import UUID

from django.core.management.base import BaseCommand, CommandError
from django.db.models import QuerySet

from agents import queries
from agents.models import Run, Workspace

BROKEN, BAD_USAGE = 3, 2


class Command(BaseCommand):
    help = "Check the hash chains of the record. Exit code: 0 they hold, 3 one does not."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--run", help="only this run")
        parser.add_argument("--workspace", help="only this workspace (its short name)")
        parser.add_argument("--json", action="store_true", help="print one document")

    def handle(self, *args: Any, **options: Any) -> None:
        runs, workspaces = _chosen(options["run"], options["workspace"])
        found = list(queries.chains(runs, workspaces))
        faults = [chain for chain in found if chain.fault]
        if options["json"]:
            said = [
                {"chain": c.name, "seq": c.fault.seq, "why": c.fault.why} for c in faults if c.fault
            ]
            self.stdout.write(json.dumps({"chains": len(found), "faults": said}))
        else:
            for chain in faults:
                self.stdout.write(str(chain))
            if not faults:
                self.stdout.write(f"{len(found)} chains hold.")
        if faults:
            sys.exit(BROKEN)


def _chosen(run: str | None, slug: str | None) -> tuple[QuerySet[Run], QuerySet[Workspace]]:
    """Return the runs and workspaces whose chains are checked. Raises CommandError."""
    runs, workspaces = Run.objects.all(), Workspace.objects.all()
    if slug:
        workspaces = workspaces.filter(slug=slug)
        if not workspaces:
            raise CommandError(f"There is no workspace {slug!r}.", returncode=BAD_USAGE)
        runs = runs.filter(workspace__in=workspaces)
    if run:
        key = _uuid(run)
        runs = runs.filter(pk=key) if key else runs.none()
        if not runs:
            raise CommandError(f"There is no run {run!r}.", returncode=BAD_USAGE)
        workspaces = workspaces.none()
    return runs, workspaces


def _uuid(text: str) -> UUID | None:
    try:
        return UUID(text)
    except ValueError:
        return None
