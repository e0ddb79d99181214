"""A copy of the record that can be checked without us: JSON lines of heads, chains and events.

Heads come first: all of them, as each names the one before. Of the part of another workspace a
head shows only what its seal covers, a digest (in heads of version 1: of each chain). The last
line has the digest of all lines before it, so that a download that broke off is not taken for a
short record. scripts/verify_bundle.py reads it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterator
from datetime import datetime

from django.db.models import QuerySet

from agents.core.digest import canonical, sha256
from agents.core.requests import Json
from agents.models import Event, Head, Run, Workspace
from agents.models.event import hashed_parts, texts_of
from agents.record import seals
from agents.record.chain import name_of, spelled
from agents.record.erasable_texts import Text

FORMAT = "opsconsole-record/2"
CHUNK = 500  # rows in memory at once


def lines(workspaces: QuerySet[Workspace], *, at: datetime) -> Iterator[str]:
    """Yield the record of `workspaces` line by line. Nothing of it is held but names and counts."""
    digest, count = hashlib.sha256(), 0
    for document in _documents(workspaces, at):
        line = canonical(document) + "\n"
        digest.update(line.encode())
        count += 1
        yield line
    yield canonical({"end": {"lines": count, "sha256": digest.hexdigest()}}) + "\n"


def _documents(workspaces: QuerySet[Workspace], at: datetime) -> Iterator[Json]:
    # Heads before chains: a newer head would seal events that the copy does not have.
    newest = Head.objects.order_by("-number").first()
    shared = list(workspaces.order_by("pk"))
    runs = Run.objects.filter(workspace__in=shared).order_by("created_at", "pk")
    own = list(runs.only("workspace_id", "event_count", "head_hash"))
    whose = {str(one.pk): one.slug for one in shared}
    yield {"bundle": FORMAT, "at": spelled(at), "workspaces": whose}
    names = {name_of(workspace=one.pk) for one in shared}
    names |= {name_of(workspace=run.workspace_id, run=run.pk) for run in own}
    sealed = Head.objects.filter(number__lte=newest.number if newest else 0)
    for head in sealed.order_by("number").iterator(CHUNK):
        yield {"head": _shown(head.plain(), names, whose.keys())}
    for workspace in shared:
        yield from _chain(
            workspace, name_of(workspace=workspace.pk), workspace.events.filter(run=None)
        )
    for run in own:
        yield from _chain(run, name_of(workspace=run.workspace_id, run=run.pk), run.events.all())


def _shown(head: seals.SealedHead, names: Collection[str], whose: Collection[str]) -> Json:
    """Return a head as one may see it who may see the workspaces `whose`, chains of `names`."""
    shown: dict[str, Json] = {
        "number": head.number,
        "at": head.at,
        "key": head.key,
        "before": head.before,
        "seal": head.seal,
    }
    if head.workspaces is None:
        hidden = [
            seals.leaf(chain, hashes) for chain, hashes in head.chains() if chain not in names
        ]
        shown["moved"] = {chain: head.moved[chain] for chain in head.moved if chain in names}
        return {**shown, "others": sorted(hidden)}
    parts = head.workspaces.items()
    shown["workspaces"] = {name: part for name, part in parts if name in whose}
    return {**shown, "others": {name: sha256(part) for name, part in parts if name not in whose}}


def _chain(row: Run | Workspace, name: str, events: QuerySet[Event]) -> Iterator[Json]:
    """Yield a chain as its row tells of it, and its events up to there: it may grow meanwhile."""
    yield {"chain": {"name": name, "count": row.event_count, "hash": row.head_hash}}
    for event in (
        events.filter(seq__lte=row.event_count)
        .order_by("seq")
        .prefetch_related("texts")
        .iterator(CHUNK)
    ):
        covered = hashed_parts(event)
        beside = {name: _opened(text) for name, text in texts_of(event).items()}
        yield {
            "event": {
                **covered,
                "at": spelled(event.at),
                "previous": event.previous,
                "hash": event.hash,
                **({"texts": beside} if beside else {}),
            }
        }


def _opened(text: Text) -> Json:
    """Return a text with the salt that proves it, or None where it was erased."""
    return None if text.erased else {"salt": text.salt, "text": text.text}
