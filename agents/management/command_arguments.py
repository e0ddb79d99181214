"""Arguments that commands share: a person, a workspace, and the actor."""

from __future__ import annotations

import os
import pwd
from collections.abc import Iterator
from contextlib import contextmanager

from django.contrib.auth.models import User
from django.core.management.base import CommandError

from agents.core.money import BadAmount, minor_of_text
from agents.management.exit_codes import BAD_USAGE, REFUSED
from agents.models import Workspace
from agents.models.record import by_command
from agents.requests import sharing
from agents.sdk.desk import DESKS
from agents.shell import refusal


def user_named(name: str) -> User:
    """Return a person. Raises CommandError."""
    found = User.objects.filter(username=name).first()
    if found is None:
        raise CommandError(f"There is no user {name!r}.", returncode=BAD_USAGE)
    return found


def workspace_named(slug: str) -> Workspace:
    """Return a workspace. Raises CommandError, naming those that exist."""
    found = Workspace.objects.filter(slug=slug).first()
    if found is None:
        known = ", ".join(Workspace.objects.order_by("slug").values_list("slug", flat=True))
        raise CommandError(
            f"There is no workspace {slug!r}. Workspaces: {known or 'none yet'}.",
            returncode=BAD_USAGE,
        )
    return found


def desk_of(workspace: Workspace, given: str | None) -> str:
    """Return the desk that is asked for, by default the first installed one of the workspace.

    Raises CommandError.
    """
    limits = workspace.policy.limits() if workspace.policy else None
    own = [name for name in DESKS if limits and limits.covers(name)]
    if given is None and not own:
        message = f"The policy of {workspace.slug} has no desk: say with --desk which."
        raise CommandError(message, returncode=BAD_USAGE)
    desk = own[0] if given is None else given
    if desk not in DESKS:
        message = f"There is no desk {desk!r}; the desks are {', '.join(DESKS)}."
        raise CommandError(message, returncode=BAD_USAGE)
    return desk


def currency_of(desk: str, given: str | None) -> str:
    """Return the currency that is asked for, by default the only one of the desk's amounts.

    Raises CommandError.
    """
    own = DESKS[desk].currencies
    if given is None and len(own) != 1:
        named = f" ({', '.join(own)})" if own else ""
        message = f"The desk {desk!r} has no one currency{named}: say with --currency which."
        raise CommandError(message, returncode=BAD_USAGE)
    return own[0] if given is None else given


def limit_of(text: str | None, currency: str) -> int | None:
    """Return a limit in minor units; None for "none" (any amount). Raises CommandError."""
    if text is None or text == "none":
        return None
    try:
        return minor_of_text(text, currency)
    except BadAmount as error:
        raise CommandError(f"The limit: {error}.", returncode=BAD_USAGE) from None


def account() -> str:
    """Return the name of the operating system's account that runs this process."""
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:  # a container's account may have only a number
        return f"uid {os.getuid()}"


ACTOR = f"command:{account()}"  # in the record; user names have no colon


@contextmanager
def refusals() -> Iterator[None]:
    """Turn an operation's refusal into a CommandError with its sentence.

    Events in the block are recorded as made by a command.
    """
    try:
        with by_command(ACTOR):
            yield
    except (refusal.Refused, sharing.Claimed) as no:
        raise CommandError(str(no), returncode=REFUSED) from None
