"""The seals over the record. A copy of each is kept outside the database."""

from __future__ import annotations

from django.db import models

from agents.record import seals
from agents.record.chain import spell_time


class Head(models.Model):
    """One seal over the new events of all chains; the newest covers the whole record."""

    number = models.PositiveBigIntegerField(primary_key=True)  # from 1; two sealers collide here
    at = models.DateTimeField()
    key = models.CharField(max_length=12)  # the id of the key, not the key
    before = models.CharField(max_length=64, blank=True)
    moved = models.JSONField()  # version 1: chain -> hashes since the head before
    workspaces = models.JSONField(null=True)  # version 2: workspace -> its part, see record.seals
    # Every event up to this key is sealed, so the next seal starts here.
    upto = models.PositiveBigIntegerField(null=True)
    # Proves `upto` with the key. Null for older heads, so that SQLite need not copy them.
    proof = models.CharField(max_length=64, null=True)  # noqa: DJ001
    seal = models.CharField(max_length=64)

    class Meta:
        indexes = [
            # The proof of a run: the head that seals its last event.
            models.Index(fields=["upto", "number"], name="head_upto"),
        ]

    def __str__(self) -> str:
        return f"head {self.number}"

    def plain(self) -> seals.SealedHead:
        """Return the head in the form of `record.seals`."""
        return seals.SealedHead(
            number=self.number,
            at=spell_time(self.at),
            key=self.key,
            before=self.before,
            moved=self.moved,
            seal=self.seal,
            workspaces=self.workspaces,
        )


class Sealed(models.Model):
    """How far the heads reach in one chain, so that the next seal need not read them all.

    No seal covers it: sealing and verify_audit check it against the heads.
    """

    chain = models.CharField(max_length=60, primary_key=True)
    event_count = models.PositiveBigIntegerField()

    def __str__(self) -> str:
        return f"{self.chain}: {self.event_count}"
