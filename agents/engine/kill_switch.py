"""The kill switch in the engine: it stops writes and pauses deadlines.

The start of a write shares a lock, and a press holds it alone. The lock comes after the run's row
and before the workspace's. Decisions and new requests lock that row, as a press does too.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from django.db import connection
from django.db.models import (
    DateTimeField,
    ExpressionWrapper,
    F,
    FilteredRelation,
    Q,
    QuerySet,
    Value,
)

from agents.core.states import EscalationState
from agents.db.compiled import CompiledSelect, Param
from agents.db.driver import Pending, fetch_now, send_lock, take_lock
from agents.models import Escalation, KillSwitch, Run, Workspace
from agents.models.requests import has_rejections

# FOR NO KEY UPDATE: inserts that refer to the workspace lock its key and must not wait for us.
_WORKSPACE = CompiledSelect(
    lambda: Workspace.objects.filter(pk=Param("pk")).select_for_update(no_key=True).only("pk")
)
_STANDING = CompiledSelect(
    lambda: KillSwitch.objects.standing().filter(workspace=Param("workspace"))
)


def switch_against(run: Run, tool: str) -> KillSwitch | None:
    """Return a switch that stops `tool` in this run, or None. Call in the change's transaction.

    A switch committed earlier is seen here, and nothing starts after one committed later.
    """
    return fetch_now(fetch_switch, run, tool)


def fetch_switch(run: Run, tool: str) -> Pending[KillSwitch | None]:
    """Fetch what `switch_against` returns, in an open pipeline if any."""
    hold_writes(run)
    standing = _STANDING.fetch(workspace=run.workspace_id)
    return Pending(
        lambda: next((switch for switch in standing.get() if switch.stops(run, tool)), None)
    )


def hold_writes(run: Run) -> None:
    """Send for the lock that the start of a write shares, in an open pipeline if any."""
    send_lock(_writes_of(run.workspace_id), shared=True)


def fetch_standing(run: Run, tool: str) -> Pending[bool]:
    """Fetch whether a switch stops `tool` in this run, whose writes are held.

    It also tells the run whether something about its subject was rejected meanwhile.
    """
    pending = _BEFORE_A_WRITE.fetch_tuples(workspace=run.workspace_id, subject=run.subject_key)

    def answer() -> bool:
        rows = pending.get()
        run.has_rejections = bool(rows[0][0])
        switches = [KillSwitch(scope=s, target=t, trial_at=at) for _, s, t, at in rows if s]
        return any(switch.stops(run, tool) for switch in switches)

    return Pending(answer)


def _before_a_write() -> QuerySet[Any]:
    stands = FilteredRelation("kill_switches", condition=Q(kill_switches__released_at=None))
    about = has_rejections(workspace=Param("workspace"), subject=Param("subject"))
    here = Workspace.objects.filter(pk=Param("workspace")).annotate(standing=stands, rejected=about)
    return here.values_list("rejected", "standing__scope", "standing__target", "standing__trial_at")


_BEFORE_A_WRITE = CompiledSelect(_before_a_write)


def fetch_switch_for_request(run: Run, tool: str) -> Pending[KillSwitch | None]:
    """Fetch the switch that holds a new request, and keep others from opening one meanwhile.

    In the order of a press, as the same transaction may start a write of a parallel flow.
    """
    standing = fetch_switch(run, tool)
    if connection.features.has_select_for_update:  # else a transaction locks the whole database
        _WORKSPACE.fetch_tuples(pk=run.workspace_id)
    return standing


def keep_writes_out(workspace: Workspace) -> None:
    """Wait for the writes that are starting, and let none start until the transaction ends."""
    take_lock(_writes_of(workspace.pk))


def _writes_of(workspace_id: int) -> str:
    return f"writes:{workspace_id}"


CLOCKS = ("expires_at", "climbs_at")  # of a request


def freeze(workspace: Workspace, *, at: datetime) -> int:
    """Pause the deadlines of requests that a switch holds now, and resume those of others.

    A resumed deadline is extended by the pause. Call with the workspace's row locked. Return the
    number of changed deadlines.
    """
    held = Q(pk__in=[])
    for switch in KillSwitch.objects.standing().filter(workspace=workspace):
        held |= switch.holds()
    ours = Escalation.objects.filter(workspace=workspace, state=EscalationState.OPEN)
    keys = Escalation.objects.filter(held, workspace=workspace).values("pk")
    running = ours.filter(frozen_at=None, expires_at__gt=at, pk__in=keys)
    stood = Value(at, DateTimeField()) - F("frozen_at")
    later = {name: ExpressionWrapper(F(name) + stood, DateTimeField()) for name in CLOCKS}
    return running.update(frozen_at=at) + ours.filter(frozen_at__isnull=False).exclude(
        pk__in=keys
    ).update(**later, frozen_at=None)
