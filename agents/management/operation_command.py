"""A command that carries out one operation: look-ups, the operation, a sentence."""

from __future__ import annotations

from argparse import ArgumentParser
from collections.abc import Callable
from typing import Any, TypeAlias

from django.core.management.base import BaseCommand
from django.utils import timezone

from agents.management.command_arguments import ACTOR, refusals, user_named, workspace_named
from agents.models import Scope

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
        """Call the operation with what is `given`: its time, who acts, and whom it is about."""
        raise NotImplementedError


def argument(*names: str, **form: Any) -> Adding:
    """Return what adds this argument, in the words of argparse."""
    return lambda parser: parser.add_argument(*names, **form)


def one_of(*arguments: Adding, required: bool = False) -> Adding:
    """Return what adds these arguments, of which only one can be given."""

    def add(parser: Any) -> None:
        group = parser.add_mutually_exclusive_group(required=required)
        for add_to in arguments:
            add_to(group)

    return add


def acting(who: str) -> Adding:
    """Return what adds the person in whose name the command acts."""
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
    """Return the switch of a command's arguments and the reason, as operations take them."""
    scope, target = Scope.WORKSPACE, ""
    for narrower in (Scope.PATTERN, Scope.TOOL, Scope.AGENT):
        if (named := options[narrower.value]) is not None:
            scope, target = narrower, named
    return {"scope": scope, "target": target, "reason": options["reason"]}
