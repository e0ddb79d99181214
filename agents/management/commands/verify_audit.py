"""Prove the record: walk every chain and name the first event that does not fit."""

from __future__ import annotations

import json
import sys
from argparse import ArgumentParser
from collections.abc import Iterator
from typing import Any
from uuid import UUID

from django.core.management.base import BaseCommand, CommandError
from django.db.models import QuerySet

from agents.core.verify import Fault, Linked, first_fault
from agents.models import Event, Run, Workspace
from agents.models.event import linked

BROKEN, BAD_USAGE = 3, 2
CHUNK = 500  # events in memory at once


class Command(BaseCommand):
    help = "Check the hash chains of the record. Exit code: 0 they hold, 3 one does not."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--run", help="only this run")
        parser.add_argument("--workspace", help="only this workspace (its short name)")
        parser.add_argument("--json", action="store_true", help="print one document")

    def handle(self, *args: Any, **options: Any) -> None:
        runs, workspaces = _chosen(options["run"], options["workspace"])
        faults: list[dict[str, Any]] = []
        chains = 0
        for name, events, row in _chains(runs, workspaces):
            chains += 1
            fault = first_fault(_linked(events), count=row.event_count, head=row.head_hash)
            if fault:
                faults.append({"chain": name, "seq": fault.seq, "why": fault.why})
                self._say(options, name, fault)
        if options["json"]:
            self.stdout.write(json.dumps({"chains": chains, "faults": faults}))
        elif not faults:
            self.stdout.write(f"{chains} chains hold.")
        if faults:
            sys.exit(BROKEN)

    def _say(self, options: dict[str, Any], name: str, fault: Fault) -> None:
        if not options["json"]:
            self.stdout.write(f"{name}: event {fault.seq}: {fault.why}")


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


def _chains(
    runs: QuerySet[Run], workspaces: QuerySet[Workspace]
) -> Iterator[tuple[str, QuerySet[Event], Run | Workspace]]:
    """Yield the name, the events and the row of each chain."""
    for workspace in workspaces.order_by("pk"):
        of_it = Event.objects.filter(workspace=workspace, run=None)
        yield f"workspace {workspace.slug}", of_it, workspace
    for run in runs.order_by("created_at", "pk").iterator(CHUNK):
        yield f"run {run.pk}", Event.objects.filter(run=run), run


def _linked(events: QuerySet[Event]) -> Iterator[Linked]:
    for event in events.order_by("seq").iterator(CHUNK):
        yield Linked(linked(event), event.previous, event.hash)
