"""What an erasure cannot reach, named so that a person can look there."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from itertools import groupby
from urllib.parse import unquote_plus
from uuid import UUID

from django.db.models import Exists, OuterRef, Q, QuerySet

from agents.core.limits import BadPolicy
from agents.core.redact import OFF
from agents.models import (
    Archive,
    Event,
    KillSwitch,
    PolicyVersion,
    Run,
    SavedView,
    Tombstone,
    Workspace,
)
from agents.record.chain import without_texts


@dataclass(frozen=True)
class ErasureLeftovers:
    """Places that an erasure leaves as they are; events by their numbers in the chain."""

    chains: tuple[
        tuple[UUID, tuple[int, ...]], ...
    ] = ()  # old events with words in the chain itself
    policies: tuple[int, ...] = ()  # versions that mask nothing and have runs of other subjects
    switches: tuple[int, ...] = ()  # kill switches whose reason may name the subject
    switch_events: tuple[int, ...] = ()  # their events in the workspace's chain
    views: tuple[tuple[int, str], ...] = ()  # saved views that may name them, with their owners
    archives: tuple[int, ...] = ()  # that have texts of erased runs in a file
    mentions: tuple[UUID, ...] = ()  # runs of others whose goal may name the subject
    books: bool = False  # the desk's own, if it does not say how to erase a subject

    def __bool__(self) -> bool:
        found = (self.chains, self.policies, self.switches, self.switch_events)
        return any((*found, self.views, self.archives, self.mentions, self.books))


def find_leftovers(
    workspace: Workspace, runs: QuerySet[Run], *, names: Collection[str]
) -> ErasureLeftovers:
    """Return what remains of a subject in a workspace after the erasure of its runs."""
    spoken_of = re.compile(
        rf"(?<!\w)(?:{'|'.join(map(re.escape, sorted(names)))})(?!\w)", re.IGNORECASE
    )
    switches = KillSwitch.objects.filter(workspace=workspace).order_by("pk")
    # A private view belongs to no workspace: all that could concern this one are named.
    views = SavedView.objects.filter(Q(workspace=workspace) | Q(workspace=None)).order_by("pk")
    said = Event.objects.filter(workspace=workspace, run=None, kind__startswith="kill_switch.")
    others = Run.objects.filter(workspace=workspace).exclude(pk__in=runs).order_by("created_at")
    return ErasureLeftovers(
        chains=tuple(_runs_with_words(runs)),
        archives=tuple(
            Archive.objects.filter(workspace=workspace)
            .filter(Exists(Tombstone.objects.filter(archive=OuterRef("pk"), run__in=runs)))
            .order_by("number")
            .values_list("number", flat=True)
        ),
        policies=_unmasked_versions(workspace),
        switches=tuple(s.pk for s in switches if spoken_of.search(s.reason)),
        views=tuple(
            (view.pk, view.owner.get_username())
            for view in views.select_related("owner")
            if spoken_of.search(f"{view.name} {unquote_plus(view.query)}")
        ),
        mentions=tuple(
            run
            for run, goal, before in others.values_list("pk", "goal", "before").iterator()
            if any(map(spoken_of.search, [goal, *(one["goal"] for one in before or ())]))
        ),
        switch_events=tuple(
            event.seq
            for event in said.order_by("seq")
            if spoken_of.search(str(event.facts.get("why", "")))
        ),
    )


def _runs_with_words(runs: QuerySet[Run]) -> Iterable[tuple[UUID, tuple[int, ...]]]:
    """Yield the runs with words in the chain itself, and those events."""
    found = Event.objects.filter(run__in=runs).order_by("run_id", "seq")
    rows = found.values_list("run_id", "seq", "kind", "facts")
    for run_id, events in groupby(rows.iterator(), key=lambda row: row[0]):
        holding = tuple(seq for _, seq, kind, facts in events if without_texts(kind, facts)[1])
        if run_id and holding:
            yield run_id, holding


def _unmasked_versions(workspace: Workspace) -> tuple[int, ...]:
    """Return the numbers of the versions under which texts were stored unmasked."""
    kept = Run.objects.filter(workspace=workspace, erased_at=None).order_by()
    pairs = set(kept.values_list("policy", "pattern", "desk"))
    versions = PolicyVersion.objects.in_bulk([policy for policy, *_ in pairs])
    numbers = {
        versions[policy].number
        for policy, pattern, desk in pairs
        if not _masks(versions[policy], pattern, desk)
    }
    return tuple(sorted(numbers))


def _masks(version: PolicyVersion, pattern: str, desk: str) -> bool:
    try:
        return set(version.limits().of(pattern, desk).redaction.values()) != {OFF}
    except BadPolicy:
        return False  # it cannot be read: assume that it masked nothing
