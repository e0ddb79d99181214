"""Create a workspace with a book and a strict policy, without members."""

from __future__ import annotations

from typing import Any

from django.core.management.base import CommandError

from agents.management.exit_codes import BAD_USAGE
from agents.management.operation_command import OperationCommand, argument
from agents.people import workspaces
from agents.sdk.desk import offered


class Command(OperationCommand):
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
