"""Prove the record: heads against each other and the copy, chains against them, rows as told."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from django.conf import settings
from django.db import DEFAULT_DB_ALIAS, connections
from django.db.models import QuerySet

from agents.audit import heads_file, protection, sealing
from agents.audit.chains import CHUNK, UNREADABLE, Chain, TrustedHeads, chains
from agents.audit.stored import without_intent
from agents.models import Head, Run, Sealed, Workspace
from agents.record import seals
from agents.record.chain import name_of
from agents.record.chain_faults import Fault

KEPT = "heads kept elsewhere"


@dataclass(frozen=True)
class Proof:
    """What checking the record came to: how much was checked, and what does not hold."""

    chains: int
    heads: int
    keys: int  # that seals were checked with
    compared: int  # heads that are kept outside the database, too
    loose: int  # events that no head covers
    between: tuple[datetime, datetime] | None  # when they were: the first and the last
    faults: list[Chain]
    is_torn: bool = False  # the last line of the heads outside was left out
    only_times: bool = False  # are what does not hold
    foreign: str = ""  # what acts on a company's own tables

    def limits(self) -> list[str]:
        """Return in sentences what was compared, and what was not."""
        said = ["Nothing was compared with heads kept outside the database."]
        if self.compared:
            heads = "1 head was" if self.compared == 1 else f"{self.compared} heads were"
            said = [f"{heads} compared with those kept outside the database."]
        if self.is_torn:
            said.append("The last line of the heads outside has no end: it was left out.")
        if not self.keys:
            said.append("The seals were not checked: this process has no key.")
        if self.between:
            first, last = self.between
            span = f"{first:%Y-%m-%d %H:%M:%S} to {last:%Y-%m-%d %H:%M:%S} UTC"
            events = "1 event is" if self.loose == 1 else f"{self.loose} events are"
            said.append(f"{events} in no seal yet, {span}.")
        if self.foreign:
            said.append(f"Not checked is what acts on your own tables: {self.foreign}.")
        return said + self.clock_notes()

    def clock_notes(self) -> list[str]:
        """Return in sentences which times were believed, and whether only times do not hold."""
        said = []
        for since, until in settings.OPSCONSOLE_WRONG_CLOCKS:
            span = f"{since:%Y-%m-%d %H:%M:%S} to {until:%Y-%m-%d %H:%M:%S} UTC"
            said.append(f"Times of {span} were believed: a clock was wrong that showed them.")
        if self.only_times:
            said.append("All but these times holds: docs/operations.md says what to do (Clocks).")
        return said


def prove(*, runs: QuerySet[Run], workspaces: QuerySet[Workspace], file: Path) -> Proof:
    """Check chains against themselves and against what was sealed, here and in `file`.

    Where all workspaces are checked, so is that no sealed chain is gone. It costs every event
    and every head.
    """
    # Read before the database, which is written first: else its newest head would seem lost.
    kept, is_torn, faults = _kept(file)
    stored, counts, unreadable = _stored()
    faults += unreadable
    if not kept and not faults and len(stored) > 1:
        why = f"the file is gone or empty, and the database has {len(stored)} heads"
        faults = [Chain(KEPT, Fault(0, why))]
    bad, trusted = seals.judged(stored, kept, sealing.keys())
    faults += [Chain("heads", fault, of="head") for fault in bad]
    if not bad:
        faults += _miscounted(counts, seals.sealed_hashes(stored))
    build = protection.inspect(connections[DEFAULT_DB_ALIAS])
    faults += [Chain(name, Fault(0, why)) for name, why in sorted(build.faults.items())]
    sealed, count, loose, ends = TrustedHeads.by(trusted), 0, 0, list[datetime]()
    doubts: list[Chain] = []
    for chain in chains(runs, workspaces, sealed):
        count += 1
        loose += len(chain.loose)
        if chain.loose:
            ends = [min([*ends, *chain.loose]), max([*ends, *chain.loose])]
        faults += [chain] if chain.fault else []
        faults += [Chain(chain.name, Fault(0, why)) for why in chain.differences]
        doubts += [Chain(chain.name, chain.doubt)] if chain.doubt else []
    if workspaces.count() == Workspace.objects.count():
        faults += _vanished(sealed.hashes)
        faults += [Chain(name, Fault(0, "no event tells of it")) for name in without_intent()]
    between = (ends[0], ends[1]) if ends else None
    only_times = bool(doubts) and not faults
    counts_of_heads = len(stored), len(sealing.keys()), len(kept)
    found = faults + doubts
    foreign = protection.listed(build.foreign)
    return Proof(count, *counts_of_heads, loose, between, found, is_torn, only_times, foreign)


def _kept(file: Path) -> tuple[list[seals.SealedHead], bool, list[Chain]]:
    """Return the heads outside the database, and why there are none where they are not readable."""
    try:
        return *(heads_file.read(file) if file.exists() else ([], False)), []
    except (heads_file.Unreadable, OSError) as error:
        return [], False, [Chain(KEPT, Fault(0, str(error)))]


def _stored() -> tuple[list[seals.SealedHead], dict[str, int], list[Chain]]:
    """Return the heads, and how far `agents_sealed` says they reach, of one moment."""
    while True:
        counts = dict(Sealed.objects.values_list("chain", "event_count"))
        heads, faults = _heads()
        again = dict(Sealed.objects.values_list("chain", "event_count"))
        if counts == again:
            return heads, counts, faults


def _heads() -> tuple[list[seals.SealedHead], list[Chain]]:
    """Return the heads that can be read, and those that cannot."""
    try:
        return [_whole(head) for head in Head.objects.order_by("number").iterator(CHUNK)], []
    except UNREADABLE:
        pass
    heads: list[seals.SealedHead] = []
    faults: list[Chain] = []
    for number in Head.objects.order_by("number").values_list("number", flat=True):
        try:
            heads.append(_whole(Head.objects.get(number=number)))
        except UNREADABLE:
            faults.append(Chain("heads", Fault(number, "it cannot be read"), of="head"))
    return heads, faults


def _whole(head: Head) -> seals.SealedHead:
    """Return a head that has the parts of one. Raises one of UNREADABLE."""
    return seals.from_line(json.loads(seals.as_line(head.plain())))


def _miscounted(counts: Mapping[str, int], sealed: Mapping[str, Sequence[str]]) -> Iterator[Chain]:
    """Yield the chains of which `agents_sealed` counts other events than the heads have."""
    for name in sorted(counts.keys() | sealed.keys()):
        said, wanted = counts.get(name, 0), len(sealed.get(name, ()))
        if said != wanted:
            why = f"agents_sealed counts {said} sealed events; the heads have {wanted}"
            yield Chain(name.replace("/", " "), Fault(0, why))


def _vanished(sealed: Mapping[str, Sequence[str]]) -> Iterator[Chain]:
    """Yield the chains that were sealed and of which not even the row is left."""
    runs = Run.objects.values_list("workspace_id", "pk").iterator()
    there = {name_of(workspace=workspace, run=run) for workspace, run in runs}
    there |= {name_of(workspace=pk) for pk in Workspace.objects.values_list("pk", flat=True)}
    for name in sorted(sealed.keys() - there):
        why = f"the chain is gone; {len(sealed[name])} events were sealed"
        yield Chain(name.replace("/", " "), Fault(1, why))
