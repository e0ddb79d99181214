"""Press a kill switch, and release it in stages (decision 9)."""

from __future__ import annotations

from collections.abc import Mapping, Set
from datetime import datetime

from django.contrib.auth.models import User
from django.db import transaction

from agents.core.requests import Json
from agents.engine.kill_switch import freeze, keep_writes_out
from agents.engine.redaction import redact_in
from agents.models import KillSwitch, Role, Scope, SwitchStage, Workspace
from agents.models.record import Entry, append_events
from agents.patterns import PATTERNS
from agents.shell.refusal import Refused, check_text, require_member, time_here
from agents.tools import TOOLS

MAX_REASON = 500  # characters
_BEFORE: Mapping[SwitchStage, SwitchStage] = {
    SwitchStage.TRIAL: SwitchStage.ON,
    SwitchStage.OFF: SwitchStage.TRIAL,
}


def kill(
    *,
    workspace: Workspace,
    by: User,
    reason: str,
    at: datetime,
    scope: Scope = Scope.WORKSPACE,
    target: str = "",
    seen: Set[int] | None = None,
) -> KillSwitch:
    """Press a switch: no write of its scope starts after this commits. Raises Refused.

    One on trial gives way to it. `seen`, if given, are the switches in force that the person saw:
    another one is left as it is.
    """
    _check_scope(workspace, scope, target)
    with transaction.atomic():
        reason = _lock_workspace(workspace, by, reason)
        standing = _standing_switch(workspace, scope, target)
        if standing:
            if standing.stage is SwitchStage.ON or not _is_seen(standing, seen):
                raise Refused("on", _who_pressed(standing))
            standing.released_at = at
            standing.save(update_fields=["released_at"])
        pressed = KillSwitch.objects.create(
            workspace=workspace,
            scope=scope,
            target=target,
            reason=reason,
            pressed_by=by.get_username(),
            pressed_at=at,
        )
        _say(pressed, SwitchStage.ON, by=by, reason=reason, at=at)
        return pressed


def release(
    *,
    workspace: Workspace,
    by: User,
    reason: str,
    at: datetime,
    to: SwitchStage,
    scope: Scope = Scope.WORKSPACE,
    target: str = "",
    seen: Set[int] | None = None,
) -> KillSwitch:
    """Let new runs write again (TRIAL), then all runs (OFF). Raises Refused.

    This starts nothing by itself: stopped runs stay stopped. `seen` is as in `kill`.
    """
    with transaction.atomic():
        reason = _lock_workspace(workspace, by, reason)
        standing = _standing_switch(workspace, scope, target)
        if standing and not _is_seen(standing, seen):
            raise Refused("on", _who_pressed(standing))
        now = standing.stage if standing else SwitchStage.OFF
        if standing is None or now is not _BEFORE[to]:
            raise Refused("stage", _not_from(now, to))
        column = "trial_at" if to is SwitchStage.TRIAL else "released_at"
        setattr(standing, column, at)
        standing.save(update_fields=[column])
        _say(standing, to, by=by, reason=reason, at=at)
        return standing


def stoppable_tools() -> list[str]:
    """Return the tools that a switch can name: those that write."""
    return sorted(name for name, tool in TOOLS.items() if tool.writes)


def _check_scope(workspace: Workspace, scope: Scope, target: str) -> None:
    """Refuse a switch that would stop nothing. Raises Refused."""
    known = {
        Scope.WORKSPACE: [""],
        Scope.PATTERN: sorted(PATTERNS),
        Scope.TOOL: stoppable_tools(),
        Scope.AGENT: list(workspace.agents.order_by("name").values_list("name", flat=True)),
    }[scope]
    if target not in known:
        raise Refused("no_target", f"There is no {scope} {target!r}; choose {' or '.join(known)}.")


def _lock_workspace(workspace: Workspace, by: User, reason: str) -> str:
    """Keep writes out, and lock the workspace's row against decisions. Raises Refused.

    Return the reason as masked by the published policy.
    """
    if not reason.strip():
        raise Refused("no_reason", "Enter a reason. Everyone in the workspace can see it.")
    check_text(reason.strip(), most=MAX_REASON)
    keep_writes_out(workspace)
    found = Workspace.objects.select_for_update(no_key=True).get(pk=workspace.pk)
    require_member(found, by, Role.ADMIN)
    return str(redact_in(found, reason.strip()))


def _standing_switch(workspace: Workspace, scope: Scope, target: str) -> KillSwitch | None:
    found = KillSwitch.objects.standing().filter(workspace=workspace)
    return found.filter(scope=scope, target=target).first()


def _is_seen(standing: KillSwitch, seen: Set[int] | None) -> bool:
    return seen is None or standing.pk in seen


def _who_pressed(switch: KillSwitch) -> str:
    by, at = switch.pressed_by, time_here(switch.pressed_at)
    return f"{by} turned this switch on, at {at}: “{switch.reason}”. Nothing was changed."


def _say(switch: KillSwitch, stage: SwitchStage, *, by: User, reason: str, at: datetime) -> None:
    clocks = freeze(switch.workspace, at=at)
    facts: dict[str, Json] = {"scope": switch.scope, "target": switch.target}
    facts |= {"why": reason, "deadlines": clocks}
    said = Entry(f"kill_switch.{stage.value}", facts, by.get_username())
    append_events([said], workspace_id=switch.workspace_id, at=at)


def _not_from(now: SwitchStage, to: SwitchStage) -> str:
    if now is SwitchStage.OFF:
        return "This switch is off already. Nothing was changed."
    if to is SwitchStage.OFF:
        return "Resume for new runs first, and watch one of them finish."
    return "New runs may act already. The next stage resumes all runs."
