"""Commands on the record: verify, seal, copy, archive, erase."""

import json
import os
import sys
from argparse import ArgumentParser
from contextlib import AbstractContextManager, nullcontext
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TextIO

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError
from django.db.models import QuerySet
from django.utils import timezone
from django.utils.text import capfirst

from agents.audit import archiving, copies, erasing, sealing, verify
from agents.audit.sealing import HeadsDiffer, NoKey, Unreadable, seal
from agents.audit.verify import keep_verified, newest_verified
from agents.core.money import with_unit
from agents.management.exit_codes import REFUSED, BadUsage
from agents.management.operation_command import (
    WORKSPACE,
    OperationCommand,
    argument,
    desk_of,
    one_of,
)
from agents.models import Head, Run, Tombstone, Workspace
from agents.shell.pages import uuid_of


class VerifyAudit(BaseCommand):
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
            raise BadUsage("--since-last verifies whole workspaces only.")
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
        raise BadUsage(f"There is no file {named!r}.")
    return Path(named)


def _choose_chains(run: str | None, slug: str | None) -> tuple[QuerySet[Run], QuerySet[Workspace]]:
    """Return the runs and workspaces whose chains are checked. Raises CommandError."""
    runs, workspaces = Run.objects.all(), Workspace.objects.all()
    if slug:
        workspaces = workspaces.filter(slug=slug)
        if not workspaces:
            raise BadUsage(f"There is no workspace {slug!r}.")
        runs = runs.filter(workspace__in=workspaces)
    if run:
        key = uuid_of(run)
        runs = runs.filter(pk=key) if key else runs.none()
        if not runs:
            raise BadUsage(f"There is no run {run!r}.")
        # The event that records an archive is in its workspace's own chain.
        archived = Tombstone.objects.filter(run__in=runs).values("run__workspace")
        workspaces = Workspace.objects.filter(pk__in=archived)
    return runs, workspaces


class SealAudit(BaseCommand):
    help = "Seal what is new in the record into a head. Exit code: 0 sealed, 3 refused."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "--begin-file",
            action="store_true",
            help="write a lost file of heads again, with all heads of the database",
        )

        parser.add_argument(
            "--lost-key",
            metavar="ID",
            default="",
            help="continue from a head sealed with this key, which is lost",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            made = seal(
                at=timezone.now(), begin_file=options["begin_file"], lost_key=options["lost_key"]
            )
        except (HeadsDiffer, NoKey) as error:
            self.stderr.write(str(error))
            sys.exit(REFUSED)
        except Unreadable as error:
            raise CommandError(f"In the file of heads, {error}.", returncode=REFUSED) from error
        except OSError as error:
            text = f"The file of heads cannot be written: {error.strerror}."
            raise CommandError(text, returncode=REFUSED) from error
        for head in made:
            moved = [len(hashes) for _, hashes in head.chains()]
            self.stdout.write(f"Head {head.number}: {sum(moved)} events of {len(moved)} chains.")
        if not made:
            self.stdout.write("Nothing is new since the last head.")


class ExportAudit(BaseCommand):
    help = "Write the record with its heads as JSON lines, to check it without this program."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--workspace", help="only this workspace (its short name)")
        parser.add_argument("--output", type=Path, help="a new file (default: standard output)")

    def handle(self, *args: Any, **options: Any) -> None:
        workspaces, slug, at = Workspace.objects.all(), options["workspace"], timezone.now()
        if slug:
            workspaces = workspaces.filter(slug=slug)
        if not workspaces:
            raise BadUsage(f"There is no workspace {slug!r}.")
        try:
            with _open_new(options["output"]) as file:
                for workspace in workspaces:
                    facts = {"bundle": copies.FORMAT}
                    copies.record_export(workspace=workspace, by=None, facts=facts, at=at)
                for line in copies.lines(workspaces, at=at):
                    (file or self.stdout).write(line)
        except OSError as error:
            if options["output"]:
                options["output"].unlink()
            why = f"The copy could not be written to its end: {error.strerror}."
            raise CommandError(why, returncode=REFUSED) from error


def _open_new(path: Path | None) -> AbstractContextManager[TextIO | None]:
    """Open a new file that only its owner can read. Raises CommandError if it cannot be made."""
    if path is None:
        return nullcontext()
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except OSError as error:
        raise BadUsage(f"The copy cannot be written there: {error.strerror}.") from error
    return os.fdopen(handle, "w", encoding="utf-8")


class ArchiveRuns(OperationCommand):
    help = (
        "Archive the runs of a workspace that ended before a day (UTC), or empty the texts of "
        "archived runs that were erased since. Run it again after an interruption. Exit code: "
        "0 done, 3 refused, 2 bad usage."
    )

    arguments = (
        WORKSPACE,
        argument("directory", type=Path, help="directory of its archives"),
        one_of(
            argument(
                "--before",
                metavar="DATE",
                help="archive runs that ended before this day: 2026-01-31",
            ),
            argument("--forget", action="store_true", help="empty texts that were erased"),
            required=True,
        ),
    )

    def act(self, options: dict[str, Any], **given: Any) -> str | None:
        given["directory"] = options["directory"]
        try:
            if options["forget"]:
                self._forget(archiving.forget_archived(**given))
                return None
            done = archiving.archive_runs(**given, before=_day(options["before"]))
        except OSError as error:
            why = f"The archive cannot be written or read: {error.strerror}."
            raise CommandError(why, returncode=REFUSED) from error
        numbers = _numbers(done.archives)
        runs = with_unit(done.runs, "runs")
        text = f"Archived {runs} (archive {numbers})." if numbers else "Nothing was archived."
        if done.unsealed:
            text += (
                f"\nArchive {_numbers(done.unsealed)} is written and not sealed: the database "
                "keeps its events. Run this again after the next seal."
            )
        return text

    def _forget(self, done: archiving.Forgotten) -> None:
        self.stdout.write(f"Emptied the archived texts of {with_unit(done.runs, 'runs')}.")
        missing, unknown = _numbers(done.elsewhere), _numbers(done.unknown)
        why = []
        if missing:
            why.append(
                f"The files of archive {missing} are not in this directory as they were written, "
                "and have texts of runs that were erased: run this where they are too."
            )
        if unknown:
            why.append(
                f"Archive {unknown} in this directory is not one of this database: look in it for "
                "what was erased."
            )
        if why:
            raise CommandError(" ".join(why), returncode=REFUSED)


def _numbers(archives: tuple[int, ...]) -> str:
    return ", ".join(map(str, archives))


def _day(text: str) -> datetime:
    try:
        return datetime.strptime(text, "%Y-%m-%d").replace(tzinfo=UTC)
    except ValueError:
        raise BadUsage(f"{text!r}: not a date like 2026-01-31.") from None


class EraseSubject(OperationCommand):
    help = (
        "Erase every text about a desk's subject; amounts, keys and the record's chain stay. "
        "This cannot be undone. It lists the places that it cannot reach. Exit code: 0 erased, "
        "3 refused, 2 bad usage."
    )

    arguments = (
        WORKSPACE,
        argument("key", help="the desk's own key, such as a number"),
        argument("--desk", help="desk (default: the workspace's first)"),
        argument("--reason", required=True, help="reason without names: it is kept"),
    )

    def act(self, options: dict[str, Any], **given: Any) -> str:
        done = erasing.erase_subject(
            **given,
            desk=desk_of(given["workspace"], options["desk"]),
            key=options["key"],
            reason=options["reason"],
        )
        earlier = f" Erased before: {done.before}." if done.before else ""
        runs = with_unit(done.runs, "runs")
        lines = [f"{capfirst(done.subject)} is forgotten, with {runs}.{earlier}"]
        if done.beyond:
            lines.append("\nThis it could not reach, so look there yourself:")
            lines.extend(f"  {line}" for line in done.beyond)
        return "\n".join(lines)
