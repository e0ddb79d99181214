"""What the page of the kill switches shows, and what its forms ask for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from django.contrib.auth.models import User
from django.db.models import Count, Q, QuerySet
from django.http import QueryDict

from agents import operations
from agents.core.states import EffectState, EscalationState
from agents.models import Effect, Escalation, KillSwitch, Membership, Role, Scope, Stage, Workspace
from agents.patterns import PATTERNS
from agents.web.forms import BadForm, only

IN_FLIGHT = 100  # effects shown for one workspace
NEXT = {Stage.ON: Stage.TRIAL, Stage.TRIAL: Stage.OFF}
PRESS_FIELDS = {"csrfmiddlewaretoken", "workspace", "scope", "reason"}
RELEASE_FIELDS = PRESS_FIELDS | {"to"}


@dataclass(frozen=True)
class Standing:
    """A switch that stops something, and the stage that comes next."""

    switch: KillSwitch
    name: str
    address: str  # what the form sends: the scope and its target
    next: Stage


@dataclass(frozen=True)
class Board:
    """The switches of one workspace, for one person."""

    workspace: Workspace
    may_press: bool
    standing: Sequence[Standing]
    in_flight: Sequence[Effect]  # begun, and nobody knows yet what became of them
    frozen: int  # requests whose deadline stands still
    choices: Sequence[tuple[str, str]]  # what else could be pressed


@dataclass(frozen=True)
class Asked:
    """A press or a release as it was filled in."""

    scope: Scope
    target: str
    reason: str


def boards(user: User) -> list[Board]:
    """Return the switches of each of the person's workspaces."""
    parts = Membership.objects.filter(user=user).select_related("workspace").order_by("pk")
    return [_board(part) for part in parts]


def standing(*workspace_ids: int) -> list[Standing]:
    """Return what is stopped or on trial in some workspaces, oldest first."""
    switches = (
        KillSwitch.objects.standing()
        .filter(workspace__in=workspace_ids)
        .select_related("workspace")
    )
    return [_standing(switch) for switch in switches]


def in_flight(workspace: Workspace) -> QuerySet[Effect]:
    """Return the writes that began and are not resolved, the longest under way first."""
    unresolved = Q(state=EffectState.INTENDED) | Q(state=EffectState.UNKNOWN)
    found = Effect.objects.filter(unresolved, run__workspace=workspace).select_related("run")
    return found.order_by("intended_at", "pk")


def _board(part: Membership) -> Board:
    stopped = standing(part.workspace_id)
    pressed = {row.address for row in stopped if row.switch.stage is Stage.ON}
    frozen = Escalation.objects.filter(
        workspace=part.workspace, state=EscalationState.OPEN, frozen_at__isnull=False
    ).aggregate(count=Count("pk"))
    return Board(
        workspace=part.workspace,
        may_press=part.role == Role.ADMIN,
        standing=stopped,
        in_flight=list(in_flight(part.workspace)[:IN_FLIGHT]),
        frozen=frozen["count"],
        choices=[choice for choice in _choices() if choice[0] not in pressed],
    )


def _standing(switch: KillSwitch) -> Standing:
    return Standing(switch, switch.name, f"{switch.scope}:{switch.target}", NEXT[switch.stage])


def _choices() -> list[tuple[str, str]]:
    patterns = [(f"pattern:{name}", f"pattern {name}") for name in sorted(PATTERNS)]
    tools = [(f"tool:{name}", f"tool {name}") for name in operations.stoppable_tools()]
    return [("workspace:", "all writes"), *patterns, *tools]


def read_press(posted: QueryDict) -> Asked:
    """Return what the form presses. Raises BadForm."""
    return _asked(posted, PRESS_FIELDS)


def read_release(posted: QueryDict) -> tuple[Asked, Stage]:
    """Return what the form releases, and to which stage. Raises BadForm."""
    asked, to = _asked(posted, RELEASE_FIELDS), posted.get("to", "")
    if to not in NEXT.values():
        raise BadForm("", "There is no such stage. Load the page again.")
    return asked, Stage(to)


def _asked(posted: QueryDict, fields: set[str]) -> Asked:
    only(posted, fields)
    scope, _, target = posted.get("scope", "").partition(":")
    if scope not in list(Scope):
        raise BadForm("scope", "Choose what to stop: all writes, a pattern or a tool.")
    return Asked(Scope(scope), target, posted.get("reason", "").strip())
