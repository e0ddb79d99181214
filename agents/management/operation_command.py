"""A command that carries out one operation: arguments, look-ups, the operation, a sentence."""

import os
import pwd
from argparse import ArgumentParser
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeAlias

from django.contrib.auth.models import User
from django.core.management.base import BaseCommand, CommandError
from django.utils import timezone

from agents.core.money import BadAmount, minor_of_text
from agents.management.exit_codes import REFUSED, BadUsage
from agents.models import Scope, Workspace
from agents.models.record import by_command
from agents.sdk.desk import DESKS, offered
from agents.shell import refusal

Adding: TypeAlias = Callable[[Any], object]  # adds arguments to a parser or to a group of it


class OperationCommand(BaseCommand):
    """Carry out `act` and print what it returns; turn a refusal into its sentence and exit code."""

    arguments: tuple[Adding, ...] = ()

    def add_arguments(self, parser: ArgumentParser) -> None:
        for add in self.arguments:
            add(parser)

    def handle(self, *args: Any, **options: Any) -> str | None:
        given: dict[str, Any] = {"at": timezone.now()}
        if "workspace" in options:
            given["workspace"] = workspace_named(options["workspace"])
        if "user" in options:
            given["user"] = user_named(options["user"])
        if "actor" in options:
            given["by"] = user_named(options["actor"])
        else:
            given["actor"] = ACTOR
        with refusals():
            return self.act(options, **given)

    def act(self, options: dict[str, Any], **given: Any) -> str | None:
        """Call the operation with `given`: its time, its actor, and its object."""
        raise NotImplementedError


def argument(*names: str, **form: Any) -> Adding:
    """Return a function that adds this argument, in the words of argparse."""
    return lambda parser: parser.add_argument(*names, **form)


def one_of(*arguments: Adding, required: bool = False) -> Adding:
    """Return a function that adds these arguments, of which only one can be given."""

    def add(parser: Any) -> None:
        group = parser.add_mutually_exclusive_group(required=required)
        for add_to in arguments:
            add_to(group)

    return add


def acting(who: str) -> Adding:
    """Return a function that adds the person in whose name the command acts."""
    return argument("--as", dest="actor", required=True, help=who)


WORKSPACE = argument("workspace", help="its short name")
PERSON = argument("user", help="the person's user name")
SWITCH = (
    argument("--workspace", required=True, help="its short name"),
    one_of(
        argument("--pattern", help="only this pattern"),
        argument("--tool", help="only this tool"),
        argument("--agent", help="only this agent that runs elsewhere"),
    ),
    argument("--reason", required=True, help="why; everybody sees it"),
    acting("an admin's user name"),
)


def switch_of(options: dict[str, Any]) -> dict[str, Any]:
    """Return a command's switch and reason, as operations take them."""
    scope, target = Scope.WORKSPACE, ""
    for narrower in (Scope.PATTERN, Scope.TOOL, Scope.AGENT):
        if (named := options[narrower.value]) is not None:
            scope, target = narrower, named
    return {"scope": scope, "target": target, "reason": options["reason"]}


# Look-ups of commands: a person, a workspace, a desk, and the actor.


def user_named(name: str) -> User:
    """Return a person. Raises CommandError."""
    user = User.objects.filter(username=name).first()
    if user is None:
        raise BadUsage(f"There is no user {name!r}.")
    return user


def workspace_named(slug: str) -> Workspace:
    """Return a workspace. Raises CommandError, naming those that exist."""
    workspace = Workspace.objects.filter(slug=slug).first()
    if workspace is None:
        known = ", ".join(Workspace.objects.order_by("slug").values_list("slug", flat=True))
        raise BadUsage(f"There is no workspace {slug!r}. Workspaces: {known or 'none yet'}.")
    return workspace


def desk_of(workspace: Workspace, given: str | None) -> str:
    """Return the requested desk, by default the workspace's first installed one.

    Raises CommandError.
    """
    limits = workspace.policy.limits() if workspace.policy else None
    own = [name for name in DESKS if limits and limits.covers(name)]
    if given is None and not own:
        raise BadUsage(f"The policy of {workspace.slug} has no desk: say with --desk which.")
    desk = own[0] if given is None else given
    if desk not in offered():
        raise BadUsage(f"There is no desk {desk!r}; the desks are {', '.join(offered())}.")
    return desk


def currency_of(desk: str, given: str | None) -> str:
    """Return the requested currency, by default the only one of the desk's amounts.

    Raises CommandError.
    """
    own = DESKS[desk].currencies
    if given is None and len(own) != 1:
        named = f" ({', '.join(own)})" if own else ""
        raise BadUsage(f"The desk {desk!r} has no one currency{named}: say with --currency which.")
    return own[0] if given is None else given


def limit_of(text: str | None, currency: str) -> int | None:
    """Return a limit in minor units; None for "none" (any amount). Raises CommandError."""
    if text is None or text == "none":
        return None
    try:
        return minor_of_text(text, currency)
    except BadAmount as error:
        raise BadUsage(f"The limit: {error}.") from None


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
    except refusal.Refused as no:
        raise CommandError(str(no), returncode=REFUSED) from None
