"""Verify the record: read every chain and head, and name the first faulty event."""

from __future__ import annotations

import json
from argparse import ArgumentParser
from pathlib import Path
from typing import Any
from uuid import UUID

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError
from django.db.models import QuerySet
from django.utils import timezone

from agents.audit import sealing, verify
from agents.audit.verify import keep_verified, newest_verified
from agents.management.exit_codes import BAD_USAGE, REFUSED
from agents.models import Head, Run, Tombstone, Workspace


class Command(BaseCommand):
    help = "Check the record against itself and its heads. Exit code: 0 no fault, 3 a fault."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--run", help="only this run, and the log that reports its archive")
        parser.add_argument("--workspace", help="only this workspace (its short name)")
        parser.add_argument(
            "--head",
            metavar="FILE",
            help="a copy of the file of heads, kept elsewhere (default: the file of this host)",
        )
        parser.add_argument(
            "--since-last", action="store_true", help="continue from the last check without a fault"
        )
        parser.add_argument("--json", action="store_true", help="print one document")

    def handle(self, *args: Any, **options: Any) -> None:
        runs, workspaces = _choose_chains(options["run"], options["workspace"])
        if options["run"] and options["since_last"]:
            raise CommandError("--since-last verifies whole workspaces only.", returncode=BAD_USAGE)
        since = newest_verified(workspaces, at=timezone.now()) if options["since_last"] else None
        file = _heads(options["head"])
        proof = verify.prove(runs=runs, workspaces=workspaces, file=file, since=since)
        if proof.faults:
            of_run = Workspace.objects.filter(runs__in=runs)
            keep_verified(of_run if options["run"] else workspaces, None)
        elif proof.reached and not options["run"]:
            keep_verified(workspaces, proof.reached, since)
        notes = [*proof.limits(), *_notes_on_own_key()]
        self.stdout.write(_document(proof, notes) if options["json"] else _sentences(proof, notes))
        if count := len(proof.faults):
            places = "1 place" if count == 1 else f"{count} places"
            raise CommandError(f"The record does not hold: {places}.", returncode=REFUSED)


def _notes_on_own_key() -> list[str]:
    """Name the origin of a key that fits no seal: a restore elsewhere looks like a forgery."""
    is_own = "OPSCONSOLE_AUDIT_KEY" in settings.OPSCONSOLE_OWN_KEYS
    if not (is_own and Head.objects.exclude(key__in=sealing.keys()).exists()):
        return []
    return [
        "This data directory made its key itself, and there are seals of another: give the key "
        "that made them, `audit-key` of the directory they were made in or OPSCONSOLE_AUDIT_KEY."
    ]


def _document(proof: verify.Proof, notes: list[str]) -> str:
    faults = [
        {"chain": c.name, "seq": c.fault.seq, "why": c.fault.why} for c in proof.faults if c.fault
    ]
    counts = {"chains": proof.chains, "heads": proof.heads, "compared": proof.compared}
    more = {"unsealed": proof.loose, "seals_checked": bool(proof.keys), "more": proof.more}
    unread = {"since": proof.since.head, "unread": proof.unread} if proof.since else {}
    return json.dumps({**counts, **more, **unread, "faults": faults, "notes": notes})


def _sentences(proof: verify.Proof, notes: list[str]) -> str:
    heads = "1 head" if proof.heads == 1 else f"{proof.heads} heads"
    holds = f"{proof.chains} chains hold, sealed by {heads}."
    return "\n".join([*(map(str, proof.faults) if proof.faults else [holds]), *notes])


def _heads(named: str | None) -> Path:
    """Return the file of heads, which must be there if it is named. Raises CommandError."""
    if named is None:
        return Path(settings.OPSCONSOLE_HEADS_FILE)
    if not Path(named).is_file():
        raise CommandError(f"There is no file {named!r}.", returncode=BAD_USAGE)
    return Path(named)


def _choose_chains(run: str | None, slug: str | None) -> tuple[QuerySet[Run], QuerySet[Workspace]]:
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
        # The event that records an archive is in its workspace's own chain.
        archived = Tombstone.objects.filter(run__in=runs).values("run__workspace")
        workspaces = Workspace.objects.filter(pk__in=archived)
    return runs, workspaces


def _uuid(text: str) -> UUID | None:
    try:
        return UUID(text)
    except ValueError:
        return None
