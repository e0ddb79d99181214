"""A book: whose business a workspace's runs act on, or a copy of it for a demo."""

from __future__ import annotations

from django.db import models


class Book(models.Model):
    """Nothing in one book is seen from another; desks keep its key beside their own rows."""

    name = models.CharField(max_length=80)
    is_demo = models.BooleanField(default=False)  # invented people; nobody is really paid
    is_isolated = models.BooleanField(default=False)  # a copy that nothing else reads
    created_at = models.DateTimeField()

    class Meta:
        db_table = "desk_book"  # the first desk's until 0.2.0: every key that leads here is kept

    def __str__(self) -> str:
        return self.name
