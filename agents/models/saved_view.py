"""A saved view: an address of the queue under a name, one person's own or a workspace's."""

from __future__ import annotations

from django.conf import settings
from django.db import models


class SavedView(models.Model):
    """A view changes nothing and is not recorded: it only names what to look at."""

    owner = models.ForeignKey(
        settings.AUTH_USER_MODEL, models.CASCADE, related_name="saved_views", db_index=False
    )
    workspace = models.ForeignKey(
        "agents.Workspace", models.CASCADE, null=True, related_name="saved_views"
    )  # its members see it too; null: private
    name = models.CharField(max_length=40)
    query = models.CharField(max_length=1000)  # of the queue's address
    created_at = models.DateTimeField()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["owner", "name"], name="saved_view_once"),
        ]

    def __str__(self) -> str:
        return self.name
