"""Kill switches: press one, release it in stages, and show them on their page."""

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.contrib.auth.models import User
from django.db import transaction
from django.db.models import Count, QuerySet
from django.http import QueryDict

from agents.core.requests import EscalationState, Json
from agents.engine.kill_switch import freeze, keep_writes_out
from agents.engine.redaction import redact_in
from agents.models import (
    Effect,
    Escalation,
    ExternalAgent,
    KillSwitch,
    Membership,
    Role,
    Scope,
    SwitchStage,
    Workspace,
)
from agents.patterns import PATTERNS
from agents.sdk.desk import offered, tool_title
from agents.shell.formats import spell_out
from agents.shell.pages import BadForm, only, whole_number
from agents.shell.refusal import Refused, check_text, require_member, time_here

_MAX_REASON = 500  # characters
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

    A switch on trial gives way to it. `seen`, if given, are the switches in force that the person
    saw: others stay unchanged.
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


def _stoppable_tools() -> list[str]:
    """Return the tools that a switch can name, which stops them at every desk: those that write."""
    return sorted({t.name for desk in offered().values() for t in desk.tools.values() if t.writes})


def _check_scope(workspace: Workspace, scope: Scope, target: str) -> None:
    """Refuse a switch that would stop nothing. Raises Refused."""
    known = {
        Scope.WORKSPACE: [""],
        Scope.PATTERN: sorted(PATTERNS),
        Scope.TOOL: _stoppable_tools(),
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
    check_text(reason.strip(), most=_MAX_REASON)
    keep_writes_out(workspace)
    locked = Workspace.objects.select_for_update(no_key=True).get(pk=workspace.pk)
    require_member(locked, by, Role.ADMIN)
    return str(redact_in(locked, reason.strip()))


def _standing_switch(workspace: Workspace, scope: Scope, target: str) -> KillSwitch | None:
    switches = KillSwitch.objects.standing().filter(workspace=workspace)
    return switches.filter(scope=scope, target=target).first()


def _is_seen(standing: KillSwitch, seen: Set[int] | None) -> bool:
    return seen is None or standing.pk in seen


def _who_pressed(switch: KillSwitch) -> str:
    by, at = switch.pressed_by, time_here(switch.pressed_at)
    return f"{by} turned this switch on, at {at}: “{switch.reason}”. Nothing was changed."


def _say(switch: KillSwitch, stage: SwitchStage, *, by: User, reason: str, at: datetime) -> None:
    clocks = freeze(switch.workspace, at=at)
    facts: dict[str, Json] = {"scope": switch.scope, "target": switch.target}
    facts |= {"why": reason, "deadlines": clocks}
    switch.workspace.say(f"kill_switch.{stage.value}", at=at, facts=facts, actor=by.get_username())


def _not_from(now: SwitchStage, to: SwitchStage) -> str:
    if now is SwitchStage.OFF:
        return "This switch is off already. Nothing was changed."
    if to is SwitchStage.OFF:
        return "Resume for new runs first, and watch one of them finish."
    return "New runs may act already. The next stage resumes all runs."


# The data of the kill switch page, and its forms.


_IN_FLIGHT = 100  # effects shown on the page
_NEXT = {SwitchStage.ON: SwitchStage.TRIAL, SwitchStage.TRIAL: SwitchStage.OFF}
_PRESS_FIELDS = frozenset({"csrfmiddlewaretoken", "workspace", "scope", "reason", "seen"})


@dataclass(frozen=True)
class SwitchInForce:
    """A switch in force, and its next stage."""

    switch: KillSwitch
    name: str
    address: str  # form value: the scope and its target
    next: SwitchStage
    stops: str
    where: str  # the runs in which it stops that; on trial, those launched before
    leaves: str


def boards(user: User) -> list[dict[str, Json]]:
    """Return the switches of each of the person's workspaces, in five queries in all."""
    parts = Membership.objects.filter(user=user).select_related("workspace").order_by("pk")
    ids = [part.workspace_id for part in parts]
    rows, flight = standing(*ids), list(in_flight(ids)[:_IN_FLIGHT])
    frozen = Escalation.objects.filter(
        workspace__in=ids, state=EscalationState.OPEN, frozen_at__isnull=False
    )
    counts = dict(frozen.values_list("workspace_id").annotate(count=Count("pk")).order_by())
    agents = list(ExternalAgent.objects.filter(workspace__in=ids).order_by("name"))

    def board(part: Membership) -> dict[str, Json]:
        home = part.workspace_id
        stopped = [row for row in rows if row.switch.workspace_id == home]
        pressed = {row.address for row in stopped if row.switch.stage is SwitchStage.ON}
        named = [agent.name for agent in agents if agent.workspace_id == home]
        return {
            "workspace": part.workspace,
            "may_press": part.role == Role.ADMIN,
            "standing": stopped,
            "seen": " ".join(str(row.switch.pk) for row in stopped),  # by who sends the form
            "in_flight": [effect for effect in flight if effect.run.workspace_id == home],
            "frozen": counts.get(home, 0),  # requests whose deadline is paused
            "choices": [choice for choice in _choices(named) if choice[0] not in pressed],
        }

    return [board(part) for part in parts]


def standing(*workspace_ids: int) -> list[SwitchInForce]:
    """Return the switches in force or on trial in these workspaces, oldest first."""
    switches = (
        KillSwitch.objects.standing()
        .filter(workspace__in=workspace_ids)
        .select_related("workspace")
    )
    return [_standing(switch) for switch in switches]


def in_flight(workspaces: Sequence[int]) -> QuerySet[Effect]:
    """Return the writes without a known outcome, oldest first."""
    effects = Effect.objects.unsettled().in_workspaces(workspaces)
    return effects.select_related("run").order_by("intended_at", "pk")


def _standing(switch: KillSwitch) -> SwitchInForce:
    address = f"{switch.scope}:{switch.target}"
    return SwitchInForce(switch, switch.name, address, _NEXT[switch.stage], *_reach(switch))


def _reach(switch: KillSwitch) -> tuple[str, str, str]:
    """Return what a switch stops, in which runs, and what it does not."""
    rest = "Runs may still read and draft. Requests can be rejected, and actions sent back."
    runs, every = "runs" if switch.trial_at else "all runs", "Every payment, email and other change"
    if switch.scope == Scope.PATTERN:
        name = spell_out(switch.target)
        return every, f"{name} runs", f"Runs of other patterns go on. {rest}"
    if switch.scope == Scope.AGENT:
        return every, f"runs of {switch.name}", f"Others go on. {rest}"
    if switch.scope == Scope.TOOL:
        return f"Every use of “{switch.name}”", runs, f"Other tools go on. {rest}"
    return every, runs, rest


def _choices(agents: Sequence[str]) -> list[tuple[str, str]]:
    patterns = [(f"pattern:{name}", f"{spell_out(name)} runs only") for name in sorted(PATTERNS)]
    tools = [(f"tool:{name}", f"{tool_title(name)} only") for name in _stoppable_tools()]
    elsewhere = [(f"agent:{name}", f"The agent {name} only") for name in agents]
    return [("workspace:", "all payments, emails and changes"), *patterns, *elsewhere, *tools]


def read_release(posted: QueryDict) -> dict[str, Any]:
    """Return the switch that the form releases, and the stage. Raises BadForm."""
    press, to = read_press(posted, fields=_PRESS_FIELDS | {"to"}), posted.get("to", "")
    if to not in _NEXT.values():
        raise BadForm("", "There is no such stage. Load the page again.")
    return {**press, "to": SwitchStage(to)}


def read_press(posted: QueryDict, *, fields: Set[str] = _PRESS_FIELDS) -> dict[str, Any]:
    """Return the switch that the form presses, and the reason, as operations take them.

    Raises BadForm.
    """
    only(posted, fields)
    scope, _, target = posted.get("scope", "").partition(":")
    if scope not in list(Scope):
        raise BadForm("scope", "Choose what to stop: everything, a pattern, an agent or a tool.")
    seen = [whole_number(number) for number in posted.get("seen", "").split()]
    if None in seen:
        raise BadForm("", "The form names no kill switch. Load the page again.")
    reason = posted.get("reason", "").strip()
    return {"scope": Scope(scope), "target": target, "reason": reason, "seen": frozenset(seen)}
