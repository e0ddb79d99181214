"""Create a team of a workspace, or change its name and members."""

from __future__ import annotations

from typing import Any

from agents.management.operation_command import WORKSPACE, OperationCommand, argument, user_named
from agents.people import members


class Command(OperationCommand):
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
