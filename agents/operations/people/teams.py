"""Create and rename a workspace's teams, and set their members."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime

from django.contrib.auth.models import User
from django.db import transaction

from agents.models import Team, Workspace
from agents.models.record import Entry, append_events
from agents.operations.people.workspaces import check_name, check_slug, find_part, lock_people
from agents.shell.refusal import Refused


def set_team(
    *,
    workspace: Workspace,
    slug: str,
    at: datetime,
    name: str = "",
    add: Collection[User] = (),
    remove: Collection[User] = (),
    lead: User | None = None,
    has_no_lead: bool = False,
    by: User | None = None,
    actor: str = "",
) -> Team:
    """Create a team, or change its name and members. Raises Refused.

    A new one needs a name. Teams are not deleted: an empty one gets no requests. Its lead, a member
    of the workspace, sees how its people decide; removing them from the team ends that. `by` is the
    acting admin; without one, a command's `actor` is recorded.
    """
    changed = [*add, *remove, *([lead] if lead else [])]
    with transaction.atomic():
        actor = lock_people(workspace, by, *changed) or actor
        team = Team.objects.filter(workspace=workspace, slug=slug).first()
        if team is None:
            check_slug(slug)
            if not name.strip():
                raise Refused("no_team", f"There is no team {slug!r}: a new one needs a name.")
            team = Team(workspace=workspace, slug=slug)
        team.name = name.strip() or team.name
        check_name(team.name)
        if lead or has_no_lead:
            team.lead = find_part(workspace, lead) if lead else None
        elif team.lead and team.lead.user in remove:
            team.lead = None
        team.save()
        team.members.add(*[find_part(workspace, user) for user in add])
        team.members.remove(*[find_part(workspace, user) for user in remove])
        people = sorted(team.members.values_list("user__username", flat=True))
        leads = team.lead.user.get_username() if team.lead else ""
        facts = {"team": slug, "name": team.name, "members": people, "lead": leads}
        append_events([Entry("team.set", facts, actor)], workspace_id=workspace.pk, at=at)
        return team
