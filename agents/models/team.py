"""A team: members of a workspace to whom a request can be assigned together."""

from __future__ import annotations

from django.db import models

from agents.models.workspace import Membership, Workspace


class Team(models.Model):
    """A named group of members of one workspace. Each change to it is an event."""

    workspace = models.ForeignKey(Workspace, models.PROTECT, related_name="teams", db_index=False)
    slug = models.SlugField(max_length=40, db_index=False)  # in policies and addresses
    name = models.CharField(max_length=80)
    members = models.ManyToManyField(Membership, related_name="teams")
    # Sees how the team's reviewers decide, as admins see for all; null: only admins.
    lead = models.ForeignKey(
        Membership, models.SET_NULL, null=True, related_name="leads", db_index=False
    )

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["workspace", "slug"], name="team_slug_once"),
        ]

    def __str__(self) -> str:
        return self.name
