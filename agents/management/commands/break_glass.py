"""Make the one account that signs in by password when everybody else signs on."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from django.conf import settings
from django.contrib.auth.models import User
from django.core.management.base import BaseCommand, CommandError
from django.db import transaction
from django.utils import timezone

from agents.management.commands.add_member import give_password
from agents.management.operation_command import ACTOR, BAD_USAGE
from agents.models import Grants, Role, SignOnPart, Workspace
from agents.people.workspaces import add_member


class Command(BaseCommand):
    help = (
        "Give the user OPSCONSOLE_SSO_BREAK_GLASS a new password and the role of admin in every "
        "workspace. Their sign-in is told to all other admins. Exit code: 0 given, 2 bad usage."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--password-stdin", action="store_true")

    def handle(self, *args: Any, **options: Any) -> None:
        name = settings.OPSCONSOLE_SSO_BREAK_GLASS
        if not name:
            raise CommandError("Set OPSCONSOLE_SSO_BREAK_GLASS first.", returncode=BAD_USAGE)
        user = User.objects.filter(username=name).first() or User(username=name)
        give_password(user, from_stdin=options["password_stdin"])
        user.is_active = True
        at = timezone.now()
        all_of: dict[str, Any] = {"role": Role.ADMIN, "desk_limits": {}, "grants": Grants.ANY}
        with transaction.atomic():
            user.save()
            SignOnPart.objects.filter(user=user).delete()
            for home in Workspace.objects.select_for_update(no_key=True).order_by("pk"):
                add_member(workspace=home, user=user, at=at, actor=ACTOR, **all_of)
        self.stdout.write(f"{name} is an admin of every workspace, with a new password")
