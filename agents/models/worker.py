"""A worker: a process that takes runs, known by its signs of life."""

from __future__ import annotations

from datetime import timedelta

from django.db import models
from django.db.models.functions import Now

FORGOTTEN = timedelta(hours=1)  # after the last sign of life of a worker that crashed


class Worker(models.Model):
    """Shows whether there are live workers; leases do not depend on it."""

    owner = models.CharField(primary_key=True, max_length=32)  # as in a run's lease
    seen_at = models.DateTimeField()

    def __str__(self) -> str:
        return self.owner

    @classmethod
    def give_sign(cls, owner: str) -> None:
        """Record a sign of life of `owner`."""
        cls.objects.update_or_create(owner=owner, defaults={"seen_at": Now()})
        cls.objects.filter(seen_at__lt=Now() - FORGOTTEN).delete()

    @classmethod
    def leave(cls, owner: str) -> None:
        """Delete the row of an ending worker."""
        cls.objects.filter(owner=owner).delete()
