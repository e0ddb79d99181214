"""Serve the demo on this machine: one command, web and worker, until Ctrl-C."""

import gc
import ipaddress
import os
import socket
from argparse import ArgumentParser
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from django.conf import settings
from django.contrib.auth.models import User
from django.core.management import call_command
from django.core.management.base import BaseCommand
from django.utils import timezone

from agents.core.compat_0_2 import policy_document
from agents.history.writing import BEFORE_HISTORY, write_history
from agents.management.commands.serve import must_be_port
from agents.management.demo import ADMIN, PEOPLE, begin_work, ensure_sign_ins
from agents.management.exit_codes import BadUsage
from agents.management.processes import Program, run_together
from agents.models import Escalation, PolicyVersion, Workspace
from agents.people.workspaces import ensure_demo_workspace
from agents.publishing.versions import publish_policy
from agents.sdk.demo import Past
from agents.sdk.desk import DESKS, Desk
from agents.shell.refusal import Refused


class Command(BaseCommand):
    help = "Prepare the demo's data and serve it on loopback, web and worker together."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--host", default="127.0.0.1", help="a loopback address")
        parser.add_argument("--port", type=int, default=settings.OPSCONSOLE_PORT)
        parser.add_argument(
            "--prepare", action="store_true", help="prepare the data and end: others serve it"
        )

    def handle(self, *, host: str, port: int, prepare: bool, **options: Any) -> None:
        if settings.PRODUCTION:
            raise BadUsage(
                "The demo has well-known people and speaks plain HTTP: switch "
                "OPSCONSOLE_PRODUCTION off, or serve this installation as the README says."
            )
        if not prepare:
            _must_be_free(host, port)
        self._say("Preparing the demo. This takes up to a minute.")
        pasts = [] if prepare else [(desk, desk.past) for desk in DESKS.values() if desk.past]
        gc.disable()  # migrations and the past make many lasting objects: collect once, afterwards
        call_command("migrate", interactive=False, verbosity=0)
        call_command("collectstatic", interactive=False, verbosity=0)
        at = timezone.now()
        # The history about to be written happened under this policy, with these people.
        before = BEFORE_HISTORY if pasts else timedelta(0)
        workspace = ensure_demo_workspace(at=at - before)
        self._prepare(workspace, Path(settings.DATA_DIR) / "demo-sign-ins.json")
        for report in filter(None, (desk.report for desk in DESKS.values())):
            if report.refill and workspace.book_id:
                report.refill(workspace.book_id, at)
        if pasts:
            self._say("Writing the invented runs of the past fourteen days.")
        for desk, past in pasts:
            self._fill(workspace, desk, past, until=at)
        _put_in_force(workspace, at=timezone.now())
        if not prepare and begin_work(workspace, at=timezone.now()):
            self._say("Demo data: a team, and requests that its people share.")
        gc.enable()
        if prepare:
            return
        shown = f"[{host}]" if ":" in host else host
        waiting = Escalation.objects.filter(workspace=workspace, state="open").count()
        self._say(f"Demo data: {waiting} requests wait for approval.")
        self._say(f"\nServing http://{shown}:{port}/ until Ctrl-C.\n\n")
        os.environ["OPSCONSOLE_PORT"] = str(port)  # links in mails lead there
        run_together(programs(host=host, port=port))
        self.stdout.write("Stopped. The data stays; the same command goes on with it.")

    def _fill(self, workspace: Workspace, desk: Desk, past: Past, *, until: datetime) -> None:
        """Write a desk's history in the demo and its open requests; print its runs."""
        try:
            runs, _ = write_history(workspace, desk, past, until=until)
        except Refused as no:
            self.stdout.write(f"No demo history: {no}")
            return
        if runs:
            self._say(f"Demo data: {runs} invented runs of the past fourteen days.")

    def _say(self, line: str) -> None:
        """Print a line at once, even into a pipe."""
        self.stdout.write(line)
        self.stdout.flush()

    def _prepare(self, workspace: Workspace, path: Path) -> None:
        """Create the workspace's people; print new passwords."""
        new = ensure_sign_ins(workspace=workspace, path=path, at=workspace.created_at)
        where = f"The passwords are in {path}, readable by you alone."
        if not new:
            self.stdout.write(where)
            return
        self.stdout.write("Sign-ins (the passwords are shown this once):")
        for person in PEOPLE:
            password = new.get(person.name, "as before")
            self.stdout.write(f"  {person.role:<9} {person.name:<5} {password}")
        self.stdout.write(where)


def _put_in_force(workspace: Workspace, *, at: datetime) -> None:
    """Publish the parts of each desk with a gallery that no policy version has had."""
    if workspace.policy is None:
        return
    document = policy_document(workspace.policy.document)
    admin = User.objects.get(username=ADMIN)
    versions = PolicyVersion.objects.filter(workspace=workspace)
    past = [version.document.get("desks") or {} for version in versions]
    desks = dict(document.get("desks") or {})
    for name, desk in DESKS.items():
        unseen = set(desk.missing_from({})).intersection(
            *(desk.missing_from(each.get(name, {})) for each in past)
        )
        if desk.scenarios and unseen and not desk.policy:
            desks[name] = desk.document(desks.get(name))
    if desks != (document.get("desks") or {}):
        brought = [name for name in desks if desks[name] != (document.get("desks") or {}).get(name)]
        whole = {**document, "desks": desks}
        publish_policy(workspace=workspace, document=whole, by=admin, at=at, brings=brought)


def programs(*, host: str, port: int) -> list[Program]:
    manage = settings.OPSCONSOLE_MANAGE
    web = [*manage, "serve", "--host", host, "--port", str(port)]
    # At a model's pace, so that a run can be watched.
    pace = {"OPSCONSOLE_DEMO_PACE": str(settings.OPSCONSOLE_DEMO_PACE or 1)}
    worker = [*manage, "work"]
    return [Program("web", web, {"OPSCONSOLE_DEMO": "1"}), Program("worker", worker, pace)]


def _must_be_free(host: str, port: int) -> None:
    """Refuse an address that other machines can reach, and a port already in use."""
    try:
        is_loopback = host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        is_loopback = False
    if not is_loopback:
        raise BadUsage(
            f"The demo serves this machine only, and {host} is not a loopback address: "
            "use 127.0.0.1, ::1 or localhost."
        )
    must_be_port(port)
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            raise BadUsage(
                f"Port {port} cannot be used ({error.strerror}): end the program that has it, "
                f"or choose another one: OPSCONSOLE_PORT={port + 1 if port < 65535 else 8000} "
                "make demo"
            ) from error
