"""What stops a write at once: a kill switch, and a tool that the version in force has off.

A kill switch pauses deadlines too.

The start of a write shares a lock, and a press holds it alone. The lock comes after the run's row
and before the workspace's. Decisions and new requests lock that row, as a press does too.
"""

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

from agents.core.requests import EscalationState
from agents.db.compiled import CompiledSelect, Param
from agents.db.driver import Pending, fetch_now, send_lock, take_lock
from agents.models import Escalation, KillSwitch, Run, Workspace
from agents.models.requests import has_rejections

# FOR NO KEY UPDATE: inserts that refer to the workspace lock its key and must not wait for us.
_WORKSPACE = CompiledSelect(
    lambda: Workspace.objects.filter(pk=Param("pk")).select_for_update(no_key=True).only("pk")
)
KILLED = "killed"


def switch_against(run: Run, tool: str) -> str:
    """Return why `tool` may not start in this run, or "". Call in the change's transaction.

    A switch committed earlier is seen here, and nothing starts after one committed later.
    """
    return fetch_now(fetch_switch, run, tool)


def fetch_switch(run: Run, tool: str) -> Pending[str]:
    """Fetch what `switch_against` returns, in an open pipeline if any."""
    hold_writes(run)
    return fetch_standing(run, tool)


def hold_writes(run: Run) -> None:
    """Send for the lock that the start of a write shares, in an open pipeline if any."""
    send_lock(_writes_of(run.workspace_id), shared=True)


def fetch_standing(run: Run, tool: str) -> Pending[str]:
    """Fetch why `tool` may not start in this run, whose writes are held, or "".

    It also tells the run whether something about its subject was rejected meanwhile.
    """
    pending = _BEFORE_A_WRITE.fetch_tuples(workspace=run.workspace_id, subject=run.subject_key)

    def answer() -> str:
        rows = pending.get()
        run.has_rejections, in_force = bool(rows[0][0]), rows[0][1]
        switches = [KillSwitch(scope=s, target=t, trial_at=at) for *_, s, t, at in rows if s]
        if any(switch.stops(run, tool) for switch in switches):
            return KILLED
        run.heed(in_force)
        return run.switched_off(tool)

    return Pending(answer)


def _before_a_write() -> QuerySet[Any]:
    stands = FilteredRelation("kill_switches", condition=Q(kill_switches__released_at=None))
    about = has_rejections(workspace=Param("workspace"), subject=Param("subject"))
    here = Workspace.objects.filter(pk=Param("workspace")).annotate(standing=stands, rejected=about)
    switch = [f"standing__{name}" for name in ("scope", "target", "trial_at")]
    return here.values_list("rejected", "policy__sha256", *switch)


_BEFORE_A_WRITE = CompiledSelect(_before_a_write)


def fetch_switch_for_request(run: Run, tool: str) -> Pending[str]:
    """Fetch what stops a new request's call, and keep others from opening one meanwhile.

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
