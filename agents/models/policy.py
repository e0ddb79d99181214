"""A policy version: data, immutable once published, pinned by each run."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from django.db import models

from agents.core.limits import Limits, read_limits
from agents.core.requests import Json
from agents.core.row_json import decode


@dataclass(frozen=True)
class _Read:
    """A parsed document, and its limits for each pattern and desk so far."""

    document: Json
    limits: Limits
    of: dict[tuple[str, str], Limits]


_READ: dict[str, _Read] = {}  # by the document's digest: a few a workspace
_decode = lru_cache(256)(decode)


class _DocumentField(models.JSONField):
    """JSON that is never changed: a process decodes equal texts once and shares the value."""

    def from_db_value(self, value: str | None, *_: Any) -> Json:
        return None if value is None else _decode(value)

    def deconstruct(self) -> Any:
        name, _, args, options = super().deconstruct()
        return name, "django.db.models.JSONField", args, options


class PolicyVersion(models.Model):
    """Rules by name and every limit, as one document."""

    workspace = models.ForeignKey("agents.Workspace", models.CASCADE, related_name="policies")
    number = models.PositiveIntegerField()
    document = _DocumentField()
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
        return self._read().limits

    def limits_of(self, pattern: str, desk: str) -> Limits:
        """Return the limits of a run of this pattern at this desk. Raises BadPolicy."""
        read = self._read()
        known = read.of.get((pattern, desk))
        if known is None:
            known = read.of[pattern, desk] = read.limits.of(pattern, desk)
        return known

    def _read(self) -> _Read:
        known = _READ.get(self.sha256)
        # A run asks dozens of times; what a process has loaded is one and the same object.
        if known is None or (
            known.document is not self.document and known.document != self.document
        ):
            known = _READ[self.sha256] = _Read(self.document, read_limits(self.document), {})
        elif known.document is not self.document:
            known = _READ[self.sha256] = replace(known, document=self.document)
        return known
