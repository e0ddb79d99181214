"""Digests over the remaining rows of archived runs, of which no event is left."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db.models import Model

from agents.core.digest import sha256
from agents.core.requests import Json
from agents.models import Approval, Effect, Escalation, Run, Tombstone
from agents.record.chain import spell_time

# Columns that neither time nor an erasure changes. Their digests are sealed: a changed list needs
# its own version number, so that older tombstones are still computed by theirs.
_COLUMNS: tuple[tuple[type[Model], str, tuple[str, ...]], ...] = (
    (
        Run,
        "pk",
        (
            *("workspace_id", "policy_id", "book_id", "pattern", "desk", "subject_key", "model"),
            *("launched_by_id", "again_of_id", "state", "stop_reason", "created_at", "ended_at"),
        ),
    ),
    (
        Escalation,
        "run_id",
        (
            *("pk", "step_id", "kind", "state", "subject_key", "resource", "amount_minor"),
            *("currency", "created_at", "decided_by_id", "decided_from", "decided_at"),
            *("granted_minor", "is_simulated", "not_carried_out", "tier", "approval_id"),
        ),
    ),
    (
        Effect,
        "run_id",
        (
            *("pk", "step_id", "review_id", "escalation_id", "key", "tool", "subject_key"),
            *("resource", "amount_minor", "currency", "state", "intended_at", "settled_at"),
        ),
    ),
    (
        Approval,
        "run_id",
        (
            *("pk", "escalation_id", "by_id", "account", "at", "resource", "granted_minor"),
            *("currency", "is_simulated"),
        ),
    ),
)


def tombstones_of(runs: Collection[UUID]) -> dict[UUID, str]:
    """Return the digest over each run's remaining rows, in four queries."""
    found: dict[UUID, list[Json]] = {run: [] for run in runs}
    for model, of, columns in _COLUMNS:
        rows = model._default_manager.filter(**{f"{of}__in": runs}).order_by("pk")
        for run, *values in rows.values_list(of, *columns):
            row = {name: _plain(value) for name, value in zip(columns, values, strict=True)}
            if "stop_reason" in row:  # an erasure keeps the code
                row["stop_reason"] = row["stop_reason"].partition(":")[0]
            found[run].append([model._meta.model_name, row])
    return {run: sha256(rows) for run, rows in found.items()}


def digest_of(rows: Iterable[tuple[UUID, int, str, str]]) -> tuple[int, str]:
    """Return the number of tombstones and the digest over them, ordered by run."""
    digest, count = hashlib.sha256(), 0
    for row in rows:
        digest.update((" ".join(map(str, row)) + "\n").encode())
        count += 1
    return count, digest.hexdigest()


def digest_of_archive(archive: int) -> tuple[int, str]:
    """Return the number and digest of an archive's tombstones."""
    rows = Tombstone.objects.filter(archive=archive).order_by("run")
    return digest_of(rows.values_list("run", "event_count", "head_hash", "sha256").iterator())


def _plain(value: Any) -> Json:
    if isinstance(value, datetime):
        return spell_time(value)
    return str(value) if isinstance(value, UUID) else value
