"""A policy version: data, immutable once published, pinned by each run."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

from django.db import models

from agents.core.limits import Limits, read_limits

_READ: dict[str, tuple[Any, Limits]] = {}  # by the document's digest: a few a workspace


class PolicyVersion(models.Model):
    """Rules by name and every limit, as one document."""

    workspace = models.ForeignKey("agents.Workspace", models.CASCADE, related_name="policies")
    number = models.PositiveIntegerField()
    document = models.JSONField()
    sha256 = models.CharField(max_length=64)  # of the canonical document
    is_replay = models.BooleanField(default=False)  # for recorded cases and demos, never published
    created_at = models.DateTimeField()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["workspace", "number"], name="policy_number_once"),
            models.UniqueConstraint(fields=["workspace", "sha256"], name="policy_document_once"),
        ]

    def __str__(self) -> str:
        return f"policy v{self.number} ({self.document.get('profile')})"

    def limits(self) -> Limits:
        """Return the document as limits. Raises BadPolicy."""
        # Runs ask this at every turn; a version that is changed in place has another document.
        known = _READ.get(self.sha256)
        if known is None or known[0] != self.document:
            known = _READ[self.sha256] = deepcopy(self.document), read_limits(self.document)
        return known[1]
