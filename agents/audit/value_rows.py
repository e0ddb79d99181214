"""Whether the values are there that a held action or an effect needs: their rows are in no event.

The action is bound by its digest, with the names in it, and a row proves its own value. So a row
that is missing, changed or swapped shows as a name in an action that stands for nothing.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping
from uuid import UUID

from agents.core.limits import BadPolicy
from agents.core.redact import NAME, Pseudonyms, names_in
from agents.core.requests import Json
from agents.models import Effect, Escalation, MaskedValue, Run
from agents.models.runs import ValuesLocked, give_pseudonyms, naming, read_values
from agents.record.rows_from_events import Derived, Row

LOCKED = "not readable without the key of the stored values"


def values_of_calls(
    runs: Collection[Run], calls: Collection[Escalation | Effect]
) -> Mapping[Escalation | Effect, Row]:
    """Return a column for each call of these runs that says whether its values are there.

    The rows' runs get their values in the same one query, for whatever is derived from a call.
    """
    known, of_key = _pseudonyms(runs), {run.pk: run for run in runs}
    rows: dict[Escalation | Effect, Row] = {}
    for call in calls:
        names, run = known[call.run_id], of_key[call.run_id]
        give_pseudonyms(call.run, names or Pseudonyms(naming(run.workspace_id)))
        needed = (
            [call.action.get("args"), call.patch] if isinstance(call, Escalation) else call.args
        )
        rows[call] = {} if run.is_emptied else _column(run, names, needed)
    return rows


def _pseudonyms(runs: Collection[Run]) -> Mapping[UUID, Pseudonyms | None]:
    """Return the names that each run can resolve; None where the key is missing."""
    rows: dict[UUID, list[MaskedValue]] = defaultdict(list)
    holders = [run.pk for run in runs if run.has_values]
    for row in MaskedValue.objects.filter(run__in=holders) if holders else ():
        rows[row.run_id].append(row)
    return {run.pk: _read(run, rows[run.pk]) for run in runs}


def _read(run: Run, rows: Collection[MaskedValue]) -> Pseudonyms | None:
    try:
        known = dict(read_values(run.workspace_id, rows))
    except ValuesLocked:
        return None
    return Pseudonyms(naming(run.workspace_id), known)


def _column(run: Run, names: Pseudonyms | None, needed: Json) -> Row:
    try:
        wanted = sorted(set(names_in(needed))) if NAME in run.limits.redaction.values() else []
    except BadPolicy:
        wanted = []
    if not wanted:
        return {}
    there: Json = LOCKED
    if names is not None:
        there = [name for name in wanted if name in names.values]
    return {"values of its names": Derived(there, wanted)}
