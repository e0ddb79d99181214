"""The values behind the names that a run uses, encrypted: what it took in itself, nothing else."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterable, Iterator
from functools import lru_cache, partial
from typing import TYPE_CHECKING
from uuid import UUID

from cryptography.fernet import Fernet, InvalidToken, MultiFernet
from django.conf import settings
from django.db import models, transaction

from agents.core.pseudonyms import Naming, Pseudonyms, name_of
from agents.db.compiled import CompiledSelect, Param
from agents.db.inserts import new_row, send_missing

if TYPE_CHECKING:
    from agents.models.run import Run

_KEPT_AS = "_pseudonyms"  # on a run's object


class ValuesLocked(Exception):
    """This process lacks the key of stored values, or of their names. Nothing is lost by that."""


class MaskedValue(models.Model):
    """One value of one run. The row proves itself: in another place it stands for nothing."""

    run = models.ForeignKey(
        "agents.Run", models.CASCADE, related_name="masked_values", db_index=False
    )  # masked_value_once begins with it
    name = models.CharField(max_length=24)
    token = models.TextField()  # encrypted: workspace, run, name, kind and value

    class Meta:
        constraints = [models.UniqueConstraint(fields=["run", "name"], name="masked_value_once")]

    def __str__(self) -> str:
        return self.name


_OF_RUN = CompiledSelect(lambda: MaskedValue.objects.filter(run=Param("run")).order_by("pk"))


def cipher() -> MultiFernet:
    """Return what encrypts with the newest key, and decrypts with any."""
    return _cipher((settings.OPSCONSOLE_VALUE_KEY, *settings.OPSCONSOLE_VALUE_OLD_KEYS))


@lru_cache(4)
def _cipher(keys: tuple[str, ...]) -> MultiFernet:
    derived = (hashlib.sha256(b"values:" + key.encode()).digest() for key in keys)
    return MultiFernet([Fernet(base64.urlsafe_b64encode(key)) for key in derived])


def naming(workspace_id: int) -> Naming:
    """Return what names values in a workspace."""
    return partial(name_of, settings.OPSCONSOLE_NAMING_KEY, workspace_id)


def pseudonyms_of(run: Run) -> Pseudonyms:
    """Return a run's names, kept with the object; a query only where it has any.

    Raises ValuesLocked.
    """
    found: Pseudonyms | None = vars(run).get(_KEPT_AS)
    if found is None:
        rows = _OF_RUN.all(run=run.pk) if run.has_values else ()
        found = Pseudonyms(naming(run.workspace_id), dict(read_values(run.workspace_id, rows)))
        give_pseudonyms(run, found)
    return found


def give_pseudonyms(run: Run, names: Pseudonyms) -> None:
    """Have a run use these names."""
    setattr(run, _KEPT_AS, names)


def read_values(workspace_id: int, rows: Iterable[MaskedValue]) -> Iterator[tuple[str, str]]:
    """Yield names with their values. A row that was changed, swapped or copied here has none.

    Raises ValuesLocked.
    """
    known = naming(workspace_id)
    for row in rows:
        try:
            *place, kind, value = json.loads(cipher().decrypt(row.token.encode()))
        except InvalidToken:
            raise ValuesLocked("the key of the stored values is missing or another") from None
        if place != [workspace_id, str(row.run_id), row.name]:
            continue
        if known(kind, value) != row.name:
            raise ValuesLocked("the key of the values' names is missing or another")
        yield row.name, value


def taken_by(run: Run) -> Pseudonyms | None:
    """Return a run's names if it has taken values in that are not stored yet."""
    names: Pseudonyms | None = vars(run).get(_KEPT_AS)
    return names if names and names.taken else None


def keep_values(run: Run, names: Pseudonyms) -> None:
    """Store what was taken in since, in the transaction of what quotes it, with the run locked.

    The run's row is to say that it `has_values`.
    """
    taken = dict(names.taken)
    # A person's words and a tool's result may bring the same value at the same time.
    send_missing([_row(run.workspace_id, run.pk, name, *taken[name]) for name in taken])

    def forget() -> None:
        for name in taken:
            names.taken.pop(name, None)

    transaction.on_commit(forget)


def _row(workspace_id: int, run_id: UUID, name: str, kind: str, value: str) -> MaskedValue:
    told = json.dumps([workspace_id, str(run_id), name, kind, value])
    return new_row(
        MaskedValue, run_id=run_id, name=name, token=cipher().encrypt(told.encode()).decode()
    )
