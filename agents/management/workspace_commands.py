"""Commands on a workspace and its people: change them, stop writes, settle calls, end waits."""

import sys
from argparse import ArgumentParser
from datetime import timedelta
from getpass import getpass
from typing import Any

from django.conf import settings
from django.contrib.auth.models import User
from django.contrib.auth.password_validation import validate_password
from django.core.exceptions import ValidationError
from django.core.management.base import BaseCommand
from django.db import transaction
from django.utils import timezone

from agents.audit import erasing
from agents.core.money import format_money, with_unit
from agents.external import keys
from agents.management.exit_codes import BadUsage
from agents.management.operation_command import (
    ACTOR,
    PERSON,
    SWITCH,
    WORKSPACE,
    OperationCommand,
    acting,
    argument,
    currency_of,
    desk_of,
    limit_of,
    one_of,
    refusals,
    switch_of,
    user_named,
    workspace_named,
)
from agents.models import Grants, Role, SignOnPart, SwitchStage, Workspace
from agents.notifications.channels import mail
from agents.people import members, workspaces
from agents.people import sign_in as second_factor
from agents.people.workspaces import add_member
from agents.requests import deciding
from agents.runs import kill_switch, outage
from agents.sdk.desk import offered
from agents.shell import refusal
from agents.shell.formats import WORDS


class AddWorkspace(OperationCommand):
    help = (
        "Create a workspace with a strict policy for its desks. Exit code: 0 created, 3 "
        "refused, 2 bad usage."
    )
    arguments = (
        argument("slug", help="its short name, such as eu-support"),
        argument("--name", required=True, help="what people see"),
        argument(
            "--desk", action="append", choices=offered(), help="one of its desks; repeat for more"
        ),
        argument("--demo", action="store_true", help="with the demo's books"),
    )

    def act(self, options: dict[str, Any], **given: Any) -> str:
        desks = options["desk"] or list(offered())
        if len(desks) > 1 and not options["desk"]:
            raise BadUsage(f"Say with --desk which it starts with: {', '.join(desks)}.")
        made = workspaces.add_workspace(
            **given,
            slug=options["slug"],
            name=options["name"],
            desks=desks,
            is_demo=options["demo"],
        )
        return (
            f"workspace {made.slug} made; next, give it an admin:\n"
            f"  manage.py add_member {made.slug} NAME admin"
        )


class SetRole(OperationCommand):
    help = "Change what a member may do. Exit code: 0 changed, 3 refused, 2 bad usage."
    arguments = (WORKSPACE, PERSON, argument("role", choices=[role.value for role in Role]))

    def act(self, options: dict[str, Any], **given: Any) -> str:
        return str(members.set_role(**given, role=Role(options["role"])))


class SetLimit(OperationCommand):
    help = "Set a reviewer's limit. Exit code: 0 set, 3 refused, 2 bad usage."
    arguments = (
        WORKSPACE,
        PERSON,
        argument("limit", help='amount, such as 800.00; "none" removes the limit'),
        argument("--desk", help="desk (default: the workspace's first)"),
        argument("--currency", help="currency (default: the desk's own)"),
    )

    def act(self, options: dict[str, Any], **given: Any) -> str:
        desk = desk_of(given["workspace"], options["desk"])
        currency = currency_of(desk, options["currency"])
        limit = limit_of(options["limit"], currency)
        part = members.set_limit(**given, desk=desk, currency=currency, limit_minor=limit)
        own = part.own_limits(desk)
        granted = "any amount" if own is None else f"at most {format_money(limit or 0, currency)}"
        if own is not None and currency not in own:
            limited = ", ".join(format_money(most, name) for name, most in sorted(own.items()))
            granted = f"nothing in {currency} (limited: {limited or 'every desk'})"
        return f"{part}, may grant {granted}"


class SetTeam(OperationCommand):
    help = "Create or change a team. Exit code: 0 set, 3 refused, 2 bad usage."
    arguments = (
        WORKSPACE,
        argument("team", help="the team's short name, such as leads"),
        argument("--name", default="", help="its name on pages; required for a new team"),
        argument("--add", action="append", default=[], metavar="USER"),
        argument("--remove", action="append", default=[], metavar="USER"),
        argument("--lead", metavar="USER", help="member who sees its figures, or none"),
    )

    def act(self, options: dict[str, Any], **given: Any) -> str:
        lead = options["lead"]
        team = members.set_team(
            **given,
            slug=options["team"],
            name=options["name"],
            add=[user_named(name) for name in options["add"]],
            remove=[user_named(name) for name in options["remove"]],
            lead=user_named(lead) if lead and lead != "none" else None,
            has_no_lead=lead == "none",
        )
        people = team.members.order_by("user__username").values_list("user__username", flat=True)
        led = f", led by {team.lead.user.get_username()}" if team.lead else ""
        return f"{team.name} ({team.slug}): {', '.join(people) or 'nobody'}{led}"


class SetEmail(OperationCommand):
    help = (
        "Set the address that a member's notifications go to; without an address, they get none. "
        "Exit code: 0 set, 3 refused, 2 bad usage."
    )
    arguments = (
        WORKSPACE,
        PERSON,
        argument("email", nargs="?", default="", help="such as rita@example.com"),
    )

    def act(self, options: dict[str, Any], **given: Any) -> str:
        mail.set_email(**given, email=options["email"])
        where = f"goes to {options['email']}" if options["email"] else "is not sent"
        return f"Mail for {given['user'].get_username()} {where}."


class RemoveMember(OperationCommand):
    help = (
        "Remove a member from a workspace and end their sessions, claims and assignments. Exit "
        "code: 0 removed, 3 refused, 2 bad usage."
    )
    arguments = (WORKSPACE, PERSON)

    def act(self, options: dict[str, Any], **given: Any) -> str:
        count = members.remove_member(**given)
        out = f"{given['user']} is no longer in {given['workspace']}"
        return f"{out}. Requests that are anybody's again: {count}"


class ResetFactor(OperationCommand):
    help = (
        "Remove a person's second factor and recovery codes, and end their sessions. If their "
        "role needs a factor, they set up a new one at the next sign-in. Exit code: 0 reset, 3 "
        "refused, 2 bad usage."
    )
    arguments = (PERSON,)

    def act(self, options: dict[str, Any], **given: Any) -> str:
        second_factor.reset_factor(**given, by=None)
        return f"{given['user'].get_username()} signs in with the password alone now."


class SetAgent(OperationCommand):
    help = (
        "Add an external agent, change its owner, pause it, and create or revoke its keys. A "
        "change of owner revokes them. Exit code: 0 set, 3 refused, 2 bad usage."
    )
    arguments = (
        WORKSPACE,
        argument("agent", help="the agent's short name, such as mail-triage"),
        argument("--desk", default="", help="its desk; required for a new agent"),
        argument("--owner", metavar="USER", help="user name of its owner"),
        one_of(
            argument("--pause", action="store_true", help="refuse its sessions and calls"),
            argument("--resume", action="store_true"),
        ),
        argument(
            "--new-key",
            type=int,
            metavar="DAYS",
            help="create a key valid for DAYS days and print it; needs --as",
        ),
        argument(
            "--as",
            dest="person",
            metavar="USER",
            help="your user name; who sees a key cannot decide its requests",
        ),
        argument("--revoke", metavar="KEY", help="revoke the key with this prefix"),
    )

    @transaction.atomic  # a refused key leaves no agent behind
    def act(self, options: dict[str, Any], **given: Any) -> str:
        if options["new_key"] is not None and not options["person"]:
            sentence = "Say with --as USER who runs this: the key is shown to them."
            raise refusal.Refused("no_person", sentence)
        if options["person"]:
            given["actor"] = user_named(options["person"]).get_username()
        who = {name: given[name] for name in ("at", "actor")}
        agent = keys.set_agent(
            **given,
            name=options["agent"],
            desk=options["desk"],
            owner=user_named(options["owner"]) if options["owner"] else None,
            is_paused=True if options["pause"] else False if options["resume"] else None,
        )
        if options["revoke"]:
            keys.revoke_key(home=agent, prefix=options["revoke"], **who)
        paused = ", paused" if agent.paused_at else ""
        text = f"{agent.name}: {agent.desk}, of {agent.owner.get_username()}{paused}"
        if options["new_key"] is None:
            return text
        lasts = timedelta(days=options["new_key"])
        _, token = keys.make_key(home=agent, lasts=lasts, **who)
        return f"{text}\nIts key, which is not shown again:\n{token}"


class AddMember(BaseCommand):
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
        raise BadUsage(" ".join(error.messages)) from None
    user.set_password(password)


def _typed_password() -> str:
    if not sys.stdin.isatty():
        raise BadUsage(
            "A new person needs a password: run this in a terminal, or give --password-stdin."
        )
    password = getpass("Password: ")
    if getpass("Password again: ") != password:
        raise BadUsage("The two passwords differ; nothing was changed.")
    return password


class BreakGlass(BaseCommand):
    help = (
        "Give the user OPSCONSOLE_SSO_BREAK_GLASS a new password and the role of admin in every "
        "workspace. Their sign-in is told to all other admins. Exit code: 0 given, 2 bad usage."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--password-stdin", action="store_true")

    def handle(self, *args: Any, **options: Any) -> None:
        name = settings.OPSCONSOLE_SSO_BREAK_GLASS
        if not name:
            raise BadUsage("Set OPSCONSOLE_SSO_BREAK_GLASS first.")
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


# Commands that stop writes, settle calls, and do at once what would wait.


class Kill(OperationCommand):
    help = (
        "Stop all writes of a workspace, pattern, tool or agent. Exit code: 0 pressed, 3 refused."
    )
    arguments = SWITCH

    def act(self, options: dict[str, Any], **given: Any) -> str:
        switch = kill_switch.kill(**given, **switch_of(options))
        return f"{switch} is stopped: none of its writes starts."


STAGES = {"new-runs": SwitchStage.TRIAL, "all-runs": SwitchStage.OFF}


class Release(OperationCommand):
    help = (
        "Allow new runs to write again, and after that all runs. Exit code: 0 released, 3 refused."
    )
    arguments = (*SWITCH, argument("--for", dest="stage", choices=STAGES, required=True))

    def act(self, options: dict[str, Any], **given: Any) -> str:
        to = STAGES[options["stage"]]
        switch = kill_switch.release(**given, **switch_of(options), to=to)
        return f"{switch}: {WORDS['released'][to]}"


class SettleCall(OperationCommand):
    help = "Record the outcome of a lost call of an ended run. Exit code: 0 recorded, 3 refused."
    arguments = (
        argument("key", help="the call's key, as on the page of its run"),
        one_of(
            argument("--took-effect", action="store_true"),
            argument("--no-effect", action="store_true"),
            required=True,
        ),
        argument("--reason", required=True, help="where you looked"),
        acting("the reviewer's user name"),
    )

    def act(self, options: dict[str, Any], **given: Any) -> str:
        call = deciding.settle_call(
            **given,
            key=options["key"],
            took_effect=options["took_effect"],
            comment=options["reason"],
        )
        return f"call {call.key} {call.state}"


class TryNow(OperationCommand):
    help = (
        "Call the failing model servers now, instead of after their rest. "
        "Exit code: 0 done, 3 refused."
    )
    arguments = (acting("an operator or admin"),)

    def act(self, options: dict[str, Any], **given: Any) -> str:
        return f"Waiting runs that try again now: {outage.try_models(**given)}."


class RotateValues(OperationCommand):
    help = (
        "Encrypt stored values with OPSCONSOLE_VALUE_KEY, so that old keys can be removed. "
        "Exit code: 0 done, 3 a key is missing."
    )

    def act(self, options: dict[str, Any], **given: Any) -> str:
        return f"{with_unit(erasing.rotate_values(), 'values')} encrypted with the newest key."
