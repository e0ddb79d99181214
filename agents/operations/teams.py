"""Teams of a workspace: made, renamed, and whom they hold."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime

from django.contrib.auth.models import User
from django.db import transaction

from agents.models import Team, Workspace
from agents.models.event import Entry, append_events
from agents.operations.people import check_name, check_slug, find_part


def set_team(
    *,
    workspace: Workspace,
    slug: str,
    at: datetime,
    name: str = "",
    add: Collection[User] = (),
    remove: Collection[User] = (),
    actor: str = "",
) -> Team:
    """Make a team, or change its name and who is in it: members of the workspace. Raises Refused.

    A new one needs a name. Nothing is deleted: an empty team gets nothing.
    """
    with transaction.atomic():
        Workspace.objects.select_for_update().get(pk=workspace.pk)  # one change at a time
        team = Team.objects.filter(workspace=workspace, slug=slug).first()
        if team is None:
            check_slug(slug)
            team = Team(workspace=workspace, slug=slug)
        team.name = name.strip() or team.name
        check_name(team.name)
        team.save()
        team.members.add(*[find_part(workspace, user) for user in add])
        team.members.remove(*[find_part(workspace, user) for user in remove])
        people = sorted(team.members.values_list("user__username", flat=True))
        facts = {"team": slug, "name": team.name, "members": people}
        append_events([Entry("team.set", facts, actor)], workspace_id=workspace.pk, at=at)
        return team
