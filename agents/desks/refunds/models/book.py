"""A book: the customers and the money of one company, or a copy of them for a demo."""

from __future__ import annotations

from django.db import models


class Book(models.Model):
    """Nothing in one book is seen from another."""

    name = models.CharField(max_length=80)
    is_demo = models.BooleanField(default=False)  # invented people; nobody is really paid
    is_isolated = models.BooleanField(default=False)  # a copy that nothing else reads
    created_at = models.DateTimeField()

    def __str__(self) -> str:
        return self.name
