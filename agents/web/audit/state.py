"""What is known of the log's integrity without reading it: the last check and seal."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from agents.core.requests import Json
from agents.models import Event, Head, Workspace
from agents.models.record import UNREADABLE


@dataclass(frozen=True)
class AuditState:
    """The panel above the log."""

    checked_at: datetime | None  # None: nobody has verified this workspace's log yet
    checked_by: str
    chains: int  # that the last check read
    unread: int  # that it skipped as unchanged
    faults: Sequence[str]  # the first that it found
    count: int  # of all faults found
    full_at: datetime | None  # when all was last read, if recorded; None: in this check
    head: int | None  # the number of the newest seal
    sealed_at: datetime | None
    seal: str
    file: str  # the name of the heads file; "" if it is missing


def state_of(workspace: Workspace, *, file: Path) -> AuditState:
    """Return what is known of a log, in two queries. Unreadable rows count as faults."""
    checks = Event.objects.filter(workspace=workspace, run=None, kind="audit.verified")
    try:
        last = checks.order_by("-pk").first()
        facts = last.facts if last else {}
        checked_at, checked_by = (_time(last.at), last.actor) if last else (None, "")
        chains, unread = int(facts.get("chains", 0)), int(facts.get("unread", 0))
        faults = [str(f) for f in facts.get("faults", [])]
        more = int(facts.get("more", 0))
        full_at = datetime.fromisoformat(facts["full_at"]) if "full_at" in facts else None
    except UNREADABLE:
        checked_at, checked_by, chains, unread, full_at = None, "", 0, 0, None
        faults, more = ["the entry of the last check cannot be read"], 0
    try:
        head = Head.objects.order_by("-number").only("number", "at", "seal").first()
        number, sealed_at, seal = (
            (head.number, _time(head.at), head.seal) if head else (None, None, "")
        )
    except UNREADABLE:
        number, sealed_at, seal = None, None, ""
        faults = [*faults, "the newest seal cannot be read"]
    name = file.name if file.exists() else ""
    count = len(faults) + more
    check = (checked_at, checked_by, chains, unread, faults, count, full_at)
    return AuditState(*check, number, sealed_at, seal, name)


def check_notes(found: Json) -> list[str]:
    """Return sentences on what a check compared and what it could not.

    `found` is the outcome of a Verification.
    """
    compared, loose = found["compared"], found["loose"]
    notes = ["There were no copies of seals outside the database to compare with."]
    if compared:
        some = "1 seal agrees" if compared == 1 else f"{compared} seals agree"
        notes = [f"{some} with the copy kept outside the database."]
        if found["faults"]:
            notes = [f"Seals compared with the copy outside the database: {compared}."]
    if found["is_torn"]:
        notes.append("The last line of that copy is incomplete and was left out.")
    if not found["keys"]:
        notes.append("The signatures of the seals were not checked: this server has no key.")
    if loose:
        some = "1 entry has" if loose == 1 else f"{loose} entries have"
        notes.append(f"{some} no seal yet; a worker seals new entries every few minutes.")
    if found["more"]:
        notes.append(f"{found['more']} more faults were found.")
    if "since" in found:
        full_at = f"{datetime.fromisoformat(found['full_at']):%Y-%m-%d %H:%M} UTC"
        notes.insert(0, f"All of the log was last read at {full_at}.")
    return notes + found["clocks"]


def _time(at: datetime | None) -> datetime:
    """Return a stored time. Raises ValueError for None, which SQLite gives for an invalid one."""
    if at is None:
        raise ValueError
    return at
