"""Seal the record: put the new events of every chain into a head, in the database and outside."""

from __future__ import annotations

import hmac
from datetime import datetime, timedelta

from django.conf import settings
from django.db import IntegrityError, transaction
from django.utils import timezone

from agents.audit import heads_file
from agents.audit.unsealed import (
    HeadsDiffer,
    chains_of_version_1,
    newest_final_key,
    unsealed_chains,
)
from agents.engine.upkeep import NotDone
from agents.models import Head, Sealed
from agents.models.record import UNREADABLE
from agents.record import seals
from agents.record.chain import spell_time

_looked_at: datetime | None = None  # when this process last sealed what was due


class NoKey(Exception):
    """This process was deliberately given no key to seal with."""


def keys() -> dict[str, str]:
    """Return the keys for checking seals, by id."""
    given = [settings.OPSCONSOLE_AUDIT_KEY, *settings.OPSCONSOLE_AUDIT_OLD_KEYS]
    return {seals.key_id(key): key for key in given if key}


def seal_in_sweep() -> int:
    """Seal what is due. Raises NotDone, OSError."""
    try:
        return seal_when_due(at=timezone.now())
    except (NoKey, HeadsDiffer, heads_file.Unreadable) as error:
        raise NotDone(str(error)) from error


def seal_when_due(*, at: datetime) -> int:
    """Seal if the newest head is OPSCONSOLE_SEAL_SECONDS old. Return the number of new heads.

    Each process tries at most once per period: with nothing new to seal, no newer head appears.
    """
    global _looked_at
    period = timedelta(seconds=settings.OPSCONSOLE_SEAL_SECONDS)
    if not settings.OPSCONSOLE_AUDIT_KEY:
        return 0
    if not period or (_looked_at and _looked_at <= at < _looked_at + period):
        return 0
    newest = Head.objects.order_by("-number").first()
    # A head dated in the future comes from a wrong clock and is no reason to wait.
    if newest and timedelta() <= at - newest.at < period:
        return 0
    made = seal(at=at)
    _looked_at = at
    return len(made)


def seal(*, at: datetime, begin_file: bool = False, lost_key: str = "") -> list[seals.SealedHead]:
    """Seal all new events. Return the new heads, none if there is nothing to seal.

    Heads are written to the database first; those that a crash kept from the file are added by the
    next seal. A missing file is created only with `begin_file`, and a head of a key that this
    process lacks is followed only if `lost_key` is that key's id. Raises NoKey, HeadsDiffer,
    Unreadable, OSError.
    """
    if not settings.OPSCONSOLE_AUDIT_KEY:
        raise NoKey("This process has no key (OPSCONSOLE_AUDIT_KEY is none): it seals nothing.")
    made: list[seals.SealedHead] = []
    with heads_file.open_heads(settings.OPSCONSOLE_HEADS_FILE) as kept:
        last = kept.newest()
        try:
            _compare(last, begin_file, lost_key)
            final = newest_final_key()
            while head := _seal_once(at, final):
                made.append(head)
            if lost_key and not made and not _is_newest_ours():
                raise HeadsDiffer(
                    "Nothing is new, so no head of this process's key follows, and the next seal "
                    "would be refused: have something put on record, as manage.py export_audit "
                    "does, and run this again."
                )
        except UNREADABLE as error:
            raise HeadsDiffer(
                "A head or an event in the database cannot be read: nothing is sealed. "
                "Run manage.py verify_audit, which names it."
            ) from error
        unkept = Head.objects.filter(number__gt=last.number if last else 0)
        kept.add(head.plain() for head in unkept.order_by("number").iterator(100))
    return made


def _is_newest_ours() -> bool:
    newest = Head.objects.order_by("-number").values_list("key", flat=True).first()
    return newest is None or newest in keys()


def _compare(last: seals.SealedHead | None, begin_file: bool, lost_key: str) -> None:
    """Refuse to seal after a head of an unknown key, or if the database lacks the file's last head.

    Raises HeadsDiffer.
    """
    newest = Head.objects.order_by("-number").first()
    if newest and newest.key not in {*keys(), lost_key}:
        raise HeadsDiffer(
            f"Head {newest.number} was sealed with the key {newest.key}, which this process "
            "lacks, so nothing is sealed: put that key into OPSCONSOLE_AUDIT_KEY, or after a "
            "rotation into OPSCONSOLE_AUDIT_OLD_KEYS. If nobody has it any more, run "
            f"manage.py seal_audit --lost-key {newest.key}: its heads can never be checked again."
        )
    if last is None:
        # A crash between database and file can lose only the first head; more means removal.
        if not begin_file and (count := Head.objects.filter(number__gt=1).count()):
            raise HeadsDiffer(
                f"The file of heads is gone or empty, and this database has {count + 1}: nothing "
                "is sealed, because an older copy could not be told apart. Put the file back; or "
                "run manage.py verify_audit with a copy kept elsewhere, and then "
                "manage.py seal_audit --begin-file."
            )
        if newest:
            _refuse_forged(None)
        return
    is_newest = newest is None or newest.number == last.number  # as a rule: one query less
    stored = newest if is_newest else Head.objects.filter(number=last.number).first()
    if stored is None or stored.plain() != last:
        raise HeadsDiffer(
            f"Head {last.number} is kept outside this database, which does not have it: it is an "
            "older copy or another one, and nothing is sealed. Run manage.py verify_audit; after "
            "an intended restore, put the file of heads aside, keep it, and run "
            "manage.py seal_audit --begin-file."
        )
    if not is_newest:
        _refuse_forged(last)


def _refuse_forged(last: seals.SealedHead | None) -> None:
    """Refuse heads after the file's last that do not chain to one of ours. Raises HeadsDiffer.

    Otherwise someone who can only insert rows could have us seal after theirs and keep them.
    """
    number, seal = (last.number, last.seal) if last else (0, "")
    forged, head = 0, None
    for row in Head.objects.filter(number__gt=number).order_by("number").iterator(10):
        head = row.plain()
        if not forged and (head.number, head.before) != (number + 1, seal):
            forged = head.number
        number, seal = head.number, head.seal
    key = keys().get(head.key) if head else None
    if forged or (head and key and not seals.is_sealed(head, key)):
        raise HeadsDiffer(
            f"Head {forged or number} is in the database and was not made by this program: nothing "
            "is sealed. Run manage.py verify_audit; docs/operations.md (Forged heads) says how to "
            "go on."
        )


def _seal_once(at: datetime, final: int | None) -> seals.SealedHead | None:
    """Make the next head of at most EVENTS events. None: nothing is new, or another sealer won."""
    # Read before the events: if another sealer takes this number, our insert fails.
    newest = Head.objects.order_by("-number").first()
    since = _sealed_up_to(newest) if newest else 0
    grown, seen = unsealed_chains(since)
    if not grown:
        return None
    number, before = (newest.number + 1, newest.seal) if newest else (1, "")
    moved: dict[str, dict[str, list[str]]] = {}
    for chain in grown:
        moved.setdefault(str(chain.workspace), {})[chain.name] = chain.hashes
    earlier = chains_of_version_1() if newest and newest.workspaces is None else {}
    parts = {
        name: seals.part_of(moved.get(name, {}), earlier.get(name))
        for name in moved.keys() | earlier.keys()
    }
    bare = seals.SealedHead(
        number, spell_time(at), key="", before=before, moved={}, workspaces=parts
    )
    head = seals.seal_head(bare, settings.OPSCONSOLE_AUDIT_KEY)
    # An open transaction may still commit an event with a lower key.
    upto = since if final is None else min(seen, final)
    reached = [Sealed(chain=chain.name, event_count=chain.upto) for chain in grown]
    try:
        with transaction.atomic():
            Head.objects.create(
                number=number,
                at=at,
                key=head.key,
                before=before,
                moved={},
                workspaces=parts,
                upto=upto,
                proof=_proof(head.seal, upto, settings.OPSCONSOLE_AUDIT_KEY),
                seal=head.seal,
            )
            Sealed.objects.bulk_create(
                reached,
                update_conflicts=True,
                unique_fields=["chain"],
                update_fields=["event_count"],
            )
    except IntegrityError:
        return None
    return head


def _sealed_up_to(head: Head) -> int:
    """Return the key up to which every event is sealed, or 0 if the head cannot prove its own.

    The seal does not cover `upto`, and a forged higher one would keep events out of every head.
    """
    key = keys().get(head.key)
    if head.upto is None or head.proof is None or key is None:
        return 0
    is_ours = hmac.compare_digest(head.proof.encode(), _proof(head.seal, head.upto, key).encode())
    return head.upto if is_ours else 0


def _proof(seal: str, upto: int, key: str) -> str:
    return seals.keyed_digest(key, ["upto", seal, upto])
