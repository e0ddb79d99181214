"""Archives: the files with the events of runs, and a tombstone for each run."""

from __future__ import annotations

from django.db import models


class Archive(models.Model):
    """The chains of some runs of a workspace, in a file outside the database.

    An event of the workspace records it. Once that event is sealed, the triggers allow deleting the
    runs' events.
    """

    workspace = models.ForeignKey("agents.Workspace", models.PROTECT, related_name="archives")
    number = models.PositiveIntegerField()  # from 1 in its workspace
    before = models.DateTimeField()  # its runs ended before this
    at = models.DateTimeField()
    runs = models.PositiveIntegerField()
    sha256 = models.CharField(max_length=64)  # of the file with the record
    tombstones = models.CharField(max_length=64)  # the digest over those of its runs
    seq = models.PositiveBigIntegerField()  # of the event, in the workspace's chain
    let_go_at = models.DateTimeField(null=True)  # since then only the file has the events

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["workspace", "number"], name="archive_number_once"),
        ]

    def __str__(self) -> str:
        return f"archive {self.number} of workspace {self.workspace_id}"


class Tombstone(models.Model):
    """The remains of an archived run's chain. It never changes."""

    run = models.OneToOneField("agents.Run", models.PROTECT, primary_key=True, related_name="+")
    archive = models.ForeignKey(Archive, models.PROTECT, related_name="+")
    event_count = models.PositiveBigIntegerField()  # in the file
    head_hash = models.CharField(max_length=64)  # of the last of them
    sha256 = models.CharField(max_length=64)  # of the run's remaining rows

    def __str__(self) -> str:
        return f"tombstone of run {self.run_id}"
