"""Give a person a role in a workspace, and a sign-in if they have none."""

from __future__ import annotations

import sys
from argparse import ArgumentParser
from getpass import getpass
from typing import Any

from django.contrib.auth.models import User
from django.contrib.auth.password_validation import validate_password
from django.core.exceptions import ValidationError
from django.core.management.base import BaseCommand, CommandError
from django.db import transaction
from django.utils import timezone

from agents.management.operation_command import (
    ACTOR,
    BAD_USAGE,
    currency_of,
    desk_of,
    limit_of,
    refusals,
    workspace_named,
)
from agents.models import Role, Workspace
from agents.people import members


class Command(BaseCommand):
    help = (
        "Add a person to a workspace. A new one gets a password, asked for twice, or the first "
        "line of standard input with --password-stdin. Exit code: 0 added, 3 refused, 2 bad usage."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("workspace", help="its short name")
        parser.add_argument("user", help="the person's user name")
        parser.add_argument("role", choices=[role.value for role in Role])
        parser.add_argument("--limit", help="highest amount that they may grant, such as 800.00")
        parser.add_argument("--desk", help="desk (default: the workspace's first)")
        parser.add_argument("--currency", help="currency (default: the desk's own)")
        parser.add_argument("--password-stdin", action="store_true")

    def handle(self, *args: Any, **options: Any) -> None:
        workspace = workspace_named(options["workspace"])
        limits = _limits(workspace, options)
        user = User.objects.filter(username=options["user"]).first()
        new = user is None
        user = user or _new_user(options["user"], from_stdin=options["password_stdin"])
        with refusals(), transaction.atomic():
            user.save()
            part = members.join(
                workspace=workspace,
                user=user,
                role=Role(options["role"]),
                desk_limits=limits,
                at=timezone.now(),
                actor=ACTOR,
            )
        sign_in = "with a new sign-in" if new else "with the sign-in they have"
        self.stdout.write(f"{part}, {sign_in}")


def _limits(workspace: Workspace, options: dict[str, Any]) -> dict[str, dict[str, int]]:
    """Return a new person's limits; none for any amount. Raises CommandError."""
    if options["limit"] is None:
        return {}
    desk = desk_of(workspace, options["desk"])
    currency = currency_of(desk, options["currency"])
    limit = limit_of(options["limit"], currency)
    return {} if limit is None else {desk: {currency: limit}}


def _new_user(name: str, *, from_stdin: bool) -> User:
    """Return a new user who can sign in, not yet saved. Raises CommandError."""
    user = User(username=name)
    give_password(user, from_stdin=from_stdin)
    return user


def give_password(user: User, *, from_stdin: bool) -> None:
    """Ask for a user's password; the user is not yet saved. Raises CommandError."""
    try:
        user.clean_fields(exclude=["password"])
        password = sys.stdin.readline().rstrip("\n") if from_stdin else _typed_password()
        validate_password(password, user)
    except ValidationError as error:
        raise CommandError(" ".join(error.messages), returncode=BAD_USAGE) from None
    user.set_password(password)


def _typed_password() -> str:
    if not sys.stdin.isatty():
        raise CommandError(
            "A new person needs a password: run this in a terminal, or give --password-stdin.",
            returncode=BAD_USAGE,
        )
    password = getpass("Password: ")
    if getpass("Password again: ") != password:
        raise CommandError("The two passwords differ; nothing was changed.", returncode=BAD_USAGE)
    return password
