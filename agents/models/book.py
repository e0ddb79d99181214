"""A book: the business data that a workspace's runs act on, or a copy for a demo."""

from __future__ import annotations

from django.db import models


class Book(models.Model):
    """Books are separate from each other; desks store the book's key in their own rows."""

    name = models.CharField(max_length=80)
    is_demo = models.BooleanField(default=False)  # invented people; nobody is really paid
    is_isolated = models.BooleanField(default=False)  # a copy for one run
    created_at = models.DateTimeField()

    class Meta:
        db_table = "desk_book"  # the first desk's until 0.2.0: every key that leads here is kept

    def __str__(self) -> str:
        return self.name
