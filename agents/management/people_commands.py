"""Commands that change workspaces, members, teams and external agents."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django.core.management.base import CommandError
from django.db import transaction

from agents.core.money import format_money
from agents.external import keys
from agents.management.exit_codes import BAD_USAGE
from agents.management.operation_command import (
    PERSON,
    WORKSPACE,
    OperationCommand,
    argument,
    currency_of,
    desk_of,
    limit_of,
    one_of,
    user_named,
)
from agents.models import Role
from agents.notifications.channels import mail
from agents.people import members, second_factor, workspaces
from agents.sdk.desk import offered
from agents.shell import refusal


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
            raise CommandError(
                f"Say with --desk which it starts with: {', '.join(desks)}.", returncode=BAD_USAGE
            )
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
