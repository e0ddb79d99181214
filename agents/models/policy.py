"""A policy version: data, immutable once published, pinned by each run."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass

from django.db import models

from agents.core.limits import Limits, read_limits
from agents.core.requests import Json


@dataclass(frozen=True)
class _Read:
    """A parsed document, and its limits for each pattern and desk so far."""

    document: Json
    limits: Limits
    of: dict[tuple[str, str], Limits]


_READ: dict[str, _Read] = {}  # by the document's digest: a few a workspace
_KEPT_AS = "_read_document"  # on a version's object: its document, and that read


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
        return self._read().limits

    def limits_of(self, pattern: str, desk: str) -> Limits:
        """Return the limits of a run of this pattern at this desk. Raises BadPolicy."""
        read = self._read()
        known = read.of.get((pattern, desk))
        if known is None:
            known = read.of[pattern, desk] = read.limits.of(pattern, desk)
        return known

    def _read(self) -> _Read:
        # Asked for dozens of times in a run, which compares the document once: nobody changes it.
        own = vars(self).get(_KEPT_AS)
        if own and own[0] is self.document:
            kept: _Read = own[1]
            return kept
        known = _READ.get(self.sha256)
        if known is None or known.document != self.document:
            limits = read_limits(self.document)
            known = _READ[self.sha256] = _Read(deepcopy(self.document), limits, {})
        setattr(self, _KEPT_AS, (self.document, known))
        return known
